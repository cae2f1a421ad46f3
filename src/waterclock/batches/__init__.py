"""Defines data classes for batches, their revisions and audit trail, for ledger, planner and engine. Pure data."""
