"""Error codes of the clauses that arrange the rows of a table in its files."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

LAYOUT: Mapping[str, Code] = {
    "E384": Code(
        "invalid SORT BY",
        "Rows cannot be sorted by the column. SORT BY names each column once. It cannot name `timelabel`, which has "
        "one value in a slice, a column of a type without an order (MAP), or a column with RETIRE, which ends.",
    ),
}
LAYOUT_AT_WORK: Mapping[str, Code] = {
    "E774": Code(
        "SORT BY a column that the rows do not have",
        "The batch has no column of that name, or its type has no order. `check` reports this before the batch if it "
        "knows the columns of the table. Nothing was written. A changed SORT BY makes no batch again.",
    ),
}
