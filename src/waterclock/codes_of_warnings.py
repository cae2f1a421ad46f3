"""Codes of the warnings of `check`: the project runs, but its results may differ from the intended ones."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

WARNINGS: Mapping[str, Code] = {
    "W201": Code(
        "an answer that hangs on the order of rows",
        "A warning of `check`: the project runs. Spark promises no order of rows, so LIMIT without ORDER BY, `first`, "
        "a gathered list, or `row_number` where rows tie may come out otherwise when the same batch is made again. "
        "What is known to be unique, by KEY in column lists, by GROUP BY or DISTINCT, is not warned of.",
    ),
    "W202": Code(
        "timelabel comes along unseen",
        "A warning of `check`: the project runs. Every table has the column timelabel, so a NATURAL JOIN of two goes "
        "by it as well, and a function of a `*`, as `struct(o.*)`, takes it in. Name the columns, or say EXCEPT "
        "(timelabel).",
    ),
    "W203": Code(
        "a date in a file's name that nothing declares",
        "A warning of `check` and `run`: the project runs. Files that a glob finds have a date in their names, such as "
        "orders_20261110.csv, but no time of day, so the time of their last change is their stamp. A copy of old files "
        "is then as young as the copying. OPTIONS (stamp '%Y%m%d') declares the date; OPTIONS (stamp 'changed') "
        "declares that the last change is meant.",
    ),
    "W204": Code(
        "a text that is read in UTC",
        "A warning of `check`: the project runs. In a table whose zone is not UTC, `to_timestamp(text)` and a CAST of "
        "a text read a time without an offset in UTC. A column that is declared TIMESTAMP reads it in the table's "
        "zone. Literals, and patterns with an offset, are not warned of.",
    ),
}
