"""Where nodes come from besides this machine: one package per way; ``standin`` is how launchers reach them."""
