"""Where nodes come from besides this machine: one package per batch system."""
