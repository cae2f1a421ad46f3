"""The database of a ledger: its tables, how it is opened and brought up to date, and how it is exported."""

from __future__ import annotations
