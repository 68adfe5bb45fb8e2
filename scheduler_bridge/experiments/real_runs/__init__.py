"""The 2024 paper's batches as real jobs of this project, on nodes that one machine emulates, in scaled time."""
