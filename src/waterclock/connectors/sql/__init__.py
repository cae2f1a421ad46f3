"""The shared code of the connectors of databases: what SQLite, DuckDB, PostgreSQL and MariaDB have in common.

Each database adds its dialect and its own ways to read and write many rows.
"""

from __future__ import annotations
