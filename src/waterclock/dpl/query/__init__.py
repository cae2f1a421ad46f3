"""Analyzes queries: the tables and columns they name, the origins of columns, and columns that no table can store."""
