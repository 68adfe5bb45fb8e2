"""The embedded malleable batch scheduler and its bridge to running jobs."""
