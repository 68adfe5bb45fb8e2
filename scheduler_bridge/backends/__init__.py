"""Where nodes come from besides this machine: one package per way; ``standin`` is how mpiexec reaches them."""
