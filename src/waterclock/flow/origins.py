"""The origin of a row that a source can provide: `_source.file` and others, in a COLLECT's columns. Pure data."""

from __future__ import annotations

SOURCE = "_source"
TYPES = {"file": "STRING", "row": "BIGINT"}
"""The parts of an origin: the file as manifests name it, and the row's number in it, from 1; NULL if unknown."""
LATER = ("line", "offset", "partition", "timestamp", "key", "headers")

# the names of the origin columns in collected rows, if they are requested
IN_ROWS = {"file": "_waterclock_source_file", "row": "_waterclock_source_row"}
