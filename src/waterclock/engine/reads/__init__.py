"""Reads the inputs of a batch: pinned states as DataFrames, and the joins of FLAT."""
