"""Error codes of changed columns: at the source, in a table, and for the readers of a table."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

SCHEMAS: Mapping[str, Code] = {
    "E290": Code(
        "incomplete schema clause",
        "The clause needs a valid keyword. ON SCHEMA CHANGE takes ADD, IGNORE, TEXT, HOLD or FAIL, for a batch whose "
        "source has different columns than before. COMPATIBLE takes BACKWARD, FORWARD or FULL, optionally followed by "
        "TRANSITIVE, and defines which versions can be read.",
    ),
    "E291": Code(
        "ON SCHEMA CHANGE without effect",
        "The column list already determines the result. A closed list accepts no new columns, and a column with a "
        "declared type is not read as text. Remove the clause or open the list.",
    ),
    "E292": Code(
        "invalid RETIRE",
        "RETIRE is not possible on this column. A retired column is NULL from its day on. It cannot be a KEY, cannot "
        "combine rows, and cannot have rules. Until then, it must be in the rows or be computed from remaining "
        "columns: AS (expression).",
    ),
}
RENAMES: Mapping[str, Code] = {
    "E317": Code(
        "invalid WAS",
        "The rename is not valid. `TRANSFORM sales.daily WAS shop.daily` renames a table with its history. No other "
        "statement can have the former name, and only one table can take it over.",
    ),
    "E318": Code(
        "rename not possible",
        "The history of a table continues under its new name only if the new name has no batches. The ledger must know "
        "the former name; otherwise the table would start over and its history would be unused. An older flow with the "
        "former name would have the same effect.",
    ),
}
SCHEMAS_KEPT: Mapping[str, Code] = {
    "E450": Code(
        "broken COMPATIBLE promise",
        "The change of columns breaks the declared compatibility. BACKWARD: the current columns can read rows of the "
        "preceding version. FORWARD: readers of the preceding version can read new rows. FULL is both, and TRANSITIVE "
        "applies to all kept versions. Nullable columns can be added and removed, and a type can change to one that "
        "contains all its values.",
    ),
    "E451": Code(
        "retired column in use",
        "The retirement day of the column has come, but a table or a publish still names it or selects it with `*`. "
        "The column stays until no reader uses it, so that it never becomes NULL unnoticed. A Python function that "
        "reads the table may read any of its columns.",
    ),
    "E452": Code(
        "retirement in the past",
        "The retirement day of the column was over before a batch of the table announced it. RETIRE gives readers time "
        "to adapt, and `check` and each batch announce it. A table without batches has no readers to inform.",
    ),
}
SCHEMAS_AT_WORK: Mapping[str, Code] = {
    "E770": Code(
        "changed source columns",
        "The columns of the source differ from the preceding version: columns were added, removed or changed their "
        "type. ON SCHEMA CHANGE FAIL stops the batch, and no row was taken. `waterclock show TABLE` lists the "
        "versions.",
    ),
    "E771": Code(
        "missing required column",
        "The source no longer has a required column. With ON SCHEMA CHANGE ADD, IGNORE or TEXT, a removed column "
        "becomes NULL. This is not possible for a KEY or NOT NULL column. Columns that order or delete rows of a MERGE "
        "or TEMPORAL table are required too.",
    ),
    "E772": Code(
        "batch that breaks COMPATIBLE",
        "The columns of the batch are not compatible with the kept versions (see E450). Nothing was written.",
    ),
    "E773": Code(
        "column removed before its retirement",
        "The column is missing before its RETIRE day. Until that day, the rows must contain the column, or AS must "
        "define its value.",
    ),
}
