"""How does a sealed slice of changes become part of a MERGE table's state? (ARCHITECTURE 5, MERGE is a fold)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.faults import fault
from waterclock.storage.commit import commit_nothing, commit_slices, prepare_merge
from waterclock.storage.identity import Identity, app_id
from waterclock.storage.keys import duplicate_keys, require_one_row_per_order
from waterclock.storage.log import find_claim, head
from waterclock.storage.manifest import Manifest, read_manifest
from waterclock.storage.order import deletes_sql, may_beat, order_struct
from waterclock.storage.read import frame_of_slices
from waterclock.storage.rewrite import version_of
from waterclock.storage.sql import quoted
from waterclock.storage.state import DELETED, is_newer, is_small, rewrite_state
from waterclock.storage.types import fields_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from waterclock.flow import Merge

_ORDER = "_waterclock_order"
_MOST_TRIES = 5
_APP_ID = "spark.databricks.delta.write.txnAppId"
_APP_VERSION = "spark.databricks.delta.write.txnVersion"
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
# sealed files never change, so what MERGE reads twice is the same both times
_MATERIALIZE = "spark.databricks.delta.merge.materializeSource"

# the highest ORDER BY among a sealed slice's deletes, None where it holds none: slices never change, so it is kept
_delete_highs: dict[tuple[str, str], tuple[bool, str | None]] = {}
_lock = threading.Lock()


def merge_slice(
    spark: SparkSession,
    folder: str,
    manifest: Manifest,
    merge: Merge,
    identity: Identity,
    earlier: Sequence[str] = (),
) -> int:
    """Merge a new label's sealed slice into its table, in one commit under the claim's id; gives its version.

    `manifest` is newer than every label of the table. `earlier` are the paths of the slices before it, whose deletes
    beat late rows. Cost: 10 ms into an empty table where keys are unique, one Spark job while the table is small, a
    Delta MERGE (a second or more) beyond; that one runs under the session's confs, so the session must be the batch's.

    Raises  Killed where the claim was killed first
            E620 for two different rows of one key and order
            E616, E617 where the slice does not fit the table
    """
    if len(identity.labels) > 1:
        raise AssertionError("a claim is one commit, so a MERGE claim has one label")
    look = prepare_merge(folder, identity, manifest)
    if look.done is not None:
        return look.done
    if not manifest.rows:
        return commit_nothing(folder, identity)
    is_unique = not duplicate_keys(spark, folder, manifest, merge.keys, most=1)
    if not is_unique:
        require_one_row_per_order(spark, folder, manifest, merge)
    rivals = _rivals(folder, manifest, merge, earlier, look.schema)
    if not look.live and is_unique and not manifest.has_deletes and not rivals:
        return commit_slices(folder, identity, [manifest], mode="append")
    rows = _rows(spark, folder, manifest, look.schema)
    winners = _marked(rows if is_unique else last_rows(rows, merge), merge)
    if rivals:
        winners = _unbeaten(winners, _deletes(spark, folder, rivals, merge, look.schema), merge)
    for _ in range(_MOST_TRIES):
        if not is_small(look):
            break
        version = rewrite_state(spark, folder, winners, merge, identity, look)
        if version is not None:
            return version
        look = prepare_merge(folder, identity, manifest)
        if look.done is not None:
            return look.done
    return _merge_by_delta(spark, folder, winners, merge, identity)


def last_rows(rows: DataFrame, merge: Merge) -> DataFrame:
    """Give per key the last row by ORDER BY, NULL lowest; of equal rows one."""
    every = F.struct(*(F.col(quoted(name)) for name in rows.columns))
    last = F.max_by(every, order_struct(merge.order_by)) if merge.order_by else F.first(every)
    grouped = rows.groupBy(*(F.col(quoted(key)).alias(f"_key{i}") for i, key in enumerate(merge.keys)))
    return grouped.agg(last.alias("_last")).select("_last.*")


def fold(spark: SparkSession, folder: str, manifests: Sequence[Manifest], merge: Merge, schema: str) -> DataFrame:
    """Give the state that the slices, oldest first, add up to from nothing; `schema` is the table's.

    A slice's row counts where no earlier slice has a row of its key with a higher order. The last one wins; where it
    is a delete the key is gone. A column that slices do not carry keeps its value, back to the key's last delete.
    """
    parts = []
    for index, manifest in enumerate(manifests):
        rows = _rows(spark, folder, manifest, schema)
        lacking = [name for name in fields_of(schema) if name not in rows.columns]
        winners = _marked(last_rows(rows, merge), merge)
        types = {name: _spark_type(schema, name) for name in lacking}
        empty = {name: F.lit(None).cast(type_) for name, type_ in types.items()}
        parts.append(winners.withColumns(empty | {"_slice": F.lit(index)}))
    union = parts[0]
    for part in parts[1:]:
        union = union.unionByName(part)
    return _folded(union, manifests, merge, schema)


@contextmanager
def committing_as(spark: SparkSession, identity: Identity) -> Iterator[None]:
    """Have every Delta commit of the session bear the claim's id and identity, within the block."""
    confs = {_APP_ID: app_id(identity.claim), _APP_VERSION: "1", _METADATA: identity.to_json(), _MATERIALIZE: "none"}
    try:
        for key, value in confs.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key in confs:
            spark.conf.unset(key)


def _rows(spark: SparkSession, folder: str, manifest: Manifest, schema: str) -> DataFrame:
    """Give the slice's own columns, in the table's types."""
    own = fields_of(manifest.schema)
    fields = [field for name, field in fields_of(schema).items() if name in own]
    return frame_of_slices(spark, folder, [manifest], json.dumps({"type": "struct", "fields": fields}))


def _marked(rows: DataFrame, merge: Merge) -> DataFrame:
    return rows.withColumn(DELETED, F.expr(deletes_sql(merge)))


def _rivals(folder: str, manifest: Manifest, merge: Merge, earlier: Sequence[str], schema: str) -> list[str]:
    """Give the earlier slices that hold a delete ordered above the lowest order of the new slice."""
    if not (merge.delete_when and merge.order_by):
        return []  # without an order a later label always wins
    fields = fields_of(schema)
    types = [fields[name]["type"] for name in merge.order_by]
    rivals = []
    for path in earlier:
        has_deletes, high = _delete_high(folder, path)
        if path != manifest.slice_path and has_deletes and may_beat(high, manifest.order_low, types):
            rivals.append(path)
    return rivals


def _delete_high(folder: str, path: str) -> tuple[bool, str | None]:
    known = _delete_highs.get((folder, path))
    if known is None:
        manifest = read_manifest(folder, path)
        known = (manifest.has_deletes, manifest.delete_high)
        with _lock:
            _delete_highs[(folder, path)] = known
    return known


def _deletes(spark: SparkSession, folder: str, rivals: Sequence[str], merge: Merge, schema: str) -> DataFrame:
    manifests = [read_manifest(folder, path) for path in rivals]
    rows = _marked(frame_of_slices(spark, folder, manifests, schema), merge).where(DELETED)
    keys = [F.col(quoted(key)).alias(f"_key{index}") for index, key in enumerate(merge.keys)]
    return rows.groupBy(*keys).agg(F.max(order_struct(merge.order_by)).alias(_ORDER))


def _unbeaten(winners: DataFrame, deletes: DataFrame, merge: Merge) -> DataFrame:
    same: Column = F.col(_ORDER) > order_struct(merge.order_by)
    for index, key in enumerate(merge.keys):
        same = same & F.col(quoted(key)).eqNullSafe(F.col(f"_key{index}"))
    return winners.join(deletes, same, "left_anti")


def _merge_by_delta(spark: SparkSession, folder: str, winners: DataFrame, merge: Merge, identity: Identity) -> int:
    _merge_winners(spark, folder, winners, merge, identity)
    if find_claim(folder, identity.claim, newest=head(folder)).kind == "none":
        return commit_nothing(folder, identity)  # nothing changed, so Delta committed nothing
    return version_of(folder, identity.claim)


def _merge_winners(spark: SparkSession, folder: str, winners: DataFrame, merge: Merge, identity: Identity) -> None:
    view = f"_waterclock_merge_{identity.claim}"
    winners.createOrReplaceTempView(view)
    statement = _statement(folder, view, winners.columns, merge)
    try:
        for attempt in range(_MOST_TRIES):
            fault("merge")
            try:
                with committing_as(spark, identity):
                    spark.sql(statement).collect()
                return
            except PySparkException as raised:
                if find_claim(folder, identity.claim, newest=head(folder)).kind != "none":
                    return
                if attempt == _MOST_TRIES - 1 or not _is_race(raised):
                    raise
    finally:
        spark.catalog.dropTempView(view)


def _is_race(raised: PySparkException) -> bool:
    """Tell whether another commit came between: OPTIMIZE, or a kill of some other claim. The merge is planned anew."""
    said = f"{raised.getCondition() or ''} {raised}".upper()
    return any(word in said for word in ("CONCURRENT", "METADATA_CHANGED", "PROTOCOL_CHANGED"))


def _statement(folder: str, view: str, columns: Sequence[str], merge: Merge) -> str:
    names = [name for name in columns if name != DELETED]
    on = " AND ".join(f"t.{quoted(key)} <=> s.{quoted(key)}" for key in merge.keys)
    newer = is_newer(merge.order_by)
    sets = ", ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in names)
    target, values = (", ".join(f"{side}{quoted(name)}" for name in names) for side in ("", "s."))
    return (
        f"MERGE INTO delta.{quoted(folder)} AS t USING {view} AS s ON {on} "
        f"WHEN MATCHED AND s.{DELETED} AND {newer} THEN DELETE "
        f"WHEN MATCHED AND NOT s.{DELETED} AND {newer} THEN UPDATE SET {sets} "
        f"WHEN NOT MATCHED AND NOT s.{DELETED} THEN INSERT ({target}) VALUES ({values})"
    )


def _folded(union: DataFrame, manifests: Sequence[Manifest], merge: Merge, schema: str) -> DataFrame:
    from pyspark.sql import Window

    keys = [F.col(quoted(key)) for key in merge.keys]
    before = Window.partitionBy(*keys).orderBy("_slice").rowsBetween(Window.unboundedPreceding, -1)
    counting = union
    if merge.order_by:
        order = order_struct(merge.order_by)
        highest = F.max(order).over(before)
        counting = union.withColumn("_highest", highest).where(F.isnull("_highest") | (order >= F.col("_highest")))
    last_delete = F.max(F.when(F.col(DELETED), F.col("_slice"))).over(Window.partitionBy(*keys))
    alive = counting.withColumn("_gone", last_delete).where("_gone IS NULL OR _slice > _gone")
    carried = {
        name: [index for index, manifest in enumerate(manifests) if name in fields_of(manifest.schema)]
        for name in fields_of(schema)
    }
    aggregates = [
        F.max_by(F.struct(F.col(quoted(name)).alias("v")), F.when(F.col("_slice").isin(slices), F.col("_slice")))
        .getField("v")
        .alias(name)
        for name, slices in carried.items()
    ]
    grouped = alive.groupBy(*(F.col(quoted(key)).alias(f"_key{i}") for i, key in enumerate(merge.keys)))
    return grouped.agg(*aggregates).select(*(F.col(quoted(name)) for name in fields_of(schema)))


def _spark_type(schema: str, name: str) -> Any:
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(schema))[name].dataType
