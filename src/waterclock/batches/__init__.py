"""Data classes for batches, their revisions and audit trail, shared by ledger, planner and engine. Pure data."""
