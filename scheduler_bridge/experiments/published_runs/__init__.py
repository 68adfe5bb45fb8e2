"""The 240 real runs of the 2024 paper on 32 nodes, replayed in the simulator."""
