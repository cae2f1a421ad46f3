"""Computes the rows of open windows every some seconds, next to the batches of a watching run (CONTINUOUS)."""
