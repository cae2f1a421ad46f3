"""Finds the keys of a table that changed since an older batch read it, and from what time on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.batches.records import Committed, Input, Slice
from waterclock.engine.workplace import Workplace
from waterclock.errors import WaterclockError
from waterclock.flow.choices import Mode
from waterclock.flow.declarations import RECORD, Flat, FlatJoin, Flow, Read, Table
from waterclock.spark_sql import quoted
from waterclock.storage.folds.fold import with_all_columns
from waterclock.storage.folds.versions import raw_schema
from waterclock.storage.log.live_files import is_readable
from waterclock.storage.slices.digest import row_hash
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.storage.slices.read import frame_of_slices, frame_of_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SINCE = "_waterclock_since"
_EFFECTIVE, _EXPIRES, _ = RECORD
_ALWAYS = "TIMESTAMP'0001-01-01 00:00:00Z'"
_IS_NEW, _SAID, _END = "_waterclock_is_new", "_waterclock_said", "_waterclock_end"


def key_name(at: int) -> str:
    """Name a part of the key in what says which keys were touched."""
    return f"_waterclock_key{at}"


@dataclass(frozen=True, slots=True)
class Changes:
    """What became of a table since an older batch read it at `version`.

    `slices` are those that were committed since, with those that they took the place of: only their keys were touched.
    None where they do not tell, for each holds every key. `rows`: so many keys were touched at most. `state` is what a
    REPLACE table was then.
    """

    table: Table
    folder: str
    version: int
    rows: int
    slices: tuple[Manifest, ...] | None
    state: Manifest | None = None

    def before(self, spark: SparkSession, schema: str) -> DataFrame:
        """Return the table as it was read then, in the columns of today."""
        if self.state is not None:
            return with_all_columns(frame_of_slices(spark, self.folder, [self.state]), schema)
        return with_all_columns(frame_of_version(spark, self.folder, self.version), schema)


def changes_since(work: Workplace, read: Input, now: Sequence[Slice]) -> Changes | None:
    """Find what was committed to a table since a batch read it; None where that cannot be known any more.

    `now` are the slices that it is read from now. Cost: milliseconds, and one more for each slice.
    """
    table = work.flow.tables[read.table]
    folder = work.lake.folder(table.name)
    if table.is_partitioned or not table.keys:
        return None
    if table.mode is Mode.REPLACE:
        then = _kept(folder, [each for each in work.ledger.committed(table.name) if each.version == read.version])
        if then is None or len(then) != 1:
            return None
        rows = then[0].rows + sum(each.rows for each in now)
        return Changes(table, folder, read.version, rows, None, then[0])
    if not table.is_fold or not is_readable(folder, read.version):
        return None
    slices = _kept(folder, work.ledger.changed_slices(table.name, read.version))
    if slices is None:
        return None
    rows = sum(manifest.rows for manifest in slices)
    return Changes(table, folder, read.version, rows, None if table.is_snapshot else slices)


def _kept(folder: str, committed: Sequence[Committed]) -> tuple[Manifest, ...] | None:
    """Read the manifests of slices; None where one is gone: the stage keeps what is current, not all that ever was."""
    try:
        slices = tuple(read_manifest(folder, each.slice_path) for each in committed if each.slice_path)
    except WaterclockError:
        return None
    is_whole = all(Path(folder, file.path).exists() for manifest in slices for file in manifest.files)
    return slices if is_whole else None


@dataclass(frozen=True, slots=True)
class Touching:
    """What changed in the tables that a batch reads, and these as they are read now."""

    flow: Flow
    changed: Mapping[str, Changes]
    frames: Mapping[Read, DataFrame]

    def keys_of(self, flat: Flat) -> DataFrame | None:
        """Return the keys under which a flat read shows something else now, each once, and since when; None: nowhere.

        Columns: the parts of the table's key, and the earliest time at which a look-up may find something else, the
        beginning of time where the table keeps no versions. Cost: a scan of the table, as of now and as of then, and
        of the slices since; no more than their keys are shuffled.
        """
        own = self.own_keys(flat)
        found = [] if own is None else [own]
        for join in flat.joins:
            below = self.keys_of(join.parent)
            if below is not None:
                found.append(self._referring(flat, join, below))
        if not found:
            return None
        names = [key_name(at) for at, _ in enumerate(self.flow.tables[flat.read.table].keys)]
        return reduce(lambda left, right: left.unionByName(right), found).groupBy(*names).agg(F.min(SINCE).alias(SINCE))

    def own_keys(self, flat: Flat) -> DataFrame | None:
        """Return the keys of the table itself that were touched, whatever became of what it refers to."""
        changes = self.changed.get(flat.read.table)
        if changes is None:
            return None
        now = self.frames[flat.read]
        before = changes.before(now.sparkSession, str(now.schema.json()))
        if changes.slices is None:
            return _differing(before, now, changes.table.keys)
        keys = self._in_slices(changes, now.sparkSession)
        if changes.table.temporal is None:
            return keys.selectExpr("*", f"{_ALWAYS} AS {SINCE}")
        asked, names = F.broadcast(keys), keys.columns
        return _since(*(_versions(side, changes.table.keys).join(asked, names, "left_semi") for side in (before, now)))

    def keys_told(self, flat: Flat) -> DataFrame | None:
        """Return the keys of the table itself that were touched, as `own_keys`, all of them since ever.

        Cost: a read of the slices alone, where these tell.
        """
        changes = self.changed.get(flat.read.table)
        if changes is None or changes.slices is None:
            return self.own_keys(flat)
        keys = self._in_slices(changes, self.frames[flat.read].sparkSession)
        return keys.selectExpr("*", f"{_ALWAYS} AS {SINCE}")

    def _in_slices(self, changes: Changes, spark: SparkSession) -> DataFrame:
        slices = changes.slices or ()
        rows = frame_of_slices(spark, changes.folder, slices, raw_schema(slices))
        return _keyed(rows, changes.table.keys).distinct().dropna("all")

    def _referring(self, flat: Flat, join: FlatJoin, below: DataFrame) -> DataFrame:
        """Return the keys of a table's rows that refer to touched ones, and since when a look-up may find that."""
        rows, since = met(self.frames[flat.read], join.columns, self.order_of(join), below), SINCE
        if join.at is not None:
            rows = rows.where(f"{quoted(join.at)} >= {SINCE}")
            since = _EFFECTIVE if flat.is_temporal else _ALWAYS
        elif flat.is_temporal:
            rows = rows.where(f"{_EXPIRES} > {SINCE}")
            since = f"greatest({_EFFECTIVE}, {SINCE})"
        return _keyed(rows, self.flow.tables[flat.read.table].keys, f"{since} AS {SINCE}")

    def order_of(self, join: FlatJoin) -> tuple[int, ...]:
        """Return the places that the columns of a reference have in its parent's key."""
        keys = self.flow.tables[join.parent.read.table].keys
        return tuple(keys.index(name) for name in join.parent_columns)


def met(rows: DataFrame, columns: Sequence[str], order: Sequence[int], keys: DataFrame) -> DataFrame:
    """Join rows to the touched keys that they bear in `columns`, with the time since when."""
    same = (f"{quoted(name)} = {key_name(at)}" for name, at in zip(columns, order, strict=True))
    return rows.join(F.broadcast(keys), F.expr(" AND ".join(same)))


def _keyed(rows: DataFrame, keys: Sequence[str], *more: str) -> DataFrame:
    return rows.selectExpr(*(f"{quoted(name)} AS {key_name(at)}" for at, name in enumerate(keys)), *more)


def _differing(before: DataFrame, now: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the keys whose rows are not the same ones on both sides."""
    sides = [
        _keyed(rows.withColumn(_SAID, row_hash(rows.schema)), keys, _SAID, f"{sign} AS {_IS_NEW}")
        for rows, sign in ((before, -1), (now, 1))
    ]
    names = [key_name(at) for at, _ in enumerate(keys)]
    counted = sides[0].unionByName(sides[1]).groupBy(*names, _SAID).agg(F.sum(_IS_NEW).alias(_IS_NEW))
    return counted.where(f"{_IS_NEW} <> 0").select(*names).distinct().selectExpr("*", f"{_ALWAYS} AS {SINCE}")


def _versions(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return versions by their key, start and end, with all that they show in one column."""
    beside = [name for name in rows.columns if name not in {*keys, *RECORD}]
    said = f"struct({', '.join(map(quoted, beside))}) AS {_SAID}" if beside else f"struct(1) AS {_SAID}"
    return _keyed(rows, keys, f"{_EFFECTIVE} AS {_EFFECTIVE}", f"{_EXPIRES} AS {_END}", said)


def _since(before: DataFrame, now: DataFrame) -> DataFrame:
    """Return the keys whose versions are not the same on both sides, and the earliest time at which they differ."""
    sides = [rows.selectExpr("*", f"{is_new} AS {_IS_NEW}") for rows, is_new in ((before, "false"), (now, "true"))]
    names = [name for name in before.columns if name not in {_EFFECTIVE, _END, _SAID}]
    shown = [
        F.expr(f"max(if({_IS_NEW} = {side}, {what}, NULL)) AS {name}_{side}")
        for side in ("true", "false")
        for what, name in ((_SAID, "said"), (_END, "until"))
    ]
    met = sides[0].unionByName(sides[1]).groupBy(*names, _EFFECTIVE).agg(*shown)
    since = f"""CASE WHEN NOT (said_true <=> said_false) THEN {_EFFECTIVE}
                     WHEN until_true <> until_false THEN least(until_true, until_false) END"""
    return met.selectExpr(*names, f"{since} AS {SINCE}").groupBy(*names).agg(F.min(SINCE).alias(SINCE)).dropna()
