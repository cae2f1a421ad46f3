"""Reads the planner's view of the ledger: all tables together at one moment, in a few queries.

Data that grows with history (coverage, codes, seconds) is merged as batches are recorded. Data that is read row by row
(troubles, requests, suspects, open claims) is small and found by partial indexes.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import product
from typing import Any

import sqlalchemy as sa

from waterclock.batches.ledger_snapshot import (
    BACKFILL,
    FOLLOW,
    RECOMPUTE,
    RELEASE,
    STRENGTH,
    BatchStatus,
    FailedBatch,
    InputFact,
    LedgerSnapshot,
    OpenClaim,
    Pause,
    TableFacts,
    parse_missing_inputs,
)
from waterclock.batches.rebuilding import read_rebuilding
from waterclock.flow.declarations import Flow
from waterclock.ledger.read.closings import closings_of, find_first_closing_ticks
from waterclock.ledger.read.content import contents_of
from waterclock.ledger.read.dependents import Key, find_dependent_batches
from waterclock.ledger.read.inputs import IS_CURRENT
from waterclock.ledger.read.signatures import SIGNATURE, refused_among
from waterclock.ledger.store.database import LedgerDatabase, pause_of
from waterclock.ledger.store.schema import (
    IS_OPEN,
    IS_PARTIAL,
    IS_REQUESTED,
    IS_SUSPECT,
    IS_TROUBLE,
    AnyRow,
    batches,
    claim_labels,
    claims,
    codes,
    coverage,
    inputs,
    ledger,
    tables,
)
from waterclock.timelabel.intervals import IntervalSet

_LEDGER = sa.select(
    ledger.c.flow, ledger.c.sequence, ledger.c.paused_at, ledger.c.paused_by, ledger.c.paused_why, ledger.c.rebuilding
)
_TABLES = sa.select(
    tables.c.name, tables.c.mode, tables.c.start, tables.c.seconds, tables.c.dropped_before,
    tables.c.paused_at, tables.c.paused_by, tables.c.paused_why,
    *(tables.c[name] for name in SIGNATURE if name != "mode"),
)  # fmt: skip
_COVERAGE = sa.select(coverage.c.table_name, coverage.c.low, coverage.c.high)
_CODES = sa.select(codes.c.table_name, codes.c.code, codes.c.labels).where(codes.c.labels > 0)
_TROUBLES = sa.select(
    batches.c.table_name,
    batches.c.label,
    batches.c.status,
    batches.c.claim,
    batches.c.attempts,
    batches.c.error,
    batches.c.is_transient,
    batches.c.due_again,
).where(IS_TROUBLE)
_CLAIMS = (
    sa.select(
        claims.c.number, claims.c.table_name, claims.c.runner, claims.c.lease_until, claim_labels.c.label,
        batches.c.stands_from, batches.c.end,
    )
    .join(claim_labels, claim_labels.c.claim == claims.c.number)
    .outerjoin(
        batches,
        sa.and_(batches.c.table_name == claim_labels.c.table_name, batches.c.label == claim_labels.c.label),
    )
    .where(IS_OPEN)
)  # fmt: skip
_REQUESTED = sa.select(
    batches.c.table_name,
    batches.c.label,
    batches.c.end,
    batches.c.stands_from,
    # a release applies only while the batch is held; after a retry the batch is made as any requested one
    sa.case(
        (sa.not_(batches.c.requested.startswith(RELEASE)), batches.c.requested),
        (batches.c.status == BatchStatus.HELD.value, RELEASE),
        (batches.c.current_claim.is_(None), BACKFILL),
        else_=RECOMPUTE,
    ).label("requested"),
).where(IS_REQUESTED)
_HYPOTHETICAL_REQUESTS = sa.select(
    batches.c.table_name, batches.c.label, batches.c.end, batches.c.stands_from,
    sa.bindparam("verb", type_=sa.Text).label("requested"),
).where(
    batches.c.table_name == sa.bindparam("of"),
    batches.c.label.in_(sa.bindparam("labels", expanding=True)),
    # readers of a skipped batch ran without its rows, and follow once these exist
    sa.or_(batches.c.current_claim.is_not(None), batches.c.status == BatchStatus.SKIPPED.value),
)  # fmt: skip
_PARTIAL = sa.select(
    batches.c.table_name, batches.c.label, batches.c.end, batches.c.stands_from, batches.c.missing
).where(IS_PARTIAL)
_SUSPECT = sa.select(batches.c.table_name, batches.c.label, batches.c.end, batches.c.stands_from).where(IS_SUSPECT)
_READ = (
    sa.select(
        inputs.c.reader, inputs.c.label, inputs.c.table_name, inputs.c.read, inputs.c.low, inputs.c.high,
        inputs.c.content,
    )
    .join(
        batches,
        IS_CURRENT,
    )
    .where(
        batches.c.table_name.in_(sa.bindparam("names", expanding=True)),
        batches.c.label.in_(sa.bindparam("labels", expanding=True)),
    )
    .order_by(inputs.c.reader, inputs.c.label, inputs.c.position)
)  # fmt: skip
_READ_OF_HELD = (
    sa.select(
        inputs.c.reader, inputs.c.label, inputs.c.table_name, inputs.c.read, inputs.c.low, inputs.c.high,
        inputs.c.content,
    )
    .join(
        batches,
        sa.and_(
            batches.c.table_name == inputs.c.reader,
            batches.c.label == inputs.c.label,
            batches.c.claim == inputs.c.claim,
        ),
    )
    .where(IS_TROUBLE, batches.c.status == BatchStatus.HELD.value)
    .order_by(inputs.c.reader, inputs.c.label, inputs.c.position)
)  # fmt: skip
_CHUNK = 500
Rows = Mapping[str, list[AnyRow]]
RequestsByVerb = Mapping[tuple[str, str], Collection[datetime]]
NOBODY: RequestsByVerb = {}


def snapshot(
    database: LedgerDatabase,
    flow: Flow,
    *,
    tables: Collection[str] | None = None,
    asking: RequestsByVerb = NOBODY,
    most: int | None = None,
    uncounted: int = 0,
) -> LedgerSnapshot:
    """Return the facts that the planner needs about the flow's tables, or those in `tables`; unknown ones are left out.

    `asking` maps (verb, table) to labels that a user may restate; they count as requested. Raises E525 if more than
    `most` + `uncounted` batches depend on batches that may change. `uncounted` is the number of dependents that exist
    without these requests. Cost: ten queries, and one read of the inputs of each batch that may be stale; none of them
    grows with history. Done batches are read only for the named tables.
    """
    wanted = set(flow.tables if tables is None else tables)
    with database.read() as connection:
        first = connection.execute(_LEDGER).one()
        found = {row.name: row for row in connection.execute(_TABLES)}
        read = {
            kind: _read_by_table(connection, query, tables)
            for kind, query in (("coverage", _COVERAGE), ("codes", _CODES), ("troubles", _TROUBLES))
        }
        claimed = _read_by_table(connection, _CLAIMS)
        partial = _read_by_table(connection, _PARTIAL)
        requested = _read_requested_rows(connection, asking)
        uncertain = _find_uncertain_batches(
            connection,
            flow,
            (*_flatten_rows(requested), *_flatten_rows(claimed), *_flatten_rows(partial)),
            most,
            uncounted,
        )
        reads = _read_inputs(connection, uncertain, wanted)
        facts = _input_facts(connection, found, reads)
        released = {name: {it.label for it in rows if it.requested == RELEASE} for name, rows in requested.items()}
        covered = {name: _merge_covered_windows(read["coverage"].get(name)) for name in found if name in wanted}
        hypothetical = {name: labels for (_, name), labels in asking.items()}
        requested_labels = {name: [row.label for row in rows] for name, rows in requested.items()}
        since = find_first_closing_ticks(flow, covered, uncertain, hypothetical, requested_labels)
        reads_of_held = _read_held_inputs(connection, read["troubles"])
        facts_of_held = _input_facts(connection, found, reads_of_held)
        latest = _map_latest_ticks(reads, reads_of_held)
        closings = closings_of(connection, flow, covered, uncertain, reads, since)
        refused = refused_among(connection, flow, found)
    return LedgerSnapshot(
        tables={
            name: TableFacts(
                start=row.start,
                covered=covered[name],
                troubles={
                    it.label: _build_failed_batch(it, facts_of_held.get(name, {}).get(it.label, ()))
                    for it in read["troubles"].get(name, ())
                    if it.label not in released.get(name, ())
                },
                open_claims=_group_open_claims(claimed.get(name, ())),
                requested={
                    it.label: it.requested for it in requested.get(name, ()) if it.requested not in {FOLLOW, BACKFILL}
                },
                following=frozenset(it.label for it in requested.get(name, ()) if it.requested == FOLLOW),
                wanted=frozenset(it.label for it in requested.get(name, ()) if it.requested in {BACKFILL, RELEASE}),
                suspects=facts.get(name, {}),
                latest=latest.get(name, {}),
                codes={it.code: it.labels for it in read["codes"].get(name, ())},
                seconds_per_batch=row.seconds,
                period_starts=_map_period_starts((*requested.get(name, ()), *claimed.get(name, ()))),
                dropped_before=row.dropped_before,
                partial={it.label: parse_missing_inputs(json.loads(it.missing)) for it in partial.get(name, ())},
                paused=pause_of(row),
                closings=closings.get(name, {}),
                closings_from=since.get(name),
                refused=refused.get(name),
            )
            for name, row in found.items()
            if name in wanted
        },
        flow=first.flow,
        sequence=first.sequence,
        paused=pause_of(first, is_of_all=True) or _rebuild_pause(first, database),
    )


def _read_requested_rows(connection: sa.Connection, asking: RequestsByVerb) -> Rows:
    """Return the batches requested in the ledger or in `asking`, by table. The stronger of two verbs counts."""
    rows = defaultdict(list, _read_by_table(connection, _REQUESTED))
    for (verb, name), labels in asking.items():
        stronger = {row.label for row in rows[name] if STRENGTH[row.requested] >= STRENGTH[verb]}
        rows[name] = [row for row in rows[name] if row.label in stronger or row.label not in labels]
        for chunk in _chunks(sorted(set(labels) - stronger)):
            rows[name] += connection.execute(_HYPOTHETICAL_REQUESTS, {"of": name, "labels": chunk, "verb": verb})
    return rows


def _read_by_table(
    connection: sa.Connection, query: sa.Select[*tuple[Any, ...]], names: Collection[str] | None = None
) -> Rows:
    """Return the rows of a query by their table: for the named tables, or for all."""
    rows: defaultdict[str, list[AnyRow]] = defaultdict(list)
    if names is not None:
        query = query.where(query.selected_columns.table_name.in_(sorted(names)))
    for row in connection.execute(query):
        rows[row.table_name].append(row)
    return rows


def _rebuild_pause(row: AnyRow, database: LedgerDatabase) -> Pause | None:
    """Return the running `rebuild --all` as a pause, since no runner may claim anything until it ends, or None."""
    found = read_rebuilding(row.rebuilding)
    return found.pause() if found is not None and found.is_blocking(database.clock()) else None


def _merge_covered_windows(rows: Collection[AnyRow] | None) -> IntervalSet:
    return IntervalSet.from_intervals((row.low, row.high) for row in rows) if rows else IntervalSet()


def _build_failed_batch(row: AnyRow, read: Collection[InputFact]) -> FailedBatch:
    """Build a failed or held batch from its row. `read` has the inputs of a held batch."""
    return FailedBatch(
        status=BatchStatus(row.status),
        claim=row.claim,
        attempts=row.attempts,
        error=row.error or "",
        is_transient=bool(row.is_transient),
        due_again=row.due_again,
        read=tuple(read),
    )


def _group_open_claims(rows: Collection[AnyRow]) -> tuple[OpenClaim, ...]:
    of_claim: defaultdict[int, list[AnyRow]] = defaultdict(list)
    for row in rows:
        of_claim[row.number].append(row)
    return tuple(
        OpenClaim(number, tuple(sorted(row.label for row in of_one)), of_one[0].runner, of_one[0].lease_until)
        for number, of_one in sorted(of_claim.items())
    )


def _map_period_starts(rows: Collection[AnyRow]) -> Mapping[datetime, datetime]:
    return {row.label: row.stands_from for row in rows if row.stands_from is not None}


def _find_uncertain_batches(
    connection: sa.Connection, flow: Flow, remade: Collection[AnyRow], most: int | None, uncounted: int
) -> Mapping[str, set[datetime]]:
    """Map tables to the labels that may change (suspect, partial, requested, made again) and to all dependent ones."""
    rows = [*connection.execute(_SUSPECT), *(row for row in remade if row.end is not None)]
    seeds: dict[Key, tuple[datetime, datetime]] = {
        (row.table_name, row.label): (row.stands_from or row.label, row.end) for row in rows
    }
    return find_dependent_batches(connection, flow, seeds, most=most, uncounted=uncounted) if seeds else {}


def _flatten_rows(rows: Rows) -> Collection[AnyRow]:
    return [row for of_table in rows.values() for row in of_table]


def _read_inputs(
    connection: sa.Connection, uncertain: Mapping[str, set[datetime]], wanted: Collection[str]
) -> Mapping[str, list[AnyRow]]:
    alike: defaultdict[frozenset[datetime], list[str]] = defaultdict(list)  # names of tables by common labels
    for name, labels in uncertain.items():
        if name in wanted:
            alike[frozenset(labels)].append(name)
    found: defaultdict[str, list[AnyRow]] = defaultdict(list)
    for same, names in alike.items():
        for some, others in product(_chunks(sorted(same)), _chunks(names)):
            for row in connection.execute(_READ, {"labels": some, "names": others}):
                found[row[0]].append(row)
    return found


def _chunks(of: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (of[start : start + _CHUNK] for start in range(0, len(of), _CHUNK))


def _input_facts(
    connection: sa.Connection, found: Mapping[str, AnyRow], reads: Mapping[str, list[AnyRow]]
) -> Mapping[str, Mapping[datetime, tuple[InputFact, ...]]]:
    modes = {name: row.mode for name, row in found.items()}
    # a batch may have ten thousand rows, so unpack them as tuples instead of by column name
    taken = [(name, [tuple(row) for row in rows]) for name, rows in reads.items()]
    wanted = {(of, low, high) for _, rows in taken for _, _, of, _, low, high, _ in rows if of in modes}
    now = contents_of(connection, modes, wanted)
    facts: dict[str, dict[datetime, tuple[InputFact, ...]]] = {}
    for name, rows in taken:
        of_label: defaultdict[datetime, list[InputFact]] = defaultdict(list)
        for _, label, of, _, low, high, content in rows:
            of_label[label].append(InputFact(of, low, high, content, now.get((of, low, high), content)))
        facts[name] = {label: tuple(each) for label, each in of_label.items()}
    return facts


def _read_held_inputs(connection: sa.Connection, troubles: Rows) -> Mapping[str, list[AnyRow]]:
    """Map each table to the inputs of its held batches; without held batches, nothing is queried."""
    found: defaultdict[str, list[AnyRow]] = defaultdict(list)
    if any(row.status == BatchStatus.HELD for of_table in troubles.values() for row in of_table):
        for row in connection.execute(_READ_OF_HELD):
            found[row.reader].append(row)
    return found


def _map_latest_ticks(
    reads: Mapping[str, list[AnyRow]], reads_of_held: Mapping[str, list[AnyRow]]
) -> Mapping[str, Mapping[datetime, Mapping[str, datetime]]]:
    """Map each table, its labels and their input tables to the ticks that LATEST picked.

    A done batch has the ticks of its current revision. Any other batch has those of its held attempt, since a release
    commits that attempt.
    """
    picked: defaultdict[str, defaultdict[datetime, dict[str, datetime]]] = defaultdict(lambda: defaultdict(dict))
    for of_table in (reads_of_held, reads):
        for name, rows in of_table.items():
            for _, label, of, read, _, high, _ in rows:
                if read.startswith("LATEST("):
                    picked[name][label][of] = high
    return {name: dict(of_labels) for name, of_labels in picked.items()}
