"""Computes the rows of SHARED views once for all tables that read them at the same labels.

One job reads the inputs of a view and writes its rows. Each reader continues from these rows. They equal the result of
the view's text in the reader's query: sharing changes how often inputs are read, and never the result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from waterclock.dpl.query.splice import MARKERS, list_reads, splice
from waterclock.engine.run_context import RunContext
from waterclock.flow.declarations import Query, Read, Table, TableReference
from waterclock.flow.shared_views import list_shared_references, queries_in, readers_of_shared, rows_of_view
from waterclock.planner.plan import Batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from waterclock.engine.reads.pin import PinnedRead

LABEL = "_waterclock_label"


@dataclass(frozen=True, slots=True)
class SharedView:
    """The rows of a SHARED view by label, and the read that stands for the view in a query."""

    read: Read
    rows: Mapping[datetime, DataFrame]


def shared_rows(
    work: RunContext,
    spark: SparkSession,
    table: Table,
    batches: Sequence[Batch],
    pins: Mapping[Any, tuple[PinnedRead, ...]],
    rows_of: Callable[[Table, Batch, tuple[PinnedRead, ...]], DataFrame],
) -> dict[TableReference, SharedView]:
    """Map the SHARED views that a table reads to their rows, if other tables have yet to read the same rows.

    `rows_of` makes the rows of one window. Views that fail, or cannot be written, are left out.
    """
    references = dict.fromkeys(each for query in queries_in(table) for each in list_shared_references(query))
    readers = readers_of_shared(work.flow) if references else {}
    found: dict[TableReference, SharedView] = {}
    for reference in references:
        others = [name for name in readers.get(reference.shared or "", ()) if name != table.name]
        if any(_needs_windows(work, other, batches) for other in others):
            rows = _compute_view_rows(work, spark, table, rows_of_view(reference), batches, pins, rows_of)
            if rows is not None:
                found[reference] = SharedView(Read(f"{reference.shared}@{len(found)}"), rows)
    return found


def _needs_windows(work: RunContext, name: str, batches: Sequence[Batch]) -> bool:
    """Return whether the table `name` has one of these windows as well, and has not made its batch yet."""
    cadence = work.flow.tables[name].cadence
    alike = [batch.label for batch in batches if cadence.window_of(batch.label) == batch.window]
    if not alike:
        return False
    facts = work.ledger.reads.snapshot(work.flow, tables=[name]).of(name)
    running = {label for claim in facts.open_claims for label in claim.labels}
    again = running.union(facts.suspects, facts.requested)
    return any(label in again or not facts.covered.covers_instant(label) for label in alike)


def _compute_view_rows(
    work: RunContext,
    spark: SparkSession,
    table: Table,
    query: Query,
    batches: Sequence[Batch],
    pins: Mapping[Any, tuple[PinnedRead, ...]],
    rows_of: Callable[[Table, Batch, tuple[PinnedRead, ...]], DataFrame],
) -> dict[datetime, DataFrame] | None:
    from pyspark.sql import functions as F  # noqa: N812

    read = set(list_reads(query))
    own = {batch.label: tuple(each for each in pins[batch.label] if each.read in read) for batch in batches}
    view = replace(table, query=query, function=None, choices=(), fold=None, reads=tuple(read))
    by_key = {_rows_key(work, query, batch, own[batch.label]): batch for batch in batches}

    def make(folder: str, keys: Sequence[str]) -> str:
        frames = [
            rows_of(view, batch, own[batch.label]).withColumn(LABEL, F.lit(batch.window.label))
            for batch in (by_key[key] for key in keys)
        ]
        rows = reduce(lambda left, right: left.unionByName(right), frames)
        rows.write.mode("overwrite").partitionBy(LABEL).parquet(folder)
        return rows.schema.json()

    found = work.shared.find_or_make(tuple(by_key), make)
    if found is None:
        return None
    frames = {place: _read_view_rows(spark, *place) for place in dict.fromkeys(found)}
    return {
        batch.label: frames[place].where(F.col(LABEL) == batch.window.label).drop(LABEL)
        for batch, place in zip(by_key.values(), found, strict=True)
    }


def _read_view_rows(spark: SparkSession, folder: str, schema: str) -> DataFrame:
    from pyspark.sql.types import StringType, StructType

    # Spark puts the partition column last, and makes all columns nullable
    fields = [each for each in StructType.fromJson(json.loads(schema)).fields if each.name != LABEL]
    return spark.read.schema(StructType(fields).add(LABEL, StringType())).parquet(folder)


def _rows_key(work: RunContext, query: Query, batch: Batch, pins: tuple[PinnedRead, ...]) -> str:
    """Return the key of a label's rows: a hash of the view's text, functions, variables, window and inputs.

    It contains whether the batch is partial if the text calls IS_PARTIAL().
    """
    text = "\x1e".join(splice(part, lambda read: f"<{read}>").text for part in query.branches or (query,))
    functions = [
        (each.name, each.parameters, each.returns, each.body, each.python) for each in work.flow.functions.values()
    ]
    read = [(str(each.read), each.input.low, each.input.high, each.input.content) for each in pins]
    is_partial = batch.is_partial and MARKERS["IS_PARTIAL"] in text
    text_of_key = repr((text, functions, sorted(work.project.variables.items()), batch.window, is_partial, read))
    return blake2b(text_of_key.encode(), digest_size=12).hexdigest()
