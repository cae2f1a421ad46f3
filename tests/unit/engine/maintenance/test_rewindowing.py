"""Slices of folds are cut into other windows with their own columns: a missing one is no NULL."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from tests.model.flows import collect, snapshot
from tests.slices import SCHEMA, hour, rows_of, sealed
from waterclock.batches.records import BatchResult
from waterclock.engine.maintenance import rewindowing
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Batching, Mode
from waterclock.flow.merge_settings import Merge, Temporal
from waterclock.ledger.read.current_revisions import CurrentRevision
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


def live_at(folder: Path) -> Any:
    return SimpleNamespace(folder=lambda _table: str(folder))


@pytest.mark.parametrize(
    ("table", "columns", "lost"),
    [
        (MERGED, (SCHEMA, WIDE), False),  # no older row has a value that a NULL could replace
        (MERGED, (WIDE, SCHEMA), True),
        (MERGED, (WIDE, WIDE), False),
        (FILLED, (WIDE, SCHEMA), False),
        (VALUES, (SCHEMA, WIDE), True),
        (VERSIONS, (SCHEMA, WIDE), False),  # each snapshot stays a slice of its own
    ],
)
def test_rows_of_one_window_may_differ_in_columns_where_a_null_replaces_nothing(
    tmp_path: Path, table: Table, columns: Sequence[pa.Schema], *, lost: bool
) -> None:
    why = rewindowing.find_rewindowing_obstacle(live_at(tmp_path), table, taken(tmp_path, *columns))
    assert (why is not None and "have no column city" in why) is lost


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
    rewindowing.rewindow_table(live_at(tmp_path), work, table, taken(tmp_path, WIDE, SCHEMA, WIDE, first=15, apart=24))
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
    spans[2] = (spans[2][0], spans[7][1])  # a long slice, which others overlap
    current = [CurrentRevision(BatchResult(*span, 1, 1, 1, None, "", stands_from=None), 1, "code") for span in spans]
    begin = datetime(2024, 1, 1, tzinfo=UTC)
    windows = [Window(begin + at * HOUR, begin + (at + 2) * HOUR) for at in range(0, count, 2)]
    _Instant.compared = 0
    pieces = rewindowing._rewindow(windows, current, spans)
    assert _Instant.compared < 25 * count
    own = [[at for at, (low, high) in enumerate(spans) if low < w.end and high > w.start] for w in windows]
    assert [[current.index(each) for each in piece.of] for piece in pieces] == own
    assert own[:5] == [[0, 1], [2, 3], [2, 4, 5], [2, 6, 7], [8, 9]]
