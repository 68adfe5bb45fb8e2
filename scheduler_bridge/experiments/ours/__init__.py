"""All policies on all workloads, and this project's own policy among them."""
