"""Reads tables and queries of Firebird databases, and delivers tables to them."""
