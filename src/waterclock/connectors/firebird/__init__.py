"""Reads tables and queries of Firebird databases, and delivers tables to them. The shared code is in `sql`."""
