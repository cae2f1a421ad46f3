"""Commits that add slices to a table: pointers to the sealed files where possible, else a write by Spark."""
