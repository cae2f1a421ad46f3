"""Traces a batch to all of its inputs and to all batches made from it, using recorded inputs only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from waterclock.batches.audit_records import Link
from waterclock.flow.enums import FOLDS, Mode
from waterclock.ledger import ledger_errors
from waterclock.ledger.read.inputs import IS_CURRENT, build_overlap_values, extend_to_readers
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.rows import columns_of
from waterclock.ledger.store.schema import AnyRow, batches, claims, inputs, revisions, tables

_LATER = revisions.alias("later")
_SEEN = revisions.c.recorded_sequence < sa.bindparam("claimed")
_NEWEST_SEEN = ~sa.exists().where(
    _LATER.c.table_name == revisions.c.table_name,
    _LATER.c.label == revisions.c.label,
    _LATER.c.recorded_sequence > revisions.c.recorded_sequence,
    _LATER.c.recorded_sequence < sa.bindparam("claimed"),
)
_CURRENT = sa.select(batches.c.current_claim).where(
    batches.c.table_name == sa.bindparam("of"), batches.c.label == sa.bindparam("at")
)
_READS = (
    sa.select(inputs.c.table_name, inputs.c.low, inputs.c.high, tables.c.mode, claims.c.claimed_sequence)
    .join(claims, claims.c.number == inputs.c.claim)
    .join(tables, tables.c.name == inputs.c.table_name)
    .where(inputs.c.claim == sa.bindparam("number_"), inputs.c.label == sa.bindparam("at"))
    .order_by(inputs.c.position)
)
_NOW = batches.alias("now")
# a revision without a digest equals only itself
_DIFFERS = sa.and_(
    _NOW.c.current_claim != revisions.c.claim,
    sa.or_(_NOW.c.digest.is_(None), revisions.c.digest.is_(None), _NOW.c.digest != revisions.c.digest),
)
_OF_NOW = sa.and_(_NOW.c.table_name == revisions.c.table_name, _NOW.c.label == revisions.c.label)
_READ_SLICES = (
    sa.select(
        *columns_of(revisions, "table_name label claim rows digest stands_from recorded_at"),
        claims.c.code,
        _DIFFERS.label("is_replaced"),
    )
    .join(claims, claims.c.number == revisions.c.claim)
    .join(_NOW, _OF_NOW)
    .where(revisions.c.table_name == sa.bindparam("of"), _SEEN, _NEWEST_SEEN)
    .order_by(revisions.c.label)
)
_counts_from = sa.func.coalesce(revisions.c.stands_from, revisions.c.label)
_SUMMED = _READ_SLICES.where(revisions.c.label >= sa.bindparam("low"), revisions.c.label < sa.bindparam("high"))
_FOLDED = _READ_SLICES.where(revisions.c.label >= sa.bindparam("low"), _counts_from < sa.bindparam("high"))
_STANDING = _READ_SLICES.where(
    revisions.c.label >= sa.bindparam("low"),
    _counts_from <= sa.bindparam("low"),
).limit(1)
_SPAN = sa.select(batches.c.label, batches.c.end, batches.c.stands_from, batches.c.current_claim).where(
    batches.c.table_name == sa.bindparam("of"), batches.c.label == sa.bindparam("at")
)
_SPANS = sa.select(
    batches.c.table_name, batches.c.label, batches.c.end, batches.c.stands_from, batches.c.current_claim
).where(
    batches.c.table_name.in_(sa.bindparam("names", expanding=True)),
    batches.c.label.in_(sa.bindparam("labels", expanding=True)),
)
_READERS = extend_to_readers(
    sa.select(batches.c.table_name, batches.c.label, batches.c.current_claim.label("claim"), batches.c.rows,
              batches.c.code, claims.c.claimed_sequence, inputs.c.table_name.label("of_table"))
    .join(claims, claims.c.number == batches.c.current_claim)
    .join(
        inputs,
        IS_CURRENT,
    ),
    distinct=True,
).order_by(sa.text("1, 2"))  # fmt: skip


_REVISIONS = (
    sa.select(revisions.c.table_name, revisions.c.label, revisions.c.recorded_sequence, _DIFFERS.label("is_replaced"))
    .join(_NOW, _OF_NOW)
    .where(
        revisions.c.table_name.in_(sa.bindparam("names", expanding=True)),
        revisions.c.label.in_(sa.bindparam("labels", expanding=True)),
    )
    .order_by(revisions.c.recorded_sequence.desc())
)
_CHUNK = 200  # tables in one query
_Batch = tuple[str, datetime]


@dataclass(frozen=True, slots=True)
class ReadSlice:
    """A slice that a batch read, as it was when the batch was claimed. `digest` is None if none is known.

    `has_content`: it is part of the content of a read. A slice without rows is not, except if it ends all keys.
    """

    table: str
    label: datetime
    claim: int
    digest: str | None
    recorded_at: datetime
    has_content: bool


def upstream(
    database: LedgerDatabase, table: str, label: datetime, *, claim: int | None = None, depth: int | None = None
) -> list[Link]:
    """Return every slice that went into a batch, directly or through others, nearest first, as it was when read.

    `claim` selects a revision; the default is the current one. `depth` 1 returns only direct inputs. Raises E412 for a
    batch that does not have the revision.
    """
    with database.read() as connection:
        first = connection.execute(_CURRENT, {"of": table, "at": label}).scalar() if claim is None else claim
        if first is None:
            raise ledger_errors.unknown_batch(table, label)
        found: dict[tuple[str, datetime, int], Link] = {}
        frontier: list[tuple[datetime, int]] = [(label, first)]
        distance = 0
        while frontier and (depth is None or distance < depth):
            distance += 1
            rows = [
                (row, bool(row.is_replaced))
                for at, number in frontier
                for row in _read_input_slices(connection, at, number)
            ]
            frontier = [(link.label, link.claim) for link in _add_links(found, rows, distance)]
    return list(found.values())


def downstream(database: LedgerDatabase, table: str, label: datetime, *, depth: int | None = None) -> list[Link]:
    """Return every batch made from a batch, directly or through others, nearest first. Raises E412 if never done."""
    with database.read() as connection:
        found: dict[tuple[str, datetime, int], Link] = {}
        first = connection.execute(_SPAN, {"of": table, "at": label}).first()
        if first is None or first.current_claim is None:
            raise ledger_errors.unknown_batch(table, label)
        frontier = [(table, label, False)]
        distance = 0
        while frontier and (depth is None or distance < depth):
            distance += 1
            rows = _read_readers(connection, {(name, at): is_replaced for name, at, is_replaced in frontier})
            frontier = [(link.table, link.label, link.is_replaced) for link in _add_links(found, rows, distance)]
    return list(found.values())


def list_read_slices(
    database: LedgerDatabase, revision: tuple[datetime, int], names: Collection[str]
) -> dict[str, dict[datetime, ReadSlice]]:
    """Map the tables in `names` to the slices by label that a revision (its label and claim) read directly.

    Cost: a query for each read of these tables.
    """
    found: dict[str, dict[datetime, ReadSlice]] = {name: {} for name in names}
    with database.read() as connection:
        for row, mode in _read_slices_of(connection, *revision, names):
            ends_keys = mode == Mode.TEMPORAL and row.stands_from is not None
            has_content = row.digest is None or row.rows > 0 or ends_keys
            found[row.table_name][row.label] = ReadSlice(
                row.table_name, row.label, row.claim, row.digest, row.recorded_at, has_content
            )
    return found


def _add_links(
    found: dict[tuple[str, datetime, int], Link], rows: Iterable[tuple[AnyRow, bool]], distance: int
) -> list[Link]:
    """Add links for new batches to `found`, and mark known batches that depend on replaced rows.

    Return the added and the marked links.
    """
    new: dict[tuple[str, datetime, int], Link] = {}
    for row, is_replaced in rows:
        key = (row.table_name, row.label, row.claim)
        known = found.get(key)
        if known is None:
            found[key] = new[key] = Link(distance, *key, row.rows, row.code, is_replaced)
        elif is_replaced and not known.is_replaced:
            found[key] = new[key] = replace(known, is_replaced=True)
    return list(new.values())


def _read_input_slices(connection: sa.Connection, label: datetime, claim: int) -> Iterator[AnyRow]:
    yield from (row for row, _ in _read_slices_of(connection, label, claim))


def _read_slices_of(
    connection: sa.Connection, label: datetime, claim: int, names: Collection[str] | None = None
) -> Iterator[tuple[AnyRow, str]]:
    """Yield the slices that a revision read, each with the mode of its table; of the tables in `names`, if given."""
    for read in connection.execute(_READS, {"number_": claim, "at": label}).all():
        if names is not None and read.table_name not in names:
            continue
        values = {"of": read.table_name, "low": read.low, "claimed": read.claimed_sequence}
        if read.low >= read.high:
            continue
        query = _STANDING
        if read.mode != Mode.REPLACE:
            query, values = _FOLDED if read.mode in FOLDS else _SUMMED, values | {"high": read.high}
        yield from ((row, read.mode) for row in connection.execute(query, values))


def _read_readers(connection: sa.Connection, frontier: Mapping[_Batch, bool]) -> Iterator[tuple[AnyRow, bool]]:
    """Yield the readers of batches, each with whether it depends on rows that were replaced since.

    `frontier` maps the batches to whether each depends on replaced rows itself. Cost: two statements for tables with
    the same labels, and one for each period that they cover, independent of the number of tables.
    """
    spans: dict[_Batch, AnyRow] = {}
    made: defaultdict[_Batch, list[AnyRow]] = defaultdict(list)
    for which in _group_query_parameters(frontier):
        spans |= {(row.table_name, row.label): row for row in connection.execute(_SPANS, which)}
        for row in connection.execute(_REVISIONS, which):
            made[row.table_name, row.label].append(row)
    of_span: defaultdict[tuple[datetime, datetime], list[str]] = defaultdict(list)
    for name, label in frontier:
        row = spans[name, label]
        of_span[row.stands_from or label, row.end].append(name)
    readers: defaultdict[tuple[str, datetime, datetime], list[AnyRow]] = defaultdict(list)
    for (low, high), names in of_span.items():
        for start in range(0, len(names), _CHUNK):
            for reader in connection.execute(_READERS, build_overlap_values(names[start : start + _CHUNK], low, high)):
                readers[reader.of_table, low, high].append(reader)
    for (name, label), is_replaced in frontier.items():
        row = spans[name, label]
        for reader in readers[name, row.stands_from or label, row.end]:
            seen = next((it for it in made[name, label] if it.recorded_sequence < reader.claimed_sequence), None)
            yield reader, is_replaced or (seen is not None and bool(seen.is_replaced))


def _group_query_parameters(frontier: Iterable[_Batch]) -> Iterator[dict[str, list[Any]]]:
    """Yield the parameters of combined queries: names of tables with the same labels, and these labels."""
    labels: defaultdict[str, set[datetime]] = defaultdict(set)
    for name, label in frontier:
        labels[name].add(label)
    alike: defaultdict[frozenset[datetime], list[str]] = defaultdict(list)
    for name, of_table in labels.items():
        alike[frozenset(of_table)].append(name)
    for same, names in alike.items():
        for start in range(0, len(names), _CHUNK):
            for first in range(0, len(same), _CHUNK):
                some = sorted(same)[first : first + _CHUNK]
                yield {"names": names[start : start + _CHUNK], "labels": some}
