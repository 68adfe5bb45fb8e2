"""Places, async and finish over dynamically spawned processes, with programs that grow and shrink."""
