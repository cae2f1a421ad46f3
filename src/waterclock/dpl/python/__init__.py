"""Reads declarations from Python files: loads the files, builds statements from them, and fingerprints functions."""
