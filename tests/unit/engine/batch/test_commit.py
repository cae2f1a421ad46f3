"""Damaged slices that a commit and its rules skip, and when they read again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from tests.ledgers import table
from waterclock.engine.batch import commit
from waterclock.engine.batch.commit import call_without_damage
from waterclock.storage.slices.damage import FilePlace

DAYS = table("a.days", partitioned=True)
FIRST, SECOND, THIRD = (datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3))


class Reads:
    """Simulates a table whose damaged slices are found one after the other; records the slices that each read skips."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *damaged: FilePlace, current: str, requested: datetime) -> None:
        self.left_out: list[Mapping[str, datetime]] = []
        self._damaged = list(damaged)
        of_table = SimpleNamespace(requested={requested: "recompute"})
        snapshot = SimpleNamespace(of=lambda _: of_table)
        reads = SimpleNamespace(snapshot=lambda *_, **__: snapshot)
        self.work: Any = SimpleNamespace(lake=None, flow=None, ledger=SimpleNamespace(reads=reads))
        monkeypatch.setattr(commit, "damaged_file", lambda _, error: error.args[0])
        monkeypatch.setattr(commit, "current_slice", lambda *_: SimpleNamespace(slice_path=current))

    def __call__(self, lost: Mapping[str, datetime]) -> str:
        self.left_out.append(dict(lost))
        if self._damaged:
            raise OSError(self._damaged.pop(0))
        return "read"


def slice_of(label: datetime, path: str) -> FilePlace:
    return FilePlace("a.days", f"{path}/part-0.parquet", path, label)


def test_slices_that_are_replaced_or_requested_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = Reads(monkeypatch, slice_of(FIRST, "c=1"), slice_of(SECOND, "c=2"), current="", requested=SECOND)
    assert call_without_damage(reads.work, DAYS, {FIRST}, reads) == "read"
    assert reads.left_out == [{}, {"c=1": FIRST}, {"c=1": FIRST, "c=2": SECOND}]


def test_a_slice_that_another_claim_has_just_replaced_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = Reads(monkeypatch, slice_of(THIRD, "c=3"), current="c=9", requested=SECOND)
    assert call_without_damage(reads.work, DAYS, {FIRST}, reads) == "read"
    assert reads.left_out == [{}, {}], "the rows of its new slice count"


@pytest.mark.parametrize(
    ("damaged", "current"),
    [
        ([slice_of(THIRD, "c=3")], "c=3"),  # no run makes it again
        ([slice_of(FIRST, "c=1")] * 2, ""),  # it is read although it was skipped
        ([slice_of(THIRD, "c=3")] * 2, "c=9"),
        ([FilePlace("a.others", "c=1/part-0.parquet", "c=1", FIRST)], ""),
        ([FilePlace("a.days", "part-0.parquet")], ""),
    ],
)
def test_other_damage_stops_the_batch(monkeypatch: pytest.MonkeyPatch, damaged: list[FilePlace], current: str) -> None:
    reads = Reads(monkeypatch, *damaged, current=current, requested=SECOND)
    with pytest.raises(OSError, match="part-0"):
        call_without_damage(reads.work, DAYS, {FIRST}, reads)
