"""Reads statements from Python files: runs the files, converts their calls to statements, fingerprints functions."""
