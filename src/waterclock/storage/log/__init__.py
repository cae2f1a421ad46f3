"""A table's Delta log read as files: its commits, what they say of batches, and the files that are live."""

from __future__ import annotations
