"""Reads tables and queries of DuckDB databases, and delivers tables to them. The modules are as in `sqlite`."""
