"""Maintains a project: cleans up, rebuilds tables and the ledger, and repairs damage.

Start here for:

- maintain: `maintain`, with the slices that may be deleted in `unneeded_slices`
- rebuild of one table: `rebuild`, with other windows: `rewindowing`
- rebuild of all tables: `rebuild_all`; the second set of tables: `second_set`; its installation: `table_set_move`
- rebuild and move of the ledger: `ledger_rebuild`, `ledger_move`
- reset of a table, and drop of its oldest windows: `reset`, `user_drop`
- damaged slices: `repair`
"""
