"""The 2019 paper (SD-Policy): jobs that would wait share nodes with running ones, at most so much slowed down."""
