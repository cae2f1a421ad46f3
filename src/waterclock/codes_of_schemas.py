"""Error codes of changed columns: at the source, in a table, and for the readers of a table."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

SCHEMAS: Mapping[str, Code] = {
    "E290": Code(
        "a word that says nothing of columns that change",
        "ON SCHEMA CHANGE says what becomes of a batch whose source has other columns than before: ADD, IGNORE, TEXT, "
        "HOLD or FAIL. COMPATIBLE says who can read what: BACKWARD, FORWARD or FULL, and TRANSITIVE behind it.",
    ),
    "E291": Code(
        "ON SCHEMA CHANGE beside a list that decides already",
        "A closed column list takes no new columns, and a type that is declared is not taken as text.",
    ),
    "E292": Code(
        "RETIRE said wrongly",
        "A column that ends is NULL from that day on: it is no KEY, no column that rows are put together by, and has "
        "no rules. Until then the rows bring it, or it is made of columns that stay: AS (expression).",
    ),
}
RENAMES: Mapping[str, Code] = {
    "E317": Code(
        "WAS said wrongly",
        "`TRANSFORM sales.daily WAS shop.daily` renames a table with its history: nothing else has that name any more, "
        "and one table alone takes it over.",
    ),
    "E318": Code(
        "a rename that is not to be",
        "The history of a table goes on under its new name, where nothing was made yet. A former name that the ledger "
        "does not know would begin the table anew while its history lies idle; so would an older flow that still has "
        "the former name.",
    ),
}
SCHEMAS_KEPT: Mapping[str, Code] = {
    "E450": Code(
        "a promise of COMPATIBLE that is broken",
        "BACKWARD: the columns of today read what was written with those before. FORWARD: who reads by those before "
        "reads what is written from now on. FULL is both, and TRANSITIVE asks all versions that are kept. What may be "
        "null may come and go; a type may become one that holds all of its values.",
    ),
    "E451": Code(
        "a column that ends, and is read",
        "Its day has come, and a table or a publish still names it, or takes all columns by a *. It lives on until "
        "none does: a column that another table reads is never NULL unseen. A Python function that reads the table may "
        "read any of its columns.",
    ),
    "E452": Code(
        "a retirement in the past",
        "RETIRE gives those who read a column time to move on. Its day has come before any batch of the table "
        "announced it; `check` and each batch report that. A table without batches has no readers to inform.",
    ),
}
SCHEMAS_AT_WORK: Mapping[str, Code] = {
    "E770": Code(
        "a source whose columns changed",
        "ON SCHEMA CHANGE FAIL stops the batch that would bring columns which came, went or have another type than the "
        "version before. Nothing was taken; `waterclock show TABLE` lists the versions.",
    ),
    "E771": Code(
        "a column that cannot be done without",
        "A column that the source has no longer becomes NULL, if ON SCHEMA CHANGE says ADD, IGNORE or TEXT. One that "
        "is a KEY, is NOT NULL, or orders or deletes rows of a MERGE or TEMPORAL table does not.",
    ),
    "E772": Code(
        "a batch that would break what COMPATIBLE promises",
        "The columns that it brings do not go with the versions that are kept, as E450 says. Nothing was written.",
    ),
    "E773": Code(
        "a column that went before its end",
        "RETIRE says until when both shapes live. Until that day the rows bring the column, or AS says of what it is "
        "made.",
    ),
}
