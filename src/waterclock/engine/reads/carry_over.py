"""Finds the rows of an older result that still hold, and the rows of a FLAT that are to be made again.

A row of a FLAT is made of one row of its table, and of what that refers to. Where an older batch of the same code is
kept, only rows are made again of which the table or a parent says something else since, at or after the earliest time
that this concerns; the others are taken over as they lie there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.batches.records import Input, Slice
from waterclock.dpl.query.rowwise import handed_on
from waterclock.dpl.query.splice import flats_of
from waterclock.engine.reads.changed_keys import SINCE, Changes, Touching, changes_since, key_name
from waterclock.engine.reads.pin import PinnedRead, frame_of
from waterclock.engine.workplace import Workplace
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import RECORD, Flat, Read, Table
from waterclock.flow.flats import flat_columns
from waterclock.planner.plan import Batch
from waterclock.spark_sql import quoted
from waterclock.storage.folds.write_state import MOST_ROWS_BROADCAST
from waterclock.storage.log.live_files import live_bytes
from waterclock.storage.slices.damage import damage_of
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.storage.slices.read import frame_of_slices
from waterclock.storage.types import fields_of
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EFFECTIVE, _EXPIRES, _ = RECORD


@dataclass(frozen=True, slots=True)
class Limits:
    """When it is worth looking for what may be taken over (`bench/flat.py`).

    A result of fewer rows than `least` is made sooner than looked through, and so is one whose parents all have fewer
    bytes than `parent`: these are sent to every task. More touched keys than `share` of its rows touch most of them,
    and more than `most` are not held by this process.
    """

    least: int = 5_000_000
    parent: int = 1024 * 1024
    share: float = 0.25
    most: int = 200_000


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Criterion:
    """Rows that bear a touched key in `columns` are made again: those whose `time` is not before the key's, or all.

    `order`: the place in the key of each column.
    """

    columns: tuple[str, ...]
    order: tuple[int, ...]
    time: str | None
    keys: DataFrame
    may_be_null: bool = False


@dataclass(frozen=True, slots=True)
class Carried:
    """An older result to take rows from, and what says which ones: `frames` are the reads of the rows made again."""

    base: Manifest
    folder: str
    label: str
    criteria: tuple[Criterion, ...]
    frames: Mapping[Read, DataFrame]
    names: Mapping[str, str]

    def again(self, made: DataFrame) -> DataFrame:
        """Of the rows that were made, give those that are in place of older ones."""
        return _touched(made, self.criteria, self.names, keep=True)

    def rest(self, made: DataFrame) -> DataFrame | None:
        """Return the older rows that still hold, in the columns of `made`; None where columns or types differ."""
        spark = made.sparkSession
        then, now = fields_of(self.base.schema), fields_of(made.schema.json())
        types = [{name: field["type"] for name, field in each.items() if name != TIMELABEL} for each in (then, now)]
        if types[0] != types[1]:
            return None
        rows = frame_of_slices(spark, self.folder, [self.base])
        rows = _touched(rows, self.criteria, self.names, keep=False).withColumn(TIMELABEL, F.lit(self.label))
        return rows.select(*map(quoted, made.columns))


def carried_over(
    work: Workplace, spark: SparkSession, table: Table, batch: Batch, reads: tuple[PinnedRead, ...]
) -> Carried | None:
    """Find the older result of which a batch takes rows over; None where it makes all of its rows.

    Cost: milliseconds where there is none. Else the parents that changed are scanned, as of now and as of then, the
    touched keys are held by this process, and the FLAT's table is scanned by its keys to count what is made again.
    """
    flats = flats_of(table.query) if table.query is not None else ()
    older = _older(work, table, batch) if len(flats) == 1 else None
    if older is None:
        return None
    base, inputs = older
    changed = _changed(work, reads, inputs)
    most = min(LIMITS.share * base.rows, MOST_ROWS_BROADCAST)
    if changed is None or sum(each.rows for each in changed.values()) > most:
        return None
    if all(live_bytes(work.lake.folder(read.table)) < LIMITS.parent for read in flats[0].reads[1:]):
        return None
    frames = {pinned.read: frame_of(spark, work.lake, work.flow, pinned) for pinned in reads}
    search = _Search(Touching(work.flow, changed, frames), flats[0])
    names = search.names(table, base)
    if names is None or not search.are_held():
        return None
    again = search.again()
    if again.count() > most:
        return None
    frames = {**frames, flats[0].read: again}
    return Carried(base, work.folder(table), batch.window.label, search.criteria, frames, names)


def _older(work: Workplace, table: Table, batch: Batch) -> tuple[Manifest, Mapping[str, Input]] | None:
    """Find the newest result of the same code: the label's own, else of a REPLACE table the state before it."""
    piece = _piece(work, table, batch)
    if piece is None or not piece.slice_path or piece.rows < LIMITS.least:
        return None
    try:
        base = read_manifest(work.folder(table), piece.slice_path)
    except WaterclockError:
        return None
    if base.code != table.fingerprint or damage_of(work.folder(table), piece.slice_path) is not None:
        return None
    return base, {each.read: each for each in work.ledger.inputs(table.name, piece.label)}


def _piece(work: Workplace, table: Table, batch: Batch) -> Slice | None:
    own = work.ledger.slices(table.name, batch.label, batch.window.end)
    if own or table.is_partitioned or table.is_fold:
        return own[-1] if own else None
    newest = work.ledger.newest(table.name)
    return newest if newest is not None and newest.label < batch.label else None


def _changed(work: Workplace, reads: tuple[PinnedRead, ...], inputs: Mapping[str, Input]) -> dict[str, Changes] | None:
    """Find what changed in each table since it was read for the older result; None where that is not known."""
    found: dict[str, Changes] = {}
    for pinned in reads:
        then = inputs.get(str(pinned.read))
        if then is None or then.kind != pinned.input.kind:
            return None
        if then.content == pinned.input.content:
            continue
        changes = changes_since(work, then, pinned.slices)
        if changes is None:
            return None
        found[pinned.read.table] = changes
    return found


class _Search:
    """Looks for the rows of a FLAT that are to be made again, and for what making them takes."""

    def __init__(self, touching: Touching, flat: Flat) -> None:
        self.touching = touching
        self.flat = flat
        self.criteria = tuple(self._criteria())

    def _criteria(self) -> Iterator[Criterion]:
        flat = self.flat
        own = self.touching.keys_told(flat)
        if own is not None:
            # all versions of a key: there are few, and to look for the first that differs costs two scans
            keys = self.touching.flow.tables[flat.read.table].keys
            yield Criterion(keys, tuple(range(len(keys))), None, own, may_be_null=True)
        for join in flat.joins:
            below = self.touching.keys_of(join.parent)
            if below is not None:
                # a version that is split ends where its parent changes: the span before that point ends with it
                begins = _EXPIRES if flat.is_exact else _EFFECTIVE if flat.is_temporal else None
                yield Criterion(join.columns, self.touching.order_of(join), join.at or begins, below)

    def names(self, table: Table, base: Manifest) -> Mapping[str, str] | None:
        """Return the columns of the result that tell whether a row is to be made again; None where it lacks them."""
        rows = self.touching.frames[self.flat.read]
        columns = flat_columns(self.flat, self._columns_of) or ()
        passed = handed_on(table.query, (each.name for each in columns)) if table.query is not None else None
        if passed is None:
            return None
        types = {name.lower(): field["type"] for name, field in fields_of(rows.schema.json()).items()}
        kept = {name.lower(): (name, field["type"]) for name, field in fields_of(base.schema).items()}
        found: dict[str, str] = {}
        for name in {name for each in self.criteria for name in (*each.columns, *([each.time] if each.time else []))}:
            there = kept.get(passed.get(name.lower(), "").lower())
            if there is None or there[1] != types.get(name.lower()):
                return None
            found[name] = there[0]
        return found

    def _columns_of(self, table: str) -> tuple[str, ...]:
        return tuple(self.touching.frames[Read(table)].columns)

    def are_held(self) -> bool:
        """Have this process hold the touched keys, so that nothing looks for them twice; False: they are too many."""
        held = []
        for each in self.criteria:
            found = each.keys.limit(LIMITS.most + 1).toArrow()
            if found.num_rows > LIMITS.most:
                return False
            keys = each.keys.sparkSession.createDataFrame(found, each.keys.schema)
            held.append(replace(each, keys=keys))
        self.criteria = tuple(held)
        return True

    def again(self) -> DataFrame:
        """Return the rows of the FLAT's table of which rows are to be made again."""
        return _touched(self.touching.frames[self.flat.read], self.criteria, {}, keep=True)


def _touched(rows: DataFrame, criteria: tuple[Criterion, ...], names: Mapping[str, str], *, keep: bool) -> DataFrame:
    """Keep the rows that are to be made again, or the others; `names` say what the columns are called here.

    Each key is touched once at most, so rows do not become more.
    """
    columns, hits = rows.columns, ["false"]
    for number, each in enumerate(criteria):
        keys = each.keys.withColumnsRenamed({name: f"{name}_{number}" for name in each.keys.columns})
        equals = "<=>" if each.may_be_null else "="
        same = (
            f"{quoted(names.get(name, name))} {equals} {key_name(at)}_{number}"
            for name, at in zip(each.columns, each.order, strict=True)
        )
        rows = rows.join(F.broadcast(keys), F.expr(" AND ".join(same)), "left")
        since = f"{SINCE}_{number}"
        hits.append(f"{quoted(names.get(each.time, each.time))} >= {since}" if each.time else f"{since} IS NOT NULL")
    condition = f"coalesce({' OR '.join(hits)}, false)"
    return rows.where(condition if keep else f"NOT {condition}").select(*map(quoted, columns))
