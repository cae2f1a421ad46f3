"""Versions of columns are recorded once, with the batch that delivers them, by any runner and in any order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.ledgers import Desk, day, result, table
from waterclock.batches.schemas import Side


def bring(at: Desk, label: int, **sides: dict[str, str]) -> None:
    claim = at.claim("raw.a", label)
    brought = replace(result(label), source={"schema": sides})
    at.ledger.claims.record_done(claim, [brought])


def told(at: Desk) -> list[tuple[Any, ...]]:
    found = at.ledger.reads.schemas("raw.a")
    return [(each.side, each.number, each.label, dict(each.columns)) for each in found]


def test_a_version_is_written_where_columns_are_others(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True))
    bring(at_desk, 1, source={"a": "BIGINT"}, table={"a": "bigint"})
    bring(at_desk, 2, source={"a": "BIGINT"})  # another runner had not seen the first one
    bring(at_desk, 4, source={"a": "BIGINT", "b": "STRING"}, table={"a": "bigint", "b": "string"})
    bring(at_desk, 3, source={"a": "BIGINT"})  # an older label, with the columns of the label before it
    assert told(at_desk) == [
        (Side.SOURCE, 2, day(4), {"a": "BIGINT", "b": "STRING"}),
        (Side.SOURCE, 1, day(1), {"a": "BIGINT"}),
        (Side.TABLE, 2, day(4), {"a": "bigint", "b": "string"}),
        (Side.TABLE, 1, day(1), {"a": "bigint"}),
    ]
    assert at_desk.ledger.reads.schemas("raw.b") == ()
