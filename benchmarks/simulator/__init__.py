"""How fast the simulator is, how much memory it takes, and how both grow."""
