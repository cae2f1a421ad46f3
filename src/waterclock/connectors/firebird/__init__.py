"""Reads tables and queries of Firebird databases, and delivers tables to them, on the shared core in `sql`."""
