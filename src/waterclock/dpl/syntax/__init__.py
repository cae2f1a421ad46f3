"""Parses text into tokens, clauses and statements with their places, and reports syntax errors. Knows no flow."""
