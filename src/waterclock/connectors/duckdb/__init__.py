"""Tables and queries of DuckDB databases, and tables delivered to them: the modules of SQLite and PostgreSQL again."""

from __future__ import annotations
