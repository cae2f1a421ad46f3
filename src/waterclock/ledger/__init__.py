"""The durable record of every batch: claims, revisions, inputs, events. An index over commit records.

Opening a ledger imports SQLAlchemy. The facts and records that planner and engine exchange do not need it.
"""
