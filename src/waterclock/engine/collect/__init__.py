"""Collects batches: queries the state of a source, and reads the rows that belong to a batch."""
