"""The revisions to compare: the current one, the one before it, and the current one at an earlier instant."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from waterclock.engine.query.compared_revisions import TableRevisions, compare_measures
from waterclock.flow.measures import MeasuredValue
from waterclock.ledger.read.revisions import CommittedRevision

FIRST, SECOND = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
NOON = datetime(2026, 2, 1, 12, tzinfo=UTC)


def revision(label: datetime, version: int, *, is_current: bool = False) -> CommittedRevision:
    at = NOON + timedelta(hours=version)
    path = f"_stage/{label:%d}/c={version}"
    return CommittedRevision(label, version, version, 10, f"10:{version}:1", path, None, at, is_current=is_current)


HISTORY = (
    revision(FIRST, 0),
    revision(SECOND, 1, is_current=True),
    revision(FIRST, 2),
    revision(FIRST, 3, is_current=True),
)


def versions(found: dict[datetime, CommittedRevision]) -> dict[datetime, int]:
    return {label: each.version for label, each in found.items()}


def test_the_revision_before_is_that_of_labels_that_were_made_again() -> None:
    of = TableRevisions(HISTORY)
    assert versions(of.current()) == {FIRST: 3, SECOND: 1}
    assert versions(of.before_current()) == {FIRST: 2}


def test_the_known_revision_is_the_newest_one_made_until_that_instant() -> None:
    of = TableRevisions(HISTORY)
    assert versions(of.known_at(NOON - timedelta(seconds=1))) == {}
    assert versions(of.known_at(NOON)) == {FIRST: 0}
    assert versions(of.known_at(NOON + timedelta(hours=2))) == {FIRST: 2, SECOND: 1}


def test_revisions_from_before_other_windows_are_not_compared() -> None:
    of = TableRevisions(HISTORY, emptying_versions={2: NOON + timedelta(hours=2)})
    assert versions(of.before_current()) == {FIRST: 2}
    of = TableRevisions(HISTORY, emptying_versions={3: NOON + timedelta(hours=3)})
    assert versions(of.before_current()) == {}
    assert versions(of.known_at(NOON + timedelta(hours=2))) == {FIRST: 2, SECOND: 1}
    assert versions(of.known_at(NOON + timedelta(hours=3))) == {FIRST: 3}


def test_measures_are_compared_by_name() -> None:
    old = replace(HISTORY[0], measured={"total": MeasuredValue("5", "bigint"), "same": MeasuredValue("1", "int")})
    new = replace(
        HISTORY[3],
        quarantined=2,
        measured={
            "same": MeasuredValue("1", "int"),
            "total": MeasuredValue(None, "bigint"),
            "new": MeasuredValue("x", "string"),
        },
    )
    assert compare_measures(old, new) == {"quarantined rows": ("0", "2"), "total": ("5", None), "new": (None, "x")}
