"""Error codes of lineage: dependencies on a column, and events sent to other tools with OpenLineage."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

LINEAGE: Mapping[str, Code] = {
    "E378": Code(
        "impact of a whole table",
        "`lineage --impact` takes one column, written schema.table.column. For a whole table, use `lineage` without "
        "--impact.",
    ),
    "E379": Code(
        "no destination for lineage events",
        "The project has no [openlineage], or its environment does not set openlineage = true. Or the library "
        "openlineage-python, which is an extra of Waterclock, is not installed.",
    ),
    "E917": Code(
        "invalid [openlineage] section",
        "The section is not valid. [openlineage] accepts the url of a server, with a token if required, or a file. It "
        "also accepts a namespace for all jobs and tables of the project.",
    ),
}
