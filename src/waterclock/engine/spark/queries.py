"""Runs read-only queries in Spark, with `:name` values: bound by Spark, or written as literals over Connect."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from waterclock.dpl.syntax.tokens import dialect
from waterclock.engine.spark.connect import is_remote
from waterclock.engine.spark.plan_check import check_plan, require_no_command
from waterclock.spark_sql import sql_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def build_query_frame(
    spark: SparkSession,
    text: str,
    values: Mapping[str, Any],
    *,
    check: Callable[[list[dict[str, Any]]], None] | None = None,
) -> DataFrame:
    """Return a DataFrame of a query, after checking that it only reads. Nothing is executed here.

    Over Spark Connect the plan is not available: parentheses around the text exclude commands, and its reads are left
    to the checks of the text and to the server. Values are literals there, since Delta's parser does not bind them.
    `check` is a further check of Spark's analysed plan, as JSON; it is not called over Spark Connect. Raises E733 for a
    query that does more than read the views bound to it.
    """
    if is_remote(spark):
        return spark.sql(f"({insert_values(text, values) if values else text}\n)")
    require_no_command(spark, text)
    rows = spark.sql(text, args={name: _bind_value(value) for name, value in values.items()})
    plan = check_plan(rows)
    if check is not None:
        check(plan)
    return rows


def insert_values(text: str, values: Mapping[str, Any]) -> str:
    """Replace each `:name` by the literal of its value, except within strings, quoted names and paths."""
    tokens = dialect().tokenize(text)
    pieces, copied = [], 0
    for at, (colon, name) in enumerate(pairwise(tokens)):
        before = tokens[at - 1] if at else None
        is_path = before is not None and before.end + 1 == colon.start and before.text not in _BEFORE_A_VALUE
        if colon.text == ":" and not is_path and name.start == colon.end + 1 and name.text in values:
            pieces += [text[copied : colon.start], literal_of(values[name.text])]
            copied = name.end + 1
    return "".join([*pieces, text[copied:]])


def _bind_value(value: Any) -> Any:
    """Return a value to bind in Spark: a time without an offset is UTC, not in the zone of this machine."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value


_BEFORE_A_VALUE = frozenset("(,=<>+-*/%|&^![")


def literal_of(value: Any) -> str:  # noqa: PLR0911 - one kind after the other
    """Write a value as a Spark literal, of the type that Spark would give it as a parameter."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value) if value >= 0 else f"({value})"
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)" if not math.isfinite(value) else f"({value!r}D)"
    if isinstance(value, datetime):
        local = (value if value.tzinfo is None else value.astimezone(UTC)).replace(tzinfo=None)
        return f"TIMESTAMP'{local.isoformat(sep=' ')}Z'"
    if isinstance(value, date):
        return f"DATE'{value.isoformat()}'"
    if value is None:
        return "NULL"
    return sql_text(str(value))
