from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from tests.ledgers import Desk, day, table
from waterclock.batches.audit_records import Link
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Mode

Step = tuple[int, str, int]


@pytest.fixture(autouse=True)
def _tables(at_desk: Desk) -> None:
    at_desk.apply(
        table("raw.a", partitioned=True),
        table("dim.x", mode=Mode.REPLACE),
        table("core.b", partitioned=True, reads=["raw.a", "dim.x"]),
        table("mart.c", mode=Mode.REPLACE, reads=["core.b"]),
    )
    at_desk.done("raw.a", 0, 1, 2)
    at_desk.done("dim.x", 2, stands_from=0)
    for n in range(3):
        at_desk.done("core.b", n, reads={n: [at_desk.read("raw.a", n, n + 1), at_desk.read("dim.x", n, n + 1)]})
    at_desk.done("mart.c", 2, reads={2: [at_desk.read("core.b", 1, 3)]})


def steps(links: list[Link]) -> set[Step]:
    return {(link.depth, link.table, (link.label - day(0)).days) for link in links}


def test_upstream_finds_every_input_slice(at_desk: Desk) -> None:
    assert steps(at_desk.ledger.past.upstream("mart.c", day(2))) == {
        (1, "core.b", 1),
        (1, "core.b", 2),
        (2, "raw.a", 1),
        (2, "raw.a", 2),
        (2, "dim.x", 2),
    }
    assert steps(at_desk.ledger.past.upstream("mart.c", day(2), depth=1)) == {(1, "core.b", 1), (1, "core.b", 2)}
    assert at_desk.ledger.past.upstream("raw.a", day(0)) == []


def test_downstream_finds_every_batch_made_from_it(at_desk: Desk) -> None:
    assert steps(at_desk.ledger.past.downstream("raw.a", day(1))) == {(1, "core.b", 1), (2, "mart.c", 2)}
    assert steps(at_desk.ledger.past.downstream("raw.a", day(0))) == {(1, "core.b", 0)}
    assert steps(at_desk.ledger.past.downstream("dim.x", day(2), depth=1)) == {(1, "core.b", n) for n in range(3)}
    assert at_desk.ledger.past.downstream("mart.c", day(2)) == []


def test_upstream_returns_the_revisions_that_were_read_not_later_ones(at_desk: Desk) -> None:
    before = {link.claim for link in at_desk.ledger.past.upstream("core.b", day(1))}
    at_desk.done("raw.a", 1, digest="9:9:9", restates="late rows")
    assert {link.claim for link in at_desk.ledger.past.upstream("core.b", day(1))} == before
    old = at_desk.ledger.past.grid(["core.b"], day(1), day(2))[0].current_claim
    at_desk.done("core.b", 1, reads={1: [at_desk.read("raw.a", 1, 2)]})
    now = at_desk.ledger.past.upstream("core.b", day(1))
    assert [link.rows for link in now] == [9]
    assert {link.claim for link in at_desk.ledger.past.upstream("core.b", day(1), claim=old)} == before


def replaced(links: list[Link]) -> set[Step]:
    return steps([link for link in links if link.is_replaced])


def test_descendants_of_a_replaced_revision_are_marked_until_they_are_made_again(at_desk: Desk) -> None:
    assert replaced(at_desk.ledger.past.downstream("raw.a", day(1))) == set()
    at_desk.done("raw.a", 1, digest="9:9:9", restates="late rows")
    assert replaced(at_desk.ledger.past.downstream("raw.a", day(1))) == {(1, "core.b", 1), (2, "mart.c", 2)}
    assert replaced(at_desk.ledger.past.upstream("mart.c", day(2))) == {(2, "raw.a", 1)}
    assert replaced(at_desk.ledger.past.downstream("raw.a", day(0))) == set()
    at_desk.done("core.b", 1, digest="8:8:8", reads={1: [at_desk.read("raw.a", 1, 2)]})
    assert replaced(at_desk.ledger.past.downstream("raw.a", day(1))) == {(2, "mart.c", 2)}
    assert replaced(at_desk.ledger.past.downstream("core.b", day(1))) == {(1, "mart.c", 2)}
    at_desk.done("mart.c", 2, digest="7:7:7", reads={2: [at_desk.read("core.b", 1, 3)]})
    assert replaced(at_desk.ledger.past.downstream("raw.a", day(1))) == set()


def test_a_revision_of_the_same_rows_replaces_nothing(at_desk: Desk) -> None:
    digest = next(row["digest"] for row in at_desk.ledger.past.rows("batches") if row["table"] == "raw.a")
    at_desk.done("raw.a", 0, digest=digest, restates="to see that it comes out the same")
    assert replaced(at_desk.ledger.past.downstream("raw.a", day(0))) == set()


def test_links_contain_the_code_and_the_rows(at_desk: Desk) -> None:
    [link] = at_desk.ledger.past.downstream("raw.a", day(0))
    assert (link.code, link.rows) == ("code of core.b", 1)


def test_provenance_of_a_batch_that_was_never_done_is_refused(at_desk: Desk) -> None:
    at_desk.claim("raw.a", 5)
    for look in (at_desk.ledger.past.upstream, at_desk.ledger.past.downstream):
        for label in (5, 6):
            with pytest.raises(WaterclockError, match="no rows") as refused:
                look("raw.a", day(label))
            assert refused.value.code == "E412"


def test_a_self_reading_chain_is_followed_to_its_start(at_desk: Desk) -> None:
    at_desk.apply(table("core.s", reads=["core.s"]), table("raw.a", partitioned=True), fingerprint="flow 2")
    for n in range(5):
        at_desk.done("core.s", n, reads={n: [at_desk.read("core.s", n - 1, n)]})
    assert steps(at_desk.ledger.past.upstream("core.s", day(4))) == {(d, "core.s", 4 - d) for d in range(1, 5)}
    assert steps(at_desk.ledger.past.downstream("core.s", day(0))) == {(d, "core.s", d) for d in range(1, 5)}


def test_downstream_needs_as_many_statements_for_thirty_readers_as_for_three(at_desk: Desk) -> None:
    counts = {}
    for count in (3, 30):
        names = [f"wide.of{count}_{at}" for at in range(count)]
        first, last = f"raw.of{count}", f"last.of{count}"
        made = (table(name, partitioned=True, reads=[first]) for name in names)
        ends = table(last, partitioned=True, reads=names)
        at_desk.apply(table(first, partitioned=True), *made, ends, fingerprint=f"flow of {count}")
        at_desk.done(first, 0, 1)
        for name in names:
            at_desk.done(name, 0, reads={0: [at_desk.read(first, 0, 1)]})
        at_desk.done(last, 0, reads={0: [at_desk.read(name, 0, 1) for name in names]})
        at_desk.done(first, 0, restates="a mistake", digest="2:7:7")
        asked: list[str] = []
        engine = at_desk.ledger._database._engine
        listener = partial(_heard, asked)
        sa.event.listen(engine, "before_cursor_execute", listener)
        found = at_desk.ledger.past.downstream(first, day(0))
        sa.event.remove(engine, "before_cursor_execute", listener)
        counts[count] = sum(text.startswith("SELECT") for text in asked)
        assert [(link.table, link.depth, link.is_replaced) for link in found] == [
            *((name, 1, True) for name in sorted(names)),
            (last, 2, True),
        ]
    assert counts[30] == counts[3] <= 10


def _heard(asked: list[str], *told: Any) -> None:
    asked.append(told[2])
