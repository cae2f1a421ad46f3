"""Names and types of the origin fields of collected rows: `_source.file` and `_source.row` in a column list."""

from __future__ import annotations

SOURCE = "_source"
TYPES = {"file": "STRING", "row": "BIGINT"}
"""The origin fields and their types: the file, and the number of the row in it, from 1; NULL if unknown."""

# the names of the origin columns in collected rows, if they are requested
IN_ROWS = {"file": "_waterclock_source_file", "row": "_waterclock_source_row"}
