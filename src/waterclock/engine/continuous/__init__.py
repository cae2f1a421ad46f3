"""Computes the rows of open windows every few seconds, next to the batches of a watching run (CONTINUOUS)."""
