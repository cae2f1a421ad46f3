"""Folds slices into the states of MERGE and TEMPORAL tables, and restates them in place."""
