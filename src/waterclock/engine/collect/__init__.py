"""Collects batches: the state of a source, and the rows of it that belong to a batch."""
