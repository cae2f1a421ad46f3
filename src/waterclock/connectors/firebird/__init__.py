"""Reads tables and queries of Firebird databases, and delivers tables to them. The modules are as in `sqlite`."""
