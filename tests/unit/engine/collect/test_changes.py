"""The position from which a batch of changes continues: the last one read, even after copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tests.ledgers import table
from waterclock.engine.collect.changes import NOTED, READ_AT, newest_notes
from waterclock.engine.collect.collect_result import RECOMPUTED, RELEASED


class Notes:
    """A fake ledger with the notes of claims, newest first."""

    def __init__(self, sources: Sequence[Mapping[str, Any]]) -> None:
        self.sources = sources

    def source_notes(self, *_: object, most: int, past: int) -> list[tuple[None, Mapping[str, Any]]]:
        return [(None, source) for source in self.sources[past : past + most]]


def newest(*sources: Mapping[str, Any]) -> Any:
    work: Any = SimpleNamespace(ledger=SimpleNamespace(reads=Notes(sources)))
    found = newest_notes(work, table("raw.a"))
    return None if found is None else found["to"]


def read(to: int, at: int | None = None, copied: str = "") -> dict[str, Any]:
    when = {} if at is None else {READ_AT: f"2026-11-23T00:00:{at:02}+00:00"}
    return {NOTED: {"to": to, **when}, **({copied: "_stage/…"} if copied else {})}


@pytest.mark.parametrize("copied", [RECOMPUTED, RELEASED])
def test_a_copy_counts_by_when_its_source_was_read(copied: str) -> None:
    assert newest() is None
    assert newest({"files": []}, read(3, 3), read(2, 2)) == 3
    assert newest(read(1, 1, copied), read(3, 3), read(2, 2)) == 3
    assert newest(read(5, 5, copied), read(3, 3)) == 5
    assert newest(read(1, 1, copied), read(4, 4, copied), read(3, 3)) == 4
    assert newest(*[read(1, 1, copied)] * 20, read(3, 3)) == 3
    assert newest(read(2, 2, copied)) == 2


def test_positions_recorded_by_older_ledgers_are_ordered_by_claim() -> None:
    assert newest(read(1, copied=RECOMPUTED), read(3), read(2)) == 3
