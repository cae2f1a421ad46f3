"""Queries of a ledger: its current state, its past states, and the dependencies between batches."""
