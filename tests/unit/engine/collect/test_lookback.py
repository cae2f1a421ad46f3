"""LOOKBACK reads done windows again, only complete ones, and only changed windows have a cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from tests.ledgers import day
from tests.unit.engine.fakes import collect, group, manifest
from waterclock.batches.ledger_snapshot import FOREVER, LOOK_AGAIN
from waterclock.batches.records import Slice
from waterclock.engine.collect.lookback import (
    filter_changed_slices,
    find_arrival_slack,
    find_revisited_slices,
    windows_read,
)
from waterclock.flow.enums import Mode
from waterclock.storage.slices.manifest import Manifest
from waterclock.timelabel.duration import Duration
from waterclock.timelabel.window import Window

TWO_DAYS = Duration(2, "DAY")


class Slices:
    """A ledger with one done slice per day, the dropped windows, and those that were released since."""

    def __init__(
        self,
        *numbers: int,
        dropped_before: int | None = None,
        noted: Mapping[int, int] | None = None,
        released: tuple[int, ...] = (),
    ) -> None:
        self.pieces = [piece(number) for number in numbers]
        self.released = [piece(number) for number in released]
        self.dropped_before = dropped_before
        self.noted = noted or {}

    def newest(self, name: str) -> Slice | None:
        assert name == "shop.orders"
        return max(self.pieces, key=lambda found: found.label, default=None)

    def source_notes(self, name: str, low: datetime, high: datetime, *, most: int, past: int) -> list[Any]:
        assert name == "shop.orders"
        items = {at: [{"name": "f", "stamp": day(stamp).isoformat()}] for at, stamp in self.noted.items()}
        noted = [(day(at), {"read": of}) for at, of in items.items() if low <= day(at) < high]
        return [*noted, (day(0), {})][past : past + most]

    def drop_boundary(self, name: str, *, by: datetime) -> datetime | None:
        assert (name, by) == ("shop.orders", FOREVER)
        return None if self.dropped_before is None else day(self.dropped_before)

    def slices(self, name: str, low: datetime, high: datetime) -> tuple[Slice, ...]:
        assert name == "shop.orders"
        return tuple(found for found in self.pieces if low <= found.label and found.end <= high)

    def list_unread_releases(self, name: str, first: datetime, before: datetime, *, note: str) -> list[Slice]:
        assert (name, note) == ("shop.orders", "released")
        assert before <= first
        return [found for found in self.released if found.label < before]


def piece(number: int, digest: str | None = "1:2:3") -> Slice:
    return Slice("shop.orders", day(number), day(number + 1), 1, 1, 1, 10, digest, "_stage", None)


def sealed(number: int, digest: str | None) -> Manifest:
    return manifest("shop.orders", number, digest=digest)


def numbers(pieces: Any) -> list[int]:
    return [(found.label - day(0)).days for found in pieces]


def again(known: Slices, table: Any, *labels: int) -> list[int]:
    ledger: Any = SimpleNamespace(reads=known, maintenance=known)
    return numbers(find_revisited_slices(ledger, table, group("shop.orders", *labels)))


def slack(known: Slices, table: Any, *labels: int, made: bool = False) -> int:
    """Return the days after the group's end up to which it reads files. `made`: its labels were made before."""
    ledger: Any = SimpleNamespace(reads=known, maintenance=known)
    asked = group("shop.orders", *labels)
    asked = replace(asked, batches=tuple(replace(it, is_revision=made) for it in asked.batches))
    return find_arrival_slack(ledger, table, asked, find_revisited_slices(ledger, table, asked)).days


def test_the_done_windows_within_the_lookback_are_read_again() -> None:
    table = collect("shop.orders", lookback=TWO_DAYS)
    assert again(Slices(1, 2, 3, 4), table, 5) == [3, 4]


def test_a_window_that_the_lookback_cuts_is_not_read_again() -> None:
    table = collect("shop.orders", lookback=Duration(36, "HOUR"))
    assert again(Slices(1, 2, 3, 4), table, 5) == [4]


def test_a_window_that_was_dropped_is_not_read_again() -> None:
    """A late row would restore all its rows, which RETAIN or a user has removed."""
    table = collect("shop.orders", lookback=TWO_DAYS)
    assert again(Slices(1, 2, 3, 4, dropped_before=4), table, 5) == [4]
    assert again(Slices(1, 2, 3, 4, dropped_before=2), table, 5) == [3, 4]


def test_a_window_before_the_lookback_is_read_again_if_it_was_released_since_the_last_batch() -> None:
    table = collect("shop.orders", lookback=TWO_DAYS)
    assert again(Slices(1, 2, 3, 4, released=(1,)), table, 5) == [1, 3, 4]
    assert again(Slices(1, 2, 3, 4, released=(4,)), table, 5) == [3, 4]
    assert again(Slices(1, 2, 3, 4, released=(1,), dropped_before=2), table, 5) == [3, 4]


def test_windows_that_are_not_done_and_the_groups_own_are_not_read_again() -> None:
    table = collect("shop.orders", lookback=TWO_DAYS)
    assert again(Slices(2, 4, 5), table, 5, 6) == [4]


def test_without_lookback_nothing_is_read_again_and_a_merge_reads_as_others_do() -> None:
    merge = collect("shop.orders", lookback=TWO_DAYS, mode=Mode.MERGE, partitioned=False)
    assert again(Slices(3, 4), collect("shop.orders"), 5) == []
    assert again(Slices(1, 3, 4), merge, 5) == [3, 4]


def test_a_window_read_again_for_late_rows_reads_no_other_windows() -> None:
    merge, known = collect("shop.orders", lookback=TWO_DAYS, mode=Mode.MERGE, partitioned=False), Slices(3, 4)
    asked = group("shop.orders", 5)
    looked = replace(asked, batches=tuple(replace(it, verb=LOOK_AGAIN) for it in asked.batches))
    assert find_revisited_slices(SimpleNamespace(reads=known, maintenance=known), merge, looked) == ()  # type: ignore[arg-type]


def test_lookback_and_own_windows_are_read_from_the_source_oldest_first() -> None:
    found = windows_read(group("shop.orders", 5, 6), [piece(3), piece(4)])
    assert found == [Window(day(number), day(number + 1)) for number in (3, 4, 5, 6)]


def test_a_window_that_is_collected_again_is_read_as_far_as_the_batches_that_read_it_before() -> None:
    table, plain = collect("shop.orders", lookback=TWO_DAYS), collect("shop.orders")
    assert slack(Slices(1, 2, 3), table, 4) == 2, "a new label: its own slack"
    together = Slices(1, 2, 3, 4, 5, noted={1: 2, 3: 9, 4: 20})  # 3 and its group read the 1st again
    assert slack(together, table, 1, made=True) == 7, "the 4th's LOOKBACK does not reach the 1st"
    assert slack(together, plain, 3, made=True) == 5, "labels that were made together read the files of all"
    assert slack(together, plain, 2, made=True) == 0


def test_a_late_label_reads_past_windows_as_far_as_newer_labels_did() -> None:
    table = collect("shop.orders", lookback=TWO_DAYS)
    known = Slices(1, 2, 4, 5, noted={2: 3, 4: 8, 5: 20})
    assert slack(known, table, 3) == 4
    assert slack(known, collect("shop.orders"), 3) == 0, "without a past window there is none that could lose rows"


def test_a_slice_with_the_digest_it_had_is_left_out_and_the_own_labels_never_are() -> None:
    before = [piece(3, "1:2:3"), piece(4, "1:2:3")]
    made = [sealed(3, "1:2:3"), sealed(4, "2:5:6"), sealed(5, "1:2:3")]
    assert numbers(filter_changed_slices(made, before)) == [4, 5]


def test_a_digest_that_is_not_known_equals_nothing() -> None:
    assert numbers(filter_changed_slices([sealed(3, None)], [piece(3, None)])) == [3]
    assert numbers(filter_changed_slices([sealed(3, None)], [piece(3, "1:2:3")])) == [3]


def test_a_lookback_is_taken_in_the_tables_zone() -> None:
    # New York's 10 March 2013 has 23 hours
    table = collect("shop.orders", lookback=Duration(1, "DAY"), zone="America/New_York")
    end = datetime(2013, 3, 11, 4, tzinfo=UTC)
    assert table.source is not None
    assert table.source.lookback is not None
    assert end - table.source.lookback.subtract_from(end, table.cadence.zone) == timedelta(hours=23)
