"""Error codes of publishing: computed columns, and copies of files."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

PUBLISHING: Mapping[str, Code] = {
    "E284": Code(
        "a column that cannot be sent so",
        "A list of a PUBLISH with `name AS (expression)` says all that goes out, and makes each row of its own "
        "columns: without a `*`, which lets in what comes later, without aggregates, other rows, or several of one.",
    ),
    "E285": Code(
        "a key that is not sent as it is",
        "A MERGE finds rows at the destination by their key. What is made of a key may be the same for two rows, so a "
        "key goes out as it is, by its name or another; a pseudonym that is a key is made in a TRANSFORM, where KEY "
        "holds it to be unique.",
    ),
    "E286": Code(
        "a function that is not known",
        "Queries, rules, and what a PUBLISH makes of columns, call functions of Spark's, those that Waterclock brings, "
        "and those of CREATE FUNCTION. In queries it is not checked where a Spark Connect server, `packages` or "
        "`spark.sql.extensions` may add functions.",
    ),
    "E287": Code(
        "nothing to copy",
        "A PUBLISH with `format 'raw'` into files copies the files of a COLLECT with `format 'raw'`, whole and label "
        "by label. What was read of files, or made by a query, has a format of its own.",
    ),
}
COPIES: Mapping[str, Code] = {
    "E383": Code(
        "a file that is not copied",
        "Each file is copied from the archive under its checksum, and the copy read back. One that is gone, or holds "
        "something else than when it was collected, stops its batch; nothing of that is sent.",
    ),
}
