"""Shared code of the connectors for the databases SQLite, DuckDB, PostgreSQL, MariaDB and Firebird.

Each database adds its dialect and its own ways to read and write many rows.
"""
