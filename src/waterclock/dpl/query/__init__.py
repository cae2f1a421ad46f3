"""Analyzes queries: the tables and columns that they name, the origins of columns, and queries that are refused."""
