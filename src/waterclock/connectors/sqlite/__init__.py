"""Tables and queries of SQLite databases, and tables delivered to them."""

from __future__ import annotations
