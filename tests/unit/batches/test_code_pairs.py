"""Codes of the two tables of APART are paired if one query made them, whichever rules each table has."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from waterclock.batches.code_pairs import CodePairs, DeclaredCode

START = datetime(2020, 1, 1, tzinfo=UTC)


def pairs(*flows: tuple[str, str]) -> CodePairs:
    """Build the pairs from flows, each given by the codes that it declares; `-` declares nothing new."""
    return CodePairs.from_history(
        DeclaredCode(START + timedelta(days=number), bool(is_of_persons), code)
        for number, flow in enumerate(flows)
        for is_of_persons, code in enumerate(flow)
        if code != "-"
    )


def test_codes_declared_together_are_paired() -> None:
    assert pairs(("e1", "p1")).are_paired("e1", "p1")


def test_a_change_of_both_ends_the_pair() -> None:
    found = pairs(("e1", "p1"), ("e2", "p2"))
    assert [found.are_paired(*each) for each in (("e1", "p1"), ("e2", "p2"), ("e1", "p2"), ("e2", "p1"))] == [
        True,
        True,
        False,
        False,
    ]


def test_a_change_of_one_keeps_the_pair_with_older_labels() -> None:
    found = pairs(("e1", "p1"), ("e2", "-"), ("-", "p2"))
    assert all(found.are_paired(events, persons) for events in ("e1", "e2") for persons in ("p1", "p2"))


def test_code_that_returns_is_paired_as_before() -> None:
    found = pairs(("e1", "p1"), ("e2", "p2"), ("e1", "p1"), ("e3", "-"))
    assert found.are_paired("e3", "p1")
    assert not found.are_paired("e3", "p2")


def test_two_groups_become_one_if_a_code_belongs_to_both() -> None:
    found = pairs(("e1", "p1"), ("e2", "p2"), ("-", "p1"))
    assert all(found.are_paired(events, persons) for events in ("e1", "e2") for persons in ("p1", "p2"))


def test_unknown_code_counts_as_paired() -> None:
    assert pairs(("e1", "p1")).are_paired("e0", "p1")
    assert pairs().are_paired("e1", "p1")
