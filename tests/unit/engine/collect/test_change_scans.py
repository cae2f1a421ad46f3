"""Notes of a change scan apply to the windows that it covered, and to no others."""

from __future__ import annotations

from typing import Any

from tests.ledgers import day
from tests.unit.engine.collect.test_lookback import piece
from waterclock.connectors.interface import ChangedWindows, Mark
from waterclock.engine.collect.change_scans import LOOKED, ScanNotes, marks_of, notes_of, read_note
from waterclock.timelabel.label import label_of
from waterclock.timelabel.window import Window


def windows(*numbers: int) -> list[Window]:
    return [Window(day(number), day(number + 1)) for number in numbers]


def noted(of: int, *past: int, mark: str = "m", at: float = 0, by: str = "t") -> ScanNotes:
    """Return the notes of a day's batch, read back from the ledger's format."""
    of_window: dict[Any, Any] = {day(number): [number] for number in (of, *past)}
    looked = ChangedWindows({}, mark, of_window)
    notes = notes_of(looked, day(at), by, windows(of), [piece(number) for number in past], {})
    return read_note(day(of), notes[day(of)], "t")


def marks(asked: list[Window], *looks: ScanNotes) -> dict[int, Mark]:
    return {(start - day(0)).days: mark for start, mark in marks_of(asked, looks).items()}


def test_a_change_scan_covers_its_own_window_and_windows_done_before() -> None:
    found = marks(windows(1, 2, 3, 4, 5), noted(5, 1, 2, 4))
    # another runner made the third window at that time: this scan does not know its content
    assert found == {n: Mark("m", [n]) for n in (1, 2, 4, 5)}


def test_the_newest_change_scan_of_a_window_counts_whatever_its_label() -> None:
    old, new = noted(6, 3, 4, 5, mark="old", at=1), noted(5, 2, 3, 4, mark="new", at=2)
    found = marks(windows(2, 3, 4, 5, 6), old, new)
    assert {number: mark.of_all for number, mark in found.items()} == dict.fromkeys((2, 3, 4, 5), "new") | {6: "old"}


def test_a_scan_by_another_change_column_covers_no_windows() -> None:
    assert marks(windows(1, 2), noted(2, 1, by="another column")) == {}
    assert marks(windows(1), read_note(day(1), {"rows": 3}, "t")) == {}


def test_the_first_label_of_a_group_records_the_changes_of_past_windows() -> None:
    looked = ChangedWindows({day(1): "m says so"}, {"from": "x"})
    notes = notes_of(looked, day(9), "t", windows(3, 4), [piece(1), piece(2)], looked.changed)
    assert notes[day(1)] == {"changed": "m says so"}
    assert notes[day(3)][LOOKED]["past"]["changed"] == {label_of(day(1)): "m says so"}
    assert "past" not in notes[day(4)][LOOKED]
