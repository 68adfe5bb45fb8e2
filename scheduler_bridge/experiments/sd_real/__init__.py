"""Real jobs that share nodes under SD-Policy, beside static backfill, on nodes that one machine emulates."""
