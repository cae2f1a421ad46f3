"""The revision to which a label is reverted, and the reasons against a revert. No Spark, no ledger."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ledgers import day, table
from tests.unit.engine.fakes import collect
from waterclock.batches.earlier_revisions import EarlierRevision
from waterclock.batches.records import Input
from waterclock.flow.enums import Batching, Kind
from waterclock.planner.reverting import (
    choose_paired_revision,
    choose_revision,
    differing_input,
    find_revision_refusal,
    find_table_refusal,
    usable_revisions,
)

CLEAN = table("clean.orders")


def read(name: str = "shop.orders", content: str = "1.1", low: float = 1) -> Input:
    return Input(name, name, "slices", day(low), day(low + 1), "tables/x", 1, content)


def revision(claim: int, *reads: Input, version: int | None = None, **more: object) -> EarlierRevision:
    values = {"version": claim if version is None else version, "is_current": False, "stands_from": None} | more
    return EarlierRevision(
        day(1), claim, code="c", rows=1, digest="1:2:3", slice_path=f"c={claim}", end=day(2),
        recorded_at=day(claim), inputs=reads, **values,  # type: ignore[arg-type]
    )  # fmt: skip


def test_a_revision_is_chosen_by_its_claim_or_by_when_it_was_current() -> None:
    made = [revision(10), revision(20), revision(30, is_current=True)]
    assert choose_revision(made, to=20) is made[1]
    assert choose_revision(made, to=25) is None
    assert choose_revision(made, known_at=day(20)) is made[1]
    assert choose_revision(made, known_at=day(29.5)) is made[1]
    assert choose_revision(made, known_at=day(99)) is made[2]
    assert choose_revision(made, known_at=day(9)) is None


def test_the_other_table_of_apart_takes_a_revision_that_read_the_same_rows() -> None:
    chosen = revision(11, read(), read("shop.lands", "2.2"))
    made = [revision(10, read()), revision(20, read(content="1.2")), revision(30, read(content="1.3"))]
    assert choose_paired_revision(made, chosen) is made[0]
    made.append(revision(40, read(), is_current=True))
    made.append(revision(50, read()))
    assert choose_paired_revision(made, chosen) is made[3]
    assert choose_paired_revision(made[1:3], chosen) is made[2]


def test_revisions_of_before_the_table_was_emptied_are_not_usable() -> None:
    made = [revision(10, version=3), revision(20, version=7)]
    assert usable_revisions(made, {}) == tuple(made)
    assert usable_revisions(made, {5: day(1), 2: day(0)}) == (made[1],)


def test_inputs_are_equal_by_interval_and_content() -> None:
    was = [read(), read("shop.lands", "2.2")]
    assert differing_input(was, [replace(each, version=9, location="tables/y") for each in was]) is None
    assert differing_input(was, [was[0], read("shop.lands", "2.3")]) == "shop.lands"
    assert differing_input(was, [read(low=2), was[1]]) == "shop.orders"
    assert differing_input(was, [was[0]]) == "shop.orders"  # code that also read another table
    assert differing_input([], [was[1]]) == "shop.lands"


@pytest.mark.parametrize(
    ("target", "reads", "why"),
    [
        pytest.param(revision(10, read()), [read()], None, id="equal inputs"),
        pytest.param(revision(10, read()), [read(content="1.2")], "orders has other rows", id="other inputs"),
        pytest.param(revision(10, stands_from=day(0)), [], "stands for another period", id="another period"),
        pytest.param(
            revision(10, source={"items": [{"name": "a.csv"}]}), [], "other items of its source", id="other files"
        ),
        pytest.param(
            revision(10, source={"items": [{"name": "b.csv"}]}), [], None, id="the same files"
        ),
    ],
)  # fmt: skip
def test_a_revision_is_refused_if_its_rows_do_not_follow_from_the_inputs(
    target: EarlierRevision, reads: list[Input], why: str | None
) -> None:
    items = {"items": [{"name": "b.csv"}]} if target.source else {}
    current = revision(20, source=items, is_current=True)
    refusal = find_revision_refusal(CLEAN, target, current, reads)
    if why is None:
        assert refusal is None
    else:
        assert refusal is not None
        assert why in refusal.why
        assert refusal.fix


@pytest.mark.parametrize(
    ("of", "why"),
    [
        pytest.param(CLEAN, None, id="a transform"),
        pytest.param(collect("shop.orders"), None, id="a collect"),
        pytest.param(collect("shop.orders", batching=Batching.LABELS), "another project", id="a linked table"),
        pytest.param(table("out.orders", kind=Kind.PUBLISH, reads=("clean.orders",)), "destination", id="a publish"),
        pytest.param(replace(CLEAN, open_of="marts.hours"), "when windows were closed", id="open windows"),
    ],
)
def test_tables_whose_labels_have_no_earlier_rows_of_their_own_are_refused(of: object, why: str | None) -> None:
    refusal = find_table_refusal(of)  # type: ignore[arg-type]
    assert (refusal is None) if why is None else (refusal is not None and why in refusal.why)
