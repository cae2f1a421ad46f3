"""The database that records claims, revisions, inputs and events. Most of it can be rebuilt from commits.

Opening a ledger imports SQLAlchemy. The data classes that planner and engine exchange are in `waterclock.batches`,
which does not import it.
"""
