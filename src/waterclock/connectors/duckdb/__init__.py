"""Reads tables and queries of DuckDB databases, and delivers tables to them."""
