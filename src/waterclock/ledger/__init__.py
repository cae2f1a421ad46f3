"""The durable record of every batch: claims, revisions, inputs, events. An index over commit records.

Opening a ledger imports SQLAlchemy; the facts and records that the planner and the engine speak do not.
"""

from __future__ import annotations
