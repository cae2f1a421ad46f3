"""Shared code of the connectors for SQLite, DuckDB, PostgreSQL, MariaDB, MySQL and Firebird.

Each database adds its dialect and its own ways to read and write many rows.
"""
