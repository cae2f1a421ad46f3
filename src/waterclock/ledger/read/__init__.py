"""Queries of a ledger: its current state, its past states, and the dependencies between batches.

Start here for:

- the planner's view of all tables: `snapshot`
- the history of a batch, the grid of states and the status tables: `status`
- the current slices of a table, and its content at a tick: `current`; all revisions: `revisions`
- the inputs and readers of a batch: `inputs` (direct), `provenance` (all)
- queries as known at an earlier time: `table_history`, `states`
"""
