"""The database of a ledger: its tables, opening and upgrading it, and exporting it."""
