"""Reads statements from Python files: runs the files, converts calls to statements, and fingerprints functions."""
