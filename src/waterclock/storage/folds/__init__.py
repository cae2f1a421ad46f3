"""Computes the states of MERGE and TEMPORAL tables from slices, and commits them.

To fold slices means to compute from their rows the state that results. `merge` and `versions` compute the rows of a
state, and `write_state` writes it. `winners_at_head` and `temporal_commit` change it for a late label. `older_states`
finds the state at an earlier label. The commit of each batch calls them (`engine.batch.commit`).
"""
