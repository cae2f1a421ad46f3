"""What a batch, its revisions and its audit trail are, as data: what ledger, planner and engine speak of. Pure."""

from __future__ import annotations
