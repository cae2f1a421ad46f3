"""Answers queries of `schema.table_held`: the rows of a table's held batches, to decide whether to release them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - F is the usual name

from waterclock.dpl.adhoc import HELD
from waterclock.engine.query.quarantine import frame_of_quarantine
from waterclock.engine.run_context import RunContext
from waterclock.flow.declarations import Flow, Table
from waterclock.spark_sql import INTERNAL_PREFIX, quote_name
from waterclock.storage.schema_types import fields_of
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.storage.slices.read import frame_of_slices, no_rows, table_schema
from waterclock.storage.slices.row_filter import ROW
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OURS = {"_claim": "BIGINT", "_row": "STRING", "_broken": "ARRAY<STRING>"}


def held_views(flow: Flow) -> dict[str, str]:
    """Map the name of each `_held` view to its table. Every table has such a view, mostly without rows."""
    return {f"{name}{HELD}": name for name in flow.tables}


def frame_of_held_batches(work: RunContext, spark: SparkSession, table: Table) -> DataFrame:
    """Return the rows of a table's held batches, and their quarantined rows.

    `_claim` is the claim that sealed them. A quarantined row has its JSON as `_row`, the rules that it broke as
    `_broken` and no other columns. If the table has a column with one of these names, the view's own column has the
    prefix `_waterclock`, as in `_waterclock_claim`. For a MERGE or TEMPORAL table these are the batch's rows, not the
    resulting state. A column whose type differs between batches is text. Only batches that are held now are included.
    Cost: a read of the manifest of each held batch, and one scan for each set of columns, or of rules. Raises E623 if
    nothing is held and the table was never made.
    """
    folder = work.folder(table)
    held = work.ledger.reads.held_labels(table.name)
    found = [read_manifest(folder, work.lake.slice_path(label, claim)) for label, claim in held.items()]
    if not found:
        rows = no_rows(spark, table_schema(folder))
        return _add_own_columns(rows, _choose_own_names(rows.columns))
    names = _choose_own_names(name for manifest in found for name in fields_of(manifest.schema))
    frames = [_rows_with_claims(spark, folder, alike, names) for alike in group_by_schema(found)]
    aside = [manifest for manifest in found if manifest.aside]
    if aside:
        rows = frame_of_quarantine(spark, folder, aside)
        own = (f"`{column}` AS {names[name]}" for name, column in zip(_OURS, ("claim", ROW, "broken"), strict=True))
        frames.append(rows.selectExpr(TIMELABEL, *own))
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), _unify_types(frames))


def group_by_schema(manifests: Iterable[Manifest]) -> list[list[Manifest]]:
    """Group slices that have the same columns and types."""
    found: dict[str, list[Manifest]] = defaultdict(list)
    for manifest in manifests:
        found[manifest.schema].append(manifest)
    return list(found.values())


def _choose_own_names(columns: Iterable[str]) -> dict[str, str]:
    """Map `_claim`, `_row` and `_broken` to their names in a view whose rows have these columns."""
    taken = {name.lower() for name in columns}
    return {name: f"{INTERNAL_PREFIX}{name.removeprefix('_')}" if name in taken else name for name in _OURS}


def _rows_with_claims(
    spark: SparkSession, folder: str, manifests: Sequence[Manifest], names: Mapping[str, str]
) -> DataFrame:
    """Return the rows of held batches with one schema, each with the claim that sealed its label."""
    claims = spark.createDataFrame(
        [(label_of(it.label), it.claim) for it in manifests], f"{TIMELABEL} STRING, {names['_claim']} BIGINT"
    )
    rows = frame_of_slices(spark, folder, manifests).join(F.broadcast(claims), TIMELABEL)
    return _add_own_columns(rows, names)


def _add_own_columns(rows: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """Add the view's own columns as NULL where they are missing."""
    types = {names[name]: of for name, of in _OURS.items()}
    return rows.withColumns({name: F.lit(None).cast(of) for name, of in types.items() if name not in rows.columns})


def _unify_types(frames: Sequence[DataFrame]) -> list[DataFrame]:
    """Cast columns that have different types in these frames to text, since Spark's own cast in a union may fail."""
    types: dict[str, set[str]] = defaultdict(set)
    for frame in frames:
        for name, of in frame.dtypes:
            types[name].add(of)
    mixed = {name for name, of in types.items() if len(of) > 1}
    return [
        frame.withColumns({name: F.col(quote_name(name)).cast("STRING") for name in frame.columns if name in mixed})
        for frame in frames
    ]
