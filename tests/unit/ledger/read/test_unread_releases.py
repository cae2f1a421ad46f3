"""Released batches that no later batch has read again."""

from __future__ import annotations

import pytest

from tests.ledgers import Desk, day, result, table

NAME, NOTE = "raw.a", "released"


@pytest.fixture(autouse=True)
def _tables(at_desk: Desk) -> None:
    at_desk.apply(table(NAME, partitioned=True))


def release(at_desk: Desk, label: int) -> None:
    held = at_desk.claim(NAME, label)
    at_desk.version += 1
    at_desk.ledger.claims.record_done(held, [result(label, version=at_desk.version, source={NOTE: "_stage/held"})])


def unread(at_desk: Desk, first: int, before: int) -> list[int]:
    found = at_desk.ledger.reads.list_unread_releases(NAME, day(first), day(before), note=NOTE)
    return [(piece.label - day(0)).days for piece in found]


def test_released_batches_are_listed_until_a_later_one_is_made(at_desk: Desk) -> None:
    at_desk.done(NAME, 0)
    at_desk.done(NAME, 3)
    release(at_desk, 2)
    release(at_desk, 1)
    assert unread(at_desk, 4, 3) == [1, 2]
    assert unread(at_desk, 4, 2) == [1], "the LOOKBACK reads the other one"
    at_desk.done(NAME, 4)
    assert unread(at_desk, 5, 4) == []


def test_the_release_of_a_later_batch_reads_nothing(at_desk: Desk) -> None:
    release(at_desk, 1)
    release(at_desk, 2)
    assert unread(at_desk, 3, 2) == [1]


def test_batches_that_were_only_made_late_are_not_listed(at_desk: Desk) -> None:
    at_desk.done(NAME, 3)
    at_desk.done(NAME, 1)
    assert unread(at_desk, 4, 3) == []
