"""Codes of errors of lineage: of who depends on a column, and of telling other tools by OpenLineage."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

LINEAGE: Mapping[str, Code] = {
    "E378": Code(
        "the impact of a whole table",
        "`lineage --impact` follows one column, written schema.table.column. What a whole table goes into is told "
        "without --impact.",
    ),
}
