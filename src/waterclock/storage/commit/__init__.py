"""Commits slices to a Delta table: by pointers to the sealed files where possible, else by a write of Spark."""
