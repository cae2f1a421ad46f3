"""Refuses the batch of a table with SHUFFLE NONE if Spark's plan of its rows has an exchange."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from waterclock.engine.reads.bucketed_inputs import reasons_without_buckets
from waterclock.engine.spark.exchanges import exchanges_in, final_plan, first_plan
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_NAMED = 3


@contextmanager
def require_no_shuffle(table: Table, where: str, flow: Flow, rows: DataFrame, path: str) -> Iterator[None]:
    """Raise E775 before rows are written if their plan has an exchange, or afterwards if the final plan has one.

    The final plan, after adaptive execution, is not available over Spark Connect. Cost: planning the rows once, and a
    read of Spark's record of past queries.
    """
    spark = rows.sparkSession
    buckets = _describe_buckets(spark, flow, table)
    _refuse_exchanges(table, where, first_plan(rows), buckets)
    yield
    executed = final_plan(spark, path)
    if executed is not None:
        _refuse_exchanges(table, where, executed, buckets)


def _describe_buckets(spark: SparkSession, flow: Flow, table: Table) -> list[str]:
    named = [flow.tables[name] for name in dict.fromkeys(read.table for read in table.reads) if name in flow.tables]
    found = [f"{each.name} is in buckets by {', '.join(each.bucket_by.columns)}" for each in named if each.bucket_by]
    return found + reasons_without_buckets(spark)


def _refuse_exchanges(table: Table, where: str, plan: str, buckets: Sequence[str]) -> None:
    found = exchanges_in(plan)
    if not found:
        return
    named = [str(each) for each in found[:_MOST_NAMED]]
    more = f"; and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    times = f" {len(found)} times" if len(found) > 1 else ""
    raise WaterclockError(
        "E775",
        f"the batch would shuffle its rows{times}",
        where=where,
        why=f"Spark moves rows between tasks for {'; for '.join(named)}{more}"
        + "".join(f"; {text}" for text in buckets),
        fix="let one task read the rows, as in FROM (SELECT /*+ COALESCE(1) */ * FROM ...), or remove SHUFFLE NONE at "
        f"{table.place}; then `waterclock retry {where}`",
    )
