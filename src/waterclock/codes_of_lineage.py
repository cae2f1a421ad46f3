"""Error codes of lineage: dependencies on a column, and events sent to other tools with OpenLineage."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

LINEAGE: Mapping[str, Code] = {
    "E378": Code(
        "the impact of a whole table",
        "`lineage --impact` follows one column, written schema.table.column. What a whole table goes into is told "
        "without --impact.",
    ),
    "E379": Code(
        "events of lineage that go nowhere",
        "The project has no [openlineage], its environment does not say openlineage = true, or the library "
        "openlineage-python, which is an extra of Waterclock, is not installed.",
    ),
    "E917": Code(
        "an [openlineage] that cannot be read",
        "It takes the address of a server as url, with a token if need be, or a file; and a namespace for all of the "
        "project's jobs and tables.",
    ),
}
