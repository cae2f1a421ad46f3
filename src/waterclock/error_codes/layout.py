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
    "E372": Code(
        "invalid CLUSTER BY",
        "The rows of a label cannot be split into files by the columns. CLUSTER BY names one to three columns, each "
        "once. It cannot name `timelabel`, which has one value in a slice, a column without least and greatest values "
        "in Delta's log (BOOLEAN, BINARY, ARRAY, STRUCT, MAP), or a column with RETIRE, which ends. It orders the rows "
        "of each file, so SORT BY cannot be beside it. The files of a MERGE or TEMPORAL table are replaced as rows "
        "change, and cannot be split: use SORT BY. It needs a shuffle, which SHUFFLE NONE excludes.",
    ),
    "E373": Code(
        "invalid BUCKET BY",
        "The rows of a label cannot be in buckets. BUCKET BY is for PARTITIONED tables. It names each column once, and "
        "2 to 1024 buckets. It cannot name `timelabel`, which has one value in a slice, a column of a type without an "
        "order (MAP), or a column with RETIRE, which ends. It orders the rows of each file and moves them between "
        "tasks, so SORT BY, CLUSTER BY and SHUFFLE NONE cannot be beside it.",
    ),
    "E374": Code(
        "invalid PARTITION BY",
        "A label cannot have a file for each value of the column. PARTITION BY names one column. It cannot name "
        "`timelabel`, a column without least and greatest values in Delta's log (BOOLEAN, BINARY, ARRAY, STRUCT, MAP), "
        "or a column with RETIRE, which ends. The files of a MERGE or TEMPORAL table are replaced as rows change, and "
        "cannot be split. CLUSTER BY and BUCKET BY split the rows in another way. It needs a shuffle, which SHUFFLE "
        "NONE excludes.",
    ),
    "E376": Code(
        "SHUFFLE SALT",
        "Salting splits a frequent key into several, combines each, and combines the results. Spark already combines "
        "the rows of a key in each task before the shuffle, so a frequent key costs one row for each task; a salt adds "
        "a second shuffle. Windows, joins and exact percentiles need all rows of a key, and cannot be salted without "
        "changing the query. Leave it out. The skew of each batch is recorded: `audit` shows it.",
    ),
    "E385": Code(
        "SHUFFLE NONE on a query that shuffles",
        "Spark certainly moves rows between its tasks to make the table: its query groups, ranks, sorts or limits the "
        "rows of a table, which several tasks read. Let one task read them, as in `FROM (SELECT /*+ COALESCE(1) */ * "
        "FROM raw.orders)`, or remove SHUFFLE NONE. A MERGE or TEMPORAL table always needs a shuffle, and so does "
        "REFERENCES with ELSE. Other queries are checked by the plan of each batch (E775).",
    ),
}
LAYOUT_AT_WORK: Mapping[str, Code] = {
    "E774": Code(
        "SORT BY, CLUSTER BY, PARTITION BY or BUCKET BY a column that the rows do not have",
        "The batch has no column of that name, or its type has no order or no bounds. `check` reports this before the "
        "batch if it knows the columns of the table. Nothing was written. Another such clause makes no "
        "batch again.",
    ),
    "E776": Code(
        "too many values of PARTITION BY",
        "A label has more than 200 values of the column, each of which would have a file. Many small files are slow to "
        "write, to list and to read. Nothing was committed. Write CLUSTER BY instead, which splits rows into files of "
        "about 64 MB, or partition by a coarser column, such as the country instead of the city. Then retry the batch.",
    ),
    "E775": Code(
        "a batch of SHUFFLE NONE that would shuffle",
        "Spark's plan of the batch has an exchange: it moves rows between tasks. The error names the exchanges, their "
        "keys and the parts of the query that need them. Nothing was committed. Let one task read the rows, as in "
        "`FROM (SELECT /*+ COALESCE(1) */ * FROM raw.orders)`, or remove SHUFFLE NONE. Then retry the batch.",
    ),
}
