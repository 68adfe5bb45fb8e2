"""Unbalanced Tree Search: count the nodes of a tree that exists only as a hash function.

Source: Olivier et al., "UTS: An Unbalanced Tree Search Benchmark", LCPC 2006.
"""
