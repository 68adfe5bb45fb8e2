"""Pure state machines of the balancer."""
