"""The position up to which a source was read, from the notes of its batches."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ledgers import Desk, result, table
from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER
from waterclock.ledger.write.resetting import EmptyingCommit

TABLE = table("raw.a", partitioned=True)


@pytest.fixture(autouse=True)
def _tables(at_desk: Desk) -> None:
    at_desk.apply(TABLE)


def read(at_desk: Desk, *labels: int, **more: Any) -> None:
    """Record labels in one claim, each with the position up to which it has read its source."""
    held = at_desk.claim("raw.a", *labels, **more)
    at_desk.ledger.claims.record_done(held, [result(label, source={"to": label}) for label in labels])


def notes(at_desk: Desk) -> list[int]:
    found = at_desk.ledger.reads.source_notes("raw.a", BEGINNING, FOREVER, most=9)
    return [source["to"] for _, source in found]


def test_the_source_notes_of_a_claim_are_returned_newest_label_first(at_desk: Desk) -> None:
    read(at_desk, 0)
    read(at_desk, 1)
    assert notes(at_desk) == [1, 0]
    # a rebuild makes all labels in one claim: the next batch must continue after the newest
    read(at_desk, 0, 1, restates="rebuild")
    assert notes(at_desk) == [1, 0, 1, 0]


def test_after_a_reset_nothing_was_read(at_desk: Desk) -> None:
    read(at_desk, 0)
    maintenance = at_desk.ledger.maintenance
    claim, _ = maintenance.begin_reset("raw.a", who="ann")
    maintenance.end_reset(TABLE, EmptyingCommit(1, claim), start=None, who="ann")
    assert notes(at_desk) == []
    read(at_desk, 1)
    assert notes(at_desk) == [1]
