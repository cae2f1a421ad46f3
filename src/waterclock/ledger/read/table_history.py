"""Reads how tables and all of their inputs have changed since an instant, for queries as known at that time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from waterclock.batches.audit_records import BEGUN_ANEW
from waterclock.batches.ledger_snapshot import (
    BEGINNING,
    FOREVER,
    History,
    InputFact,
    RevisionFact,
    TableHistory,
    parse_missing_inputs,
)
from waterclock.batches.records import MISSING
from waterclock.flow.declarations import Flow
from waterclock.flow.enums import Mode, ReadKind
from waterclock.ledger.read.content import contents_of, weight
from waterclock.ledger.read.dependents import Key, Span, find_dependent_batches
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.rows import chunks_of
from waterclock.ledger.store.schema import (
    IS_DONE,
    IS_SUSPECT,
    AnyRow,
    batches,
    claim_labels,
    claims,
    coverage,
    events,
    inputs,
    tables,
)
from waterclock.ledger.store.schema import revisions as revisions_table
from waterclock.timelabel.intervals import IntervalSet

_NAMES: sa.BindParameter[Any] = sa.bindparam("names", expanding=True)
_LABELS: sa.BindParameter[Any] = sa.bindparam("labels", expanding=True)
_MODES = sa.select(tables.c.name, tables.c.mode)
_COVERAGE = sa.select(coverage.c.table_name, coverage.c.low, coverage.c.high).where(coverage.c.table_name.in_(_NAMES))
# A claim is closed by the transaction that records its revisions. The query reads claims, since they have fewer and
# shorter rows than revisions.
_CHANGED = (
    sa.select(claim_labels.c.table_name, claim_labels.c.label)
    .join(claims, claims.c.number == claim_labels.c.claim)
    .where(IS_DONE, claims.c.closed_at > sa.bindparam("since"), claims.c.table_name.in_(_NAMES))
)  # not DISTINCT, for which SQLite would scan all labels in their order
_IS_PARTIAL = sa.cast(revisions_table.c.source, sa.Text).like(f'%"{MISSING}":%')
_REVISIONS = (
    sa.select(
        revisions_table.c.label, revisions_table.c.claim, revisions_table.c.recorded_at, revisions_table.c.end,
        revisions_table.c.stands_from, revisions_table.c.digest, revisions_table.c.rows, tables.c.mode,
        sa.case((_IS_PARTIAL, revisions_table.c.source)).label("source"),
    )
    .join(tables, tables.c.name == revisions_table.c.table_name)
    .where(revisions_table.c.table_name == sa.bindparam("of"), revisions_table.c.label.in_(_LABELS))
    .order_by(revisions_table.c.label, revisions_table.c.version, revisions_table.c.recorded_sequence)
)  # fmt: skip
_CURRENT = sa.select(batches.c.label, batches.c.current_claim, batches.c.hash_high, batches.c.hash_low).where(
    batches.c.table_name == sa.bindparam("of"),
    batches.c.label.in_(_LABELS),
    batches.c.current_claim.is_not(None),
)
_SUSPECT = sa.select(batches.c.table_name, batches.c.label, batches.c.end, batches.c.stands_from).where(
    IS_SUSPECT, batches.c.table_name.in_(_NAMES)
)
_READ = (
    sa.select(
        inputs.c.label, inputs.c.claim, inputs.c.table_name, inputs.c.low, inputs.c.high, inputs.c.content
    )
    .where(inputs.c.claim.in_(sa.bindparam("numbers", expanding=True)))
    .order_by(inputs.c.claim, inputs.c.label, inputs.c.position)
)  # fmt: skip
# rebuilds that changed a table's cadence: its labels from before are no longer batches
_RECUTS = sa.select(events.c.table_name, events.c.at, events.c.data).where(
    events.c.table_name.in_(_NAMES), events.c.label.is_(None), events.c.kind.in_(BEGUN_ANEW),
    events.c.at > sa.bindparam("since"),
)  # fmt: skip
_RETIRED = (
    sa.select(revisions_table.c.label)
    .distinct()
    .where(revisions_table.c.table_name == sa.bindparam("of"), revisions_table.c.claim < sa.bindparam("claim_"))
    .where(~sa.exists().where(batches.c.table_name == sa.bindparam("of"), batches.c.label == revisions_table.c.label))
)
_CHUNK = 500
_KINDS_BEFORE_END = {ReadKind.PLAIN, ReadKind.PAST, ReadKind.HISTORY, ReadKind.PREVIOUS}

Bounds = Mapping[str, datetime]
_Revisions = Mapping[str, Mapping[datetime, tuple[RevisionFact, ...]]]
_InputRows = Mapping[str, Mapping[datetime, Mapping[int, tuple[AnyRow, ...]]]]


def history(database: LedgerDatabase, flow: Flow, requested: Bounds, since: datetime) -> History:
    """Return how tables, and all of their inputs, have changed since an instant by the ledger's clock.

    `requested` maps each table to an instant: only labels before it are included. Cost: one query of the claims
    done since `since`, three queries for each table that they changed, and one for each changed span. The inputs of the
    batches that depend on these are read too.
    """
    with database.read() as connection:
        modes = {row.name: row.mode for row in connection.execute(_MODES)}
        wanted = _collect_upstream_bounds(flow, requested)
        while True:
            made = _read_revisions(connection, wanted, since)
            read = _read_dependent_inputs(connection, flow, wanted, made)
            others = {row.table_name for row in _flatten_rows(read)}.intersection(modes) - wanted.keys()
            if not others:  # older code may have read tables that the current flow does not read
                return History(since, _build_table_histories(connection, modes, wanted, made, read))
            wanted |= _collect_upstream_bounds(flow, dict.fromkeys(others, FOREVER))


def _collect_upstream_bounds(flow: Flow, requested: Bounds) -> dict[str, datetime]:
    """Map the tables in `requested` and all their upstream tables to an instant: only labels before it are included.

    A batch reads data from before its end, except by LATEST. A snapshot covers windows before its own.
    """
    found: dict[str, datetime] = {}
    to_do = list(requested.items())
    while to_do:
        name, bound = to_do.pop()
        table = flow.tables.get(name)
        bound = FOREVER if table is None or table.is_snapshot else bound
        if found.get(name, BEGINNING) < bound:
            found[name] = bound
            reads = () if table is None else table.reads
            to_do += [(read.table, bound if read.kind in _KINDS_BEFORE_END else FOREVER) for read in reads]
    return found


def _read_revisions(connection: sa.Connection, bounds: Bounds, since: datetime) -> _Revisions:
    changed: defaultdict[str, set[datetime]] = defaultdict(set)
    for name, label in connection.execute(_CHANGED, {"names": sorted(bounds), "since": since}):
        if label < bounds[name]:
            changed[name].add(label)
    made = {name: _read_label_revisions(connection, name, sorted(labels), since) for name, labels in changed.items()}
    for row in connection.execute(_RECUTS, {"names": sorted(bounds), "since": since}):
        if row.data.get("is_recut"):
            retired = _read_retired_labels(connection, row, bounds[row.table_name], since)
            made[row.table_name] = {**retired, **made.get(row.table_name, {})}
    return made


def _read_retired_labels(
    connection: sa.Connection, recut: AnyRow, bound: datetime, since: datetime
) -> Mapping[datetime, tuple[RevisionFact, ...]]:
    """Map the labels that a table had before its cadence changed to their revisions, and a last one without rows."""
    values = {"of": recut.table_name, "claim_": recut.data["claim"]}
    labels = sorted(label for label in connection.execute(_RETIRED, values).scalars() if label < bound)
    known = _read_label_revisions(connection, recut.table_name, labels, since)
    return {
        label: (*of_label, RevisionFact(recut.data["claim"], recut.at, label, label, (0, 0)))
        for label, of_label in known.items()
    }


def _read_label_revisions(
    connection: sa.Connection, name: str, labels: list[datetime], since: datetime
) -> Mapping[datetime, tuple[RevisionFact, ...]]:
    found: defaultdict[datetime, list[RevisionFact]] = defaultdict(list)
    for chunk in chunks_of(labels, _CHUNK):
        values = {"of": name, "labels": chunk}
        now = {row.label: row for row in connection.execute(_CURRENT, values)}
        for row in connection.execute(_REVISIONS, values):
            of_label = found[row.label]
            of_label.append(_build_revision(row, now.get(row.label), of_label[-1].at if of_label else BEGINNING))
    return {label: _drop_replaced(of_label, since) for label, of_label in found.items()}


def _build_revision(row: AnyRow, now: AnyRow | None, before: datetime) -> RevisionFact:
    """Build a revision from its database row.

    `now` is the row of its batch. If the revision is current, its weight is taken from `now`, since a rebuild may have
    changed it. `before` is the time of the preceding revision. The time of this one is never earlier, even if clocks
    disagree.
    """
    if now is not None and now.current_claim == row.claim:
        slice_weight = (now.hash_high, now.hash_low)
    else:
        ends_keys = row.mode == Mode.TEMPORAL and row.stands_from is not None
        slice_weight = weight(row.label, row.digest, row.rows, row.claim, ends_keys=ends_keys)
    missing = parse_missing_inputs(row.source.get(MISSING, ())) if row.source else ()
    return RevisionFact(
        row.claim, max(row.recorded_at, before), row.stands_from or row.label, row.end, slice_weight, missing
    )


def _drop_replaced(of_label: list[RevisionFact], since: datetime) -> tuple[RevisionFact, ...]:
    """Return the revisions of a label without those that a newer one had replaced at the instant `since`."""
    older = sum(made.at <= since for made in of_label)
    return tuple(of_label[max(0, older - 1) :])


def _read_dependent_inputs(connection: sa.Connection, flow: Flow, bounds: Bounds, made: _Revisions) -> _InputRows:
    """Return the inputs of changed batches and of all their dependents, by table, label and claim."""
    seeds: dict[Key, Span] = {
        (row.table_name, row.label): (row.stands_from or row.label, row.end)
        for row in connection.execute(_SUSPECT, {"names": sorted(bounds)})
        if row.label < bounds[row.table_name]
    }
    seeds |= {
        (name, label): (min(each.low for each in of_label), max(each.high for each in of_label))
        for name, of_table in made.items()
        for label, of_label in of_table.items()
    }
    affected = find_dependent_batches(connection, flow, seeds, within=bounds) if seeds else {}
    return {name: _read_batch_rows(connection, name, labels, made.get(name, {})) for name, labels in affected.items()}


def _read_batch_rows(
    connection: sa.Connection,
    name: str,
    labels: Collection[datetime],
    made: Mapping[datetime, tuple[RevisionFact, ...]],
) -> Mapping[datetime, Mapping[int, tuple[AnyRow, ...]]]:
    wanted = {(label, each.claim) for label in labels for each in made.get(label, ())}
    for chunk in chunks_of(sorted(set(labels).difference(made)), _CHUNK):
        rows = connection.execute(_CURRENT, {"of": name, "labels": chunk})
        wanted |= {(row.label, row.current_claim) for row in rows}
    found: dict[datetime, dict[int, tuple[AnyRow, ...]]] = {}
    for numbers in chunks_of(sorted({claim for _, claim in wanted}), _CHUNK):
        for row in connection.execute(_READ, {"numbers": numbers}):
            if (row.label, row.claim) in wanted:
                of_label = found.setdefault(row.label, {})
                of_label[row.claim] = (*of_label.get(row.claim, ()), row)
    return found


def _build_table_histories(
    connection: sa.Connection, modes: Mapping[str, str], names: Collection[str], made: _Revisions, read: _InputRows
) -> Mapping[str, TableHistory]:
    now = contents_of(
        connection,
        modes,
        {(row.table_name, row.low, row.high) for row in _flatten_rows(read) if row.table_name in modes},
    )
    covered: defaultdict[str, list[Span]] = defaultdict(list)
    for name, low, high in connection.execute(_COVERAGE, {"names": sorted(names)}):
        covered[name].append((low, high))

    def fact(row: AnyRow) -> InputFact:
        key = (row.table_name, row.low, row.high)
        return InputFact(*key, row.content, now.get(key, row.content))

    return {
        name: TableHistory(
            mode=Mode(modes[name]),
            covered=IntervalSet.from_intervals(covered[name]),
            made=made.get(name, {}),
            read={
                label: {claim: tuple(map(fact, rows)) for claim, rows in of_label.items()}
                for label, of_label in read.get(name, {}).items()
            },
        )
        for name in names
        if name in modes
    }


def _flatten_rows(read: _InputRows) -> Iterator[AnyRow]:
    return (
        row
        for of_table in read.values()
        for of_label in of_table.values()
        for rows in of_label.values()
        for row in rows
    )
