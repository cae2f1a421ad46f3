"""Parses DPL text into tokens, clauses and statements with their positions, and reports syntax errors."""
