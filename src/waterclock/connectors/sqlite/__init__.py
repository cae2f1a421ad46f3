"""Reads tables and queries of SQLite databases, and delivers tables to them."""
