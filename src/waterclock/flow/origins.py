"""Names and types of the origin of a collected row: `_source.file` and `_source.row` in the columns of a COLLECT."""

from __future__ import annotations

SOURCE = "_source"
TYPES = {"file": "STRING", "row": "BIGINT"}
"""The parts of an origin with their types: the file, and the row's number in it, from 1; NULL if unknown."""
LATER = ("line", "offset", "partition", "timestamp", "key", "headers")

# the names of the origin columns in collected rows, if they are requested
IN_ROWS = {"file": "_waterclock_source_file", "row": "_waterclock_source_row"}
