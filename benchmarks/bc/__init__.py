"""Betweenness centrality of an R-MAT graph: static blocks of sources, exact to the bit for any division of them."""
