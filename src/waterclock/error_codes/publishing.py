"""Error codes of publishing: computed columns, and copies of files."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

PUBLISHING: Mapping[str, Code] = {
    "E284": Code(
        "unsupported column expression in a PUBLISH",
        "The expression is not supported. In the list of a PUBLISH, `name AS (expression)` computes a column from the "
        "same row. The list is the complete output. `*` is refused, because it would include later columns. "
        "Aggregates, other rows and expressions that return several rows are refused too.",
    ),
    "E285": Code(
        "computed key in a PUBLISH",
        "A MERGE finds rows at the destination by key, and a computed key can be equal for two rows. Publish the key "
        "unchanged, with its own or another name. Create a pseudonymous key in a TRANSFORM, where KEY ensures that it "
        "is unique.",
    ),
    "E286": Code(
        "unknown function",
        "Neither Spark nor Waterclock has this function, and no CREATE FUNCTION declares it. A query also cannot call "
        "`skew`, `k_anonymity` or `l_diversity`, which are aggregates for rules. Queries, rules, functions "
        "and computed columns of a PUBLISH are checked. Queries and functions are not checked if a Spark Connect "
        "server, `packages` or `spark.sql.extensions` may add functions.",
    ),
    "E287": Code(
        "no files to copy",
        "A PUBLISH with `format 'raw'` to files copies the files of a COLLECT with `format 'raw'`, whole and label by "
        "label. The published table is not such a COLLECT. Rows read from files or returned by a query need a format "
        "of their own.",
    ),
    "E381": Code(
        "personal data published without a decision",
        "A PUBLISH sends a column that has the tag `pii`, inherits it, or comes from `decrypt` or `detokenize`. Mask "
        "the column in the list of the PUBLISH, or write TAGS (pii) there to send it, or TAGS (no_pii) if it "
        "identifies no person. A column inherits the tag from the columns that it is computed from, unless "
        "`mask_text`, `hash_keyed`, `encrypt` or `generalize` is applied to them, they are only counted, or the column "
        "has TOKENS.",
    ),
}
COPIES: Mapping[str, Code] = {
    "E383": Code(
        "file not copied",
        "A file is missing from the archive, or differs from the file that was collected. Its batch stops and delivers "
        "nothing. Each file is copied with its checksum, and the copy is read back.",
    ),
}
