"""Folds slices into the states of MERGE and TEMPORAL tables, and restates them in place.

`merge` and `versions` compute the rows of a state, `write_state` writes it, `winners_at_head` and `place_versions`
restate it for a late label, `older_states` finds the state at an earlier label.
"""
