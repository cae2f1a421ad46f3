"""The predicted content of a read after slices are replaced equals the content that the ledger then computes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.ledgers import DAY, Desk, day, desk, table
from waterclock.batches.records import Input
from waterclock.flow.enums import Mode
from waterclock.planner.adopted_contents import ContentChanges

DAYS, NAME = 6, "raw.a"
DIGESTS = ("0:0:0", "1:2:3", "1:5:6", "2:8:9")


@pytest.fixture
def at_desk() -> Iterator[Desk]:
    opened = desk()
    yield opened
    opened.ledger.close()


def pinned(at_desk: Desk, intervals: list[tuple[int, int]]) -> list[Input]:
    pins = at_desk.ledger.reads.pins([(NAME, day(low), day(high)) for low, high in intervals])
    return [pin.input(NAME, "slices") for pin in pins]


@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.REPLACE, Mode.MERGE])
@pytest.mark.parametrize("seed", range(20))
def test_the_content_predicted_after_random_changes_equals_that_of_the_ledger(
    at_desk: Desk, mode: Mode, seed: int
) -> None:
    dice = random.Random(f"{mode} {seed}")
    of = table(NAME, mode=mode, partitioned=mode is Mode.APPEND, keys=("id",) if mode is Mode.MERGE else ())
    at_desk.apply(of)
    for number in range(DAYS):
        at_desk.done(NAME, number, digest=dice.choice(DIGESTS))
    for number in dice.sample(range(DAYS), 4):  # earlier revisions to go back to
        at_desk.ledger.decisions.request_restate(NAME, [day(number)], "recompute", who="ann")
        at_desk.done(NAME, number, digest=dice.choice(DIGESTS))
    if mode is Mode.REPLACE:
        intervals = [(number, number + 1) for number in range(DAYS)]
    else:
        low = 0 if mode is Mode.MERGE else dice.randrange(DAYS)
        intervals = [(low, dice.randint(low, DAYS)) for _ in range(5)]
    before = pinned(at_desk, intervals)
    made = at_desk.ledger.reads.earlier_revisions(NAME, [day(number) for number in range(DAYS)])
    changes = ContentChanges({NAME: mode})
    for number in dice.sample(range(DAYS), 3):
        of_label = made[day(number)]
        target, current = dice.choice(of_label), of_label[-1]
        changes.add(NAME, current, target)
        at_desk.ledger.decisions.request_restate(NAME, [day(number)], "recompute", who="ann")
        at_desk.done(NAME, number, digest=target.digest)
    found = changes.after(before)
    assert [each.content for each in found] == [each.content for each in pinned(at_desk, intervals)]
    assert [replace(each, content="") for each in found] == [replace(each, content="") for each in before]


def test_a_replaced_snapshot_changes_the_content_of_all_windows_it_covers(at_desk: Desk) -> None:
    at_desk.apply(table(NAME, mode=Mode.REPLACE))
    at_desk.done(NAME, 1, digest="1:1:1", stands_from=-2)
    at_desk.ledger.decisions.request_restate(NAME, [day(1)], "recompute", who="ann")
    at_desk.done(NAME, 1, digest="1:2:2", stands_from=-2)
    old, current = at_desk.ledger.reads.earlier_revisions(NAME, [day(1)])[day(1)]
    before = pinned(at_desk, [(-2, -1), (0, 1), (1, 2)])
    changes = ContentChanges({NAME: Mode.REPLACE})
    changes.add(NAME, current, old)
    at_desk.ledger.decisions.request_restate(NAME, [day(1)], "recompute", who="ann")
    at_desk.done(NAME, 1, digest="1:1:1", stands_from=-2)
    after = pinned(at_desk, [(-2, -1), (0, 1), (1, 2)])
    assert [each.content for each in changes.after(before)] == [each.content for each in after]
    assert after != before


def test_rows_that_are_not_known_yet_are_equal_to_no_others(at_desk: Desk) -> None:
    at_desk.apply(table(NAME, partitioned=True))
    at_desk.done(NAME, 1, 2)
    [current] = at_desk.ledger.reads.earlier_revisions(NAME, [day(1)])[day(1)]
    changes = ContentChanges({NAME: Mode.APPEND})
    changes.add(NAME, current, None)
    one, other, empty = pinned(at_desk, [(1, 3), (2, 3), (1, 1)])
    found = changes.after([one, other, empty])
    assert found[0].content not in {one.content, "0.0"}
    assert found[1:] == (other, empty)
    assert current.end - current.label == DAY


def test_each_revision_has_its_code_its_inputs_and_its_weight(at_desk: Desk) -> None:
    at_desk.apply(table(NAME, partitioned=True), table("marts.b", partitioned=True, reads=(NAME,)))
    at_desk.done(NAME, 1)
    first = at_desk.read(NAME, 1, 2)
    at_desk.done("marts.b", 1, reads={1: [first]}, digest="1:7:7", code="old")
    at_desk.ledger.decisions.request_restate(NAME, [day(1)], "recompute", who="ann")
    at_desk.done(NAME, 1, digest="1:9:9")
    at_desk.done("marts.b", 1, reads={1: [at_desk.read(NAME, 1, 2)]}, digest=None, code="new")
    made = at_desk.ledger.reads.earlier_revisions("marts.b", [day(1), day(2)])
    assert list(made) == [day(1)]
    old, new = made[day(1)]
    assert (old.code, new.code, old.is_current, new.is_current) == ("old", "new", False, True)
    assert [each.content for each in old.inputs] == [first.content]
    assert old.inputs[0].content != new.inputs[0].content
    assert old.weight is not None
    assert new.weight is not None  # of the current slice, however it was computed
    at_desk.ledger.decisions.request_restate("marts.b", [day(1)], "recompute", who="ann")
    at_desk.done("marts.b", 1, reads={1: [at_desk.read(NAME, 1, 2)]})
    assert at_desk.ledger.reads.earlier_revisions("marts.b", [day(1)])[day(1)][1].weight is None
