"""What a source tells of where a row came from: `_source.file` and the like, in a COLLECT's columns. Pure."""

from __future__ import annotations

SOURCE = "_source"
TYPES = {"file": "STRING", "row": "BIGINT"}
"""What can be told: the file by the name that manifests list, and where in it the row is, from 1; NULL if not known."""
LATER = ("line", "offset", "partition", "timestamp", "key", "headers")

# what collected rows carry beside their columns, where it is asked for
IN_ROWS = {"file": "_waterclock_source_file", "row": "_waterclock_source_row"}
