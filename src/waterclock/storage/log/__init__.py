"""Reads a table's Delta log as files: its commits, the batches that they record, and the live files."""
