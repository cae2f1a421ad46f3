"""Maintains a project: cleans up, rebuilds tables and the ledger, and repairs damage."""
