"""Records the result of a committed claim in one transaction, on condition that the claim is open."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from waterclock.batches.earlier_revisions import PROMOTED, REVERTED
from waterclock.batches.ledger_snapshot import BatchStatus
from waterclock.batches.records import BatchResult, Claim, Recorded, count_quarantined
from waterclock.flow.enums import FOLDS, Mode
from waterclock.ledger import ledger_errors
from waterclock.ledger.read.clock import compare_clock
from waterclock.ledger.read.content import weight
from waterclock.ledger.read.inputs import any_readers, build_overlap_values
from waterclock.ledger.store.database import LedgerDatabase, Write
from waterclock.ledger.store.rows import columns_of
from waterclock.ledger.store.schema import NAME, AnyRow, batches, inputs, items, ledger, revisions, tables, versions
from waterclock.ledger.write.claim_endings import close, restore_statuses
from waterclock.ledger.write.coverage import cover
from waterclock.ledger.write.schemas import add_schemas
from waterclock.ledger.write.suspect_batches import mark_outdated, mark_readers
from waterclock.timelabel.intervals import IntervalSet

_read = tables.alias()
# The table and the earlier state of the labels. Also whether any batch may have read the changed data, and whether any
# input of the claim has changed: further queries run only if one of these is true.
_BEFORE = (
    sa.select(
        *columns_of(tables, "name mode head_version head_label changes seconds"),
        any_readers().label("is_read"),
        sa.exists()
        .where(
            inputs.c.claim == sa.bindparam("number_"),
            inputs.c.table_name == _read.c.name,
            inputs.c.changes != _read.c.changes,
        )
        .label("is_outdated"),
        *columns_of(batches, "label current_claim end stands_from hash_high hash_low code"),
    )
    .outerjoin(
        batches,
        sa.and_(
            batches.c.table_name == sa.bindparam("of"),
            batches.c.label.in_(sa.bindparam("labels", expanding=True)),
        ),
    )
    .where(tables.c.name == sa.bindparam("of"))
)
_ADD_REVISIONS = sa.insert(revisions)
_MOVE_LAST_RECORDED = sa.update(ledger).values(last_recorded=sa.bindparam("to"))
_NEW_VALUES = (
    "end", "current_claim", "version", "rows", "bytes", "digest", "hash_high", "hash_low", "slice_path",
    "stands_from", "code", "recorded_at", "missing", "aside",
)  # fmt: skip
_FINISH = (
    sa.update(batches)
    .where(batches.c.table_name == sa.bindparam("of"), batches.c.label == sa.bindparam("at"))
    .values({name: sa.bindparam(f"new_{name}") for name in _NEW_VALUES})
    .values(status=BatchStatus.DONE.value, error=None, is_transient=None, due_again=None)
    # requests made while the claim was open still apply
    .values(requested=sa.case((batches.c.requested_sequence > sa.bindparam("claimed"), batches.c.requested)))
    .values(is_suspect=False)
)
_MOVE_HEAD = (
    sa.update(tables)
    .where(tables.c.name == sa.bindparam("of"))
    .values({name: sa.bindparam(f"new_{name}") for name in ("head_version", "head_label", "changes", "seconds")})
    .values(sum_high=tables.c.sum_high + sa.bindparam("more_high"), sum_low=tables.c.sum_low + sa.bindparam("more_low"))
)
_DROP_VERSIONS = (
    sa.update(versions)
    .where(versions.c.table_name == sa.bindparam("of"), versions.c.label >= sa.bindparam("since"))
    .where(versions.c.dropped_by.is_(None))
    .values(dropped_by=sa.bindparam("number_"))
)
_DROP_VERSION = (
    sa.update(versions)
    .where(versions.c.table_name == sa.bindparam("of"), versions.c.label == sa.bindparam("at"))
    .where(versions.c.dropped_by.is_(None))
    .values(dropped_by=sa.bindparam("number_"))
)
_ADD_VERSION = sa.insert(versions)
_COUNT_CODE = sa.text(  # SQLAlchemy has this upsert per dialect only
    "INSERT INTO codes (table_name, code, labels) VALUES (:of, :code, :more)"
    " ON CONFLICT (table_name, code) DO UPDATE SET labels = codes.labels + excluded.labels"
).bindparams(sa.bindparam("of", type_=NAME), sa.bindparam("code", type_=NAME))
_FORGET_ITEMS = sa.delete(items).where(items.c.table_name == sa.bindparam("of"), items.c.label == sa.bindparam("at"))
_COLLECTED_ITEMS = sa.select(items.c.item, items.c.label).where(
    items.c.table_name == sa.bindparam("of"), items.c.item.in_(sa.bindparam("names", expanding=True))
)
_ADD_ITEMS = sa.insert(items)
_NAMES_AT_ONCE = 10_000

# The weight of the newest claim in the mean of seconds per batch.
_WEIGHT_OF_NEWEST = 0.2


def record_done(database: LedgerDatabase, held: Claim, results: Sequence[BatchResult]) -> Recorded:
    """Record the results of a committed claim; its labels without a result get back their earlier status.

    Raises E411 if the claim is closed, E413 for a label that it does not have, E414 if another batch has one of its
    items.
    """
    with database.write() as write:
        recorded = record(write, held, results)
        _log_adoptions(write, held, results)
    _report_clock(database, write)
    return recorded


def _log_adoptions(write: Write, held: Claim, results: Sequence[BatchResult]) -> None:
    """Log which labels were reverted or adopted from a branch, to what, by whom and why, with their completion."""
    for result in results:
        for kind in (REVERTED, PROMOTED):
            if noted := result.measures.get(kind):
                data = {name: value for name, value in noted.items() if name != "by"} | {"claim": held.number}
                write.log(kind, who=noted["by"], table=held.request.table, labels=[result.label], data=data)


def record(
    write: Write, held: Claim, results: Sequence[BatchResult], *, recorded_at: datetime | None = None
) -> Recorded:
    """Do the same as `record_done`, within a transaction.

    `recorded_at` is the time of the commit, for batches that are restored from their commit records.
    """
    at = _instant_of_record(write) if recorded_at is None else recorded_at
    table = held.request.table
    closed = close(write, held.number, BatchStatus.DONE.value)
    row, before = _read_previous(write, held, results)
    weights = {found.label: _weigh(found, held.number, row.mode) for found in results}
    changed = tuple(label for label, new in weights.items() if new != _old_weight(before[label]))
    moved = _find_changed_spans(results, before, changed, row.mode)
    cover(write.connection, table, IntervalSet.from_intervals(map(_span_of, results)))
    if write.last_recorded is None or at > write.last_recorded:
        write.last_recorded = at
        write.later(_MOVE_LAST_RECORDED, {"to": at})
    write.later(_ADD_REVISIONS, [_build_revision_row(write, at, held, found) for found in results])
    finished = [_build_batch_values(at, held, found, weights[found.label]) for found in results]
    write.later(_FINISH, [values | {"claimed": closed.claimed_sequence} for values in finished])
    restore_statuses(write, held.number, set(held.request.labels) - before.keys())
    _map_versions(write, held, row, results)
    weight_changes = [
        (new[0] - before[label].hash_high, new[1] - before[label].hash_low) for label, new in weights.items()
    ]
    was_held = write.at <= closed.lease_until  # or else it was taken over, and its duration does not count
    seconds = _mean_seconds(held, write.at, len(results), row.seconds) if was_held else row.seconds
    _move_head(write, row, results, weight_changes, seconds, changes=bool(moved))
    _count_codes(write, held, before)
    _record_items(write, held, results)
    add_schemas(write, held, results)
    was_snapshot = any(old.stands_from is not None for old in before.values())  # `is_read` left that span out
    suspects = (
        mark_readers(write, table, moved, must_compare=row.mode == Mode.REPLACE)
        if moved and (row.is_read or was_snapshot)
        else 0
    )
    # the claim's own table has changed since the query, by this transaction
    if row.is_outdated or any(read.table == table for of_label in held.request.inputs.values() for read in of_label):
        suspects += mark_outdated(write, table, held.number, before)
    _log_done(write, held, results, changed)
    return Recorded(changed, suspects)


def _instant_of_record(write: Write) -> datetime:
    """Return the time to record: now, or 1 µs after the newest record if the clock was set back.

    Otherwise a later record could change the result of `--known-at` for an instant up to the newest record.
    """
    last = write.last_recorded
    return write.at if last is None or write.at >= last else last + timedelta(microseconds=1)


def _report_clock(database: LedgerDatabase, write: Write) -> None:
    """Report a clock that was set back by a second or more, once until it passes the newest record."""
    back = compare_clock(database, write.at, write.last_recorded)
    if back is not None and not database.is_clock_back:
        database.report(back.words())
    database.is_clock_back = back is not None


def _read_previous(write: Write, held: Claim, results: Sequence[BatchResult]) -> tuple[AnyRow, dict[datetime, AnyRow]]:
    """Return the database rows of the table and, by label, of the batches before they are recorded."""
    labels = [found.label for found in results]
    spans = [_span_of(found) for found in results]
    values = {"of": held.request.table, "labels": labels, "number_": held.number}
    values |= build_overlap_values([held.request.table], min(low for low, _ in spans), max(high for _, high in spans))
    rows = write.execute(_BEFORE, values).all()
    before = {row.label: row for row in rows if row.label is not None}
    for label in labels:
        if label not in held.request.labels or label not in before:
            raise ledger_errors.build_impossible_error(
                held.request.table, label, "cannot be recorded", why=f"claim {held.number} does not hold it"
            )
    return rows[0], before


def _weigh(found: BatchResult, claim: int, mode: str) -> tuple[int, int]:
    ends_keys = mode == Mode.TEMPORAL and found.stands_from is not None
    return weight(found.label, found.digest, found.rows, claim, ends_keys=ends_keys)


def _old_weight(row: AnyRow) -> tuple[int, int]:
    return row.hash_high, row.hash_low


def _build_revision_row(write: Write, at: datetime, held: Claim, found: BatchResult) -> dict[str, Any]:
    return {
        "table_name": held.request.table,
        "label": found.label,
        "claim": held.number,
        "end": found.end,
        "version": found.version,
        "rows": found.rows,
        "bytes": found.bytes,
        "digest": found.digest,
        "slice_path": found.slice_path,
        "stands_from": found.stands_from,
        "measures": dict(found.measures),
        "timings": dict(found.timings),
        "source": dict(found.source),
        "recorded_at": at,
        "recorded_sequence": write.sequence,
    }


def _build_batch_values(at: datetime, held: Claim, found: BatchResult, weighs: tuple[int, int]) -> dict[str, Any]:
    return {
        "of": held.request.table,
        "at": found.label,
        "new_end": found.end,
        "new_current_claim": held.number,
        "new_version": found.version,
        "new_rows": found.rows,
        "new_bytes": found.bytes,
        "new_digest": found.digest,
        "new_hash_high": weighs[0],
        "new_hash_low": weighs[1],
        "new_slice_path": found.slice_path,
        "new_stands_from": found.stands_from,
        "new_code": held.request.code,
        "new_recorded_at": at,
        "new_aside": count_quarantined(found.measures) or None,
        "new_missing": None if "missing" not in found.source else json.dumps(found.source["missing"]),
    }


def _span_of(found: BatchResult) -> tuple[datetime, datetime]:
    return (found.label if found.stands_from is None else found.stands_from), found.end


def _find_changed_spans(
    results: Sequence[BatchResult], before: Mapping[datetime, AnyRow], changed: Sequence[datetime], mode: str
) -> IntervalSet:
    """Return the spans where readers may find other data now: those of changed slices, old and new.

    A REPLACE batch also changes the windows that it takes over from another batch, even with the same rows.
    """

    def spans() -> Iterator[tuple[datetime, datetime]]:
        for found in results:
            old = before[found.label]
            is_elsewhere = old.current_claim is None or old.stands_from != found.stands_from
            if found.label in changed or (mode == Mode.REPLACE and is_elsewhere):
                yield _span_of(found)
                if old.stands_from is not None:
                    yield old.stands_from, old.end

    return IntervalSet.from_intervals(spans())


def _map_versions(write: Write, held: Claim, row: AnyRow, results: Sequence[BatchResult]) -> None:
    """Record which version stores the newest state, and drop the stored versions of states that changed.

    A REPLACE batch of an older label drops only the stored version of its own state.
    """
    if row.mode == Mode.APPEND:
        return
    newest = max(results, key=lambda found: found.label)
    head = newest.label if row.head_label is None else max(row.head_label, newest.label)
    if row.mode == Mode.REPLACE and newest.label < head:
        # an older state exists only as its sealed slice, without a version, and the head stays
        write.later(_DROP_VERSION, {"of": row.name, "at": newest.label, "number_": held.number})
        return
    if row.head_label is not None:
        oldest = min(found.label for found in results) if row.mode in FOLDS else head
        if oldest <= row.head_label:
            write.later(_DROP_VERSIONS, {"of": row.name, "since": oldest, "number_": held.number})
    entry = {"table_name": row.name, "label": head, "version": newest.version, "claim": held.number}
    write.later(_ADD_VERSION, entry | {"dropped_by": None})


def _move_head(
    write: Write,
    row: AnyRow,
    results: Sequence[BatchResult],
    weight_changes: Sequence[tuple[int, int]],
    seconds: float | None,
    *,
    changes: bool,
) -> None:
    """Record the table's newest version and label, and its mean of seconds per batch.

    `weight_changes` has the weight of each slice minus that of the slice that it replaces.
    """
    newest = max(results, key=lambda found: found.label)
    is_history = row.mode == Mode.REPLACE and row.head_label is not None and newest.label < row.head_label
    version = row.head_version if is_history else max(row.head_version, newest.version)
    values = {"of": row.name, "new_head_version": version, "new_changes": row.changes + changes, "new_seconds": seconds}
    head = newest.label if row.head_label is None else max(row.head_label, newest.label)
    values |= {"more_high": sum(high for high, _ in weight_changes), "more_low": sum(low for _, low in weight_changes)}
    write.later(_MOVE_HEAD, values | {"new_head_label": head})


def _mean_seconds(held: Claim, at: datetime, labels: int, mean: float | None) -> float | None:
    """Return the updated mean of seconds per batch."""
    # a claim's number is its time in milliseconds, or slightly above if many claims were taken at once
    seconds = max(0.0, at.timestamp() - held.number / 1000) / labels
    return seconds if mean is None else mean + _WEIGHT_OF_NEWEST * (seconds - mean)


def _count_codes(write: Write, held: Claim, before: Mapping[datetime, AnyRow]) -> None:
    more = Counter({held.request.code: len(before)})
    more.subtract(row.code for row in before.values() if row.current_claim is not None)
    for code, count in more.items():
        if count:
            write.later(_COUNT_CODE, {"of": held.request.table, "code": code, "more": count})


def _record_items(write: Write, held: Claim, results: Sequence[BatchResult]) -> None:
    """Record the source items that batches collected. Items that only the former revision had collected become free.

    Cost: one query, and one more for each 10,000 items of all labels together.
    """
    table = held.request.table
    found = [(one.label, item) for one in results for item in one.source.get("items", ())]
    labels = {label for label, _ in found} | {one.label for one in results if "items" in one.source}
    if not labels:
        return
    taken: dict[str, tuple[datetime, dict[str, Any]]] = {}
    for label, item in found:
        by, _ = taken.setdefault(str(item["name"]), (label, dict(item)))
        if by != label:
            raise ledger_errors.item_conflict_error(table, label, str(item["name"]), by)
    write.later(_FORGET_ITEMS, [{"of": table, "at": label} for label in sorted(labels)])
    names = list(taken)
    for at in range(0, len(names), _NAMES_AT_ONCE):
        other = write.execute(_COLLECTED_ITEMS, {"of": table, "names": names[at : at + _NAMES_AT_ONCE]}).first()
        if other is not None:
            raise ledger_errors.item_conflict_error(table, taken[other.item][0], other.item, other.label)
    rows = [
        {"table_name": table, "item": name, "label": label, "claim": held.number, "data": data}
        for name, (label, data) in taken.items()
    ]
    if rows:
        write.later(_ADD_ITEMS, rows)


def _log_done(write: Write, held: Claim, results: Sequence[BatchResult], changed: Sequence[datetime]) -> None:
    request = held.request
    for found in results:
        data = {"rows": found.rows, "version": found.version, "is_changed": found.label in changed}
        write.log(
            "done",
            who=request.who,
            table=request.table,
            labels=[found.label],
            claim=held.number,
            run=request.run,
            data=data,
        )
