"""Benchmarks whose places are killed with `kill -9` at random: are the results exact, and how soon does it go on?"""
