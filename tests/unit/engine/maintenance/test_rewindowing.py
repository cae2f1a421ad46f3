"""Slices of folds are split into other windows with their own columns: a missing column is not NULL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from tests.model.flows import PLACE, cadence, collect, snapshot
from tests.slices import SCHEMA, hour, rows_of, sealed
from waterclock.batches.records import BatchResult
from waterclock.engine.maintenance import rewindowing
from waterclock.flow.declarations import Source, Table, Unit
from waterclock.flow.enums import Batching, Mode
from waterclock.flow.for_each import Each
from waterclock.flow.merge_settings import Merge, Temporal
from waterclock.ledger.read.current_revisions import CurrentRevision
from waterclock.storage.slices.manifest import MANIFEST, read_manifest, seal
from waterclock.timelabel.window import Window

HOUR = timedelta(hours=1)
WIDE = pa.schema([*SCHEMA, ("city", pa.string())])
MERGED = replace(
    collect("web.clicks", mode=Mode.MERGE, is_partitioned=False, batching=Batching.ARRIVAL_TIME), fold=Merge(("id",))
)
VERSIONS = replace(
    snapshot("web.clicks"), mode=Mode.TEMPORAL, fold=Temporal(("id",), are_all_values=True, is_of_snapshots=True)
)
FILLED = replace(MERGED, mode=Mode.TEMPORAL, fold=Temporal(("id",)))
VALUES = replace(MERGED, mode=Mode.TEMPORAL, fold=Temporal(("id",), values=("city",)))


def taken(folder: Path, *columns: pa.Schema, first: int = 0, apart: int = 1) -> list[CurrentRevision]:
    """Seal slices of one row each, with these columns."""
    found = []
    for number, schema in enumerate(columns):
        label = hour(first + number * apart)
        manifest = sealed(str(folder), label, number, rows_of(number), schema=schema)
        result = BatchResult(label, label + HOUR, 1, 1, 1, manifest.digest, manifest.slice_path, stands_from=None)
        found.append(CurrentRevision(result, number, "code"))
    return found


def live_at(
    folder: Path,
    owned: Mapping[datetime, int] | None = None,
    *,
    open_owner: datetime | None = None,
    dropped_before: datetime | None = None,
) -> Any:
    """Return a live context.

    `owned` are the numbers of the log ranges that skipped labels own; `open_owner` owns another one.
    """
    ranges = owned or {}
    keeping = SimpleNamespace(
        skipped_windows=lambda _name: [(label, label + HOUR) for label in ranges],
        drop_boundary=lambda _name, **_: dropped_before,
    )
    reads = SimpleNamespace(
        owned_items=lambda _name, labels, _span: ({label: (log_range(ranges[label]),) for label in labels}, None),
        oldest_open_owner=lambda *_: open_owner,
    )
    return SimpleNamespace(folder=lambda _table: str(folder), ledger=SimpleNamespace(maintenance=keeping, reads=reads))


def log_range(number: int, *, is_empty: bool = False) -> dict[str, Any]:
    low = number * 10 + 10 if is_empty else number * 10
    return {"name": f"positions {number:012d}", "positions": {"of": "t a", "parts": {"0": [low, number * 10 + 10]}}}


@pytest.mark.parametrize(
    ("table", "columns", "lost"),
    [
        (MERGED, (SCHEMA, WIDE), False),  # no older row has a value that a NULL could replace
        (MERGED, (WIDE, SCHEMA), True),
        (MERGED, (WIDE, WIDE), False),
        (FILLED, (WIDE, SCHEMA), False),
        (VALUES, (SCHEMA, WIDE), True),
        (VERSIONS, (SCHEMA, WIDE), False),  # each snapshot stays a separate slice
    ],
)
def test_rows_of_one_window_may_differ_in_columns_where_a_null_replaces_nothing(
    tmp_path: Path, table: Table, columns: Sequence[pa.Schema], *, lost: bool
) -> None:
    why = rewindowing.find_obstacle_to_new_windows(live_at(tmp_path), table, taken(tmp_path, *columns))
    assert (why is not None and "have no column city" in why) is lost


@pytest.mark.parametrize(("number", "is_lost"), [(1, True), (3, False)])
def test_records_of_a_label_that_is_not_done_are_not_lost(tmp_path: Path, number: int, *, is_lost: bool) -> None:
    """They are read again after the newest done label."""
    current = taken(tmp_path, SCHEMA, SCHEMA, apart=2)
    why = rewindowing.find_obstacle_to_new_windows(live_at(tmp_path, open_owner=hour(number)), MERGED, current)
    assert (why is not None and "retry" in why) is is_lost


@pytest.mark.parametrize(
    ("mode", "every", "is_refused"),
    [(Mode.APPEND, "DAY", True), (Mode.APPEND, "HOUR", False), (Mode.REPLACE, "DAY", False)],
)
def test_answers_for_each_row_of_a_table_are_not_put_into_one_window(
    tmp_path: Path, mode: Mode, every: str, *, is_refused: bool
) -> None:
    """An id in two windows would be in one window twice, and the ids of a failed window would be missing."""
    source = Source(Unit("api", "users", None, {}, PLACE), Batching.EACH, each=Each("raw.orders", ("user_id",)))
    table = replace(collect("raw.users", mode=mode), source=source, cadence=cadence(every))
    why = rewindowing.find_obstacle_to_new_windows(live_at(tmp_path), table, taken(tmp_path, SCHEMA, SCHEMA))
    assert (why is not None and "several times" in why) is is_refused


@pytest.mark.parametrize(("dropped_before", "made"), [(None, []), (hour(28), [hour(16)])])
def test_dropped_hours_of_a_day_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dropped_before: datetime | None, made: Sequence[datetime]
) -> None:
    """Without the earlier hours, which were not dropped, the day is incomplete and is read from the source."""
    monkeypatch.setattr(rewindowing, "_time_type", lambda *_: "timestamp")
    current = taken(tmp_path, *[SCHEMA] * 12, first=28)  # from noon on
    pieces = rewindowing.pieces_of(live_at(tmp_path, dropped_before=dropped_before), collect("web.clicks"), current)
    assert [piece.window.start for piece in pieces] == made
    assert all(piece.of == tuple(current) for piece in pieces)


@pytest.mark.parametrize(("table", "own"), [(MERGED, True), (VERSIONS, True), (replace(MERGED, fold=None), False)])
def test_a_slice_of_a_fold_keeps_the_columns_that_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: Table, *, own: bool
) -> None:
    table = table if own else replace(table, mode=Mode.APPEND)
    written: list[list[str]] = []

    def write(_live: Any, _work: Any, _table: Any, pieces: Any, known: Any, schema: str, _claim: int) -> Any:
        written.extend([field["name"] for field in json.loads(schema)["fields"]] for _ in pieces)
        return [known[piece.of[0].result.label] for piece in pieces]

    monkeypatch.setattr(rewindowing, "_write_slices", write)
    monkeypatch.setattr(rewindowing, "create_from_slices", lambda *_: None)
    monkeypatch.setattr(rewindowing, "_inputs", lambda *_: {})
    work: Any = SimpleNamespace(ledger=SimpleNamespace(maintenance=SimpleNamespace(take_claim_number=lambda: 9)))
    rewindowing.seal_in_new_windows(
        live_at(tmp_path), work, table, taken(tmp_path, WIDE, SCHEMA, WIDE, first=15, apart=24)
    )
    wide = ["timelabel", "id", "name", "city"]
    assert written == [wide, wide[:3] if own else wide, wide]


class _Instant(datetime):
    """An instant that counts its comparisons."""

    compared = 0

    def __lt__(self, other: Any) -> bool:
        _Instant.compared += 1
        return super().__lt__(other)

    def __gt__(self, other: Any) -> bool:
        _Instant.compared += 1
        return super().__gt__(other)


def test_the_slices_of_a_window_are_found_without_comparing_all_of_them() -> None:
    first, count = _Instant(2024, 1, 1, tzinfo=UTC), 400
    spans = [(first + at * HOUR, first + (at + 1) * HOUR) for at in range(count)]
    spans[2] = (spans[2][0], spans[7][1])  # a long slice that overlaps others
    current = [CurrentRevision(BatchResult(*span, 1, 1, 1, None, "", stands_from=None), 1, "code") for span in spans]
    begin = datetime(2024, 1, 1, tzinfo=UTC)
    windows = [Window(begin + at * HOUR, begin + (at + 2) * HOUR) for at in range(0, count, 2)]
    _Instant.compared = 0
    pieces = rewindowing._assign_slices(windows, current, spans)
    assert _Instant.compared < 25 * count
    own = [[at for at, (low, high) in enumerate(spans) if low < w.end and high > w.start] for w in windows]
    assert [[current.index(each) for each in piece.of] for piece in pieces] == own
    assert own[:5] == [[0, 1], [2, 3], [2, 4, 5], [2, 6, 7], [8, 9]]


@pytest.mark.parametrize(
    ("owned", "last"),
    [
        ({}, None),
        ({hour(20): 3, hour(21): 4}, 4),
        ({hour(20): 3, hour(22): 5}, 3),  # the range 4 belongs to a label that failed, and is read again
        ({hour(14): 1}, None),  # later labels have later ranges
    ],
)
def test_the_ranges_of_skipped_labels_after_the_newest_slice_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owned: Mapping[datetime, int], last: int | None
) -> None:
    current = taken(tmp_path, SCHEMA, SCHEMA, first=15)
    for number, each in enumerate(current, 1):
        manifest = read_manifest(str(tmp_path), each.result.slice_path)
        (tmp_path / each.result.slice_path / MANIFEST).unlink()
        seal(str(tmp_path), replace(manifest, source={"items": [log_range(number)]}))
    notes: list[Any] = []

    def write(_live: Any, _work: Any, _table: Any, pieces: Any, known: Any, _schema: str, _claim: int) -> Any:
        sources: list[Any] = [rewindowing._source_notes(piece, known) for piece in pieces]
        notes.extend(item for source in sources for item in source["items"])
        return [known[piece.of[0].result.label] for piece in pieces]

    monkeypatch.setattr(rewindowing, "_write_slices", write)
    monkeypatch.setattr(rewindowing, "create_from_slices", lambda *_: None)
    monkeypatch.setattr(rewindowing, "_inputs", lambda *_: {})
    work: Any = SimpleNamespace(ledger=SimpleNamespace(maintenance=SimpleNamespace(take_claim_number=lambda: 9)))
    rewindowing.seal_in_new_windows(live_at(tmp_path, owned), work, MERGED, current)
    assert notes == [log_range(1), log_range(2), *([log_range(last, is_empty=True)] if last else [])]


def test_a_new_slice_knows_the_files_from_which_its_rows_were_read(tmp_path: Path) -> None:
    """A recollect would read only files stamped within DELAY and LOOKBACK, and lose late rows."""
    current = taken(tmp_path, SCHEMA, SCHEMA)
    late = {"name": "late.csv", "stamp": "2018-03-09T00:00:00+00:00"}
    known = {
        each.result.label: replace(read_manifest(str(tmp_path), each.result.slice_path), source={"read": [*own, late]})
        for each, own in zip(current, ([{"name": "a.csv"}], []), strict=True)
    }
    piece = rewindowing.NewWindowPlan(Window(hour(0), hour(2)), tuple(current))
    assert rewindowing._source_notes(piece, known)["read"] == [{"name": "a.csv"}, late]
