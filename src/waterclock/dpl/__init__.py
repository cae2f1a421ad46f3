"""Compiles statements in DPL and Python to declarations, and resolves the references in their queries. Pure."""
