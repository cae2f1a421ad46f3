"""A rule OVER TABLE is checked against the rows that readers will see."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from tests.ledgers import SOMEWHERE, table
from waterclock.batches.ledger_snapshot import BEGINNING
from waterclock.engine.batch import table_rules
from waterclock.flow.declarations import Rule
from waterclock.flow.enums import Action, Scope
from waterclock.timelabel.duration import parse_duration
from waterclock.timelabel.label import label_of


def day(number: int) -> datetime:
    return datetime(2026, 1, number, tzinfo=UTC)


@pytest.mark.parametrize(
    ("retain", "dropped", "newest_end", "labels", "first"),
    [
        (None, None, 9, [9], BEGINNING),
        (None, 4, 9, [9], day(4)),
        ("3 DAYS", None, 9, [9], day(7)),  # the windows that readers see, whether or not `maintain` has run
        ("3 DAYS", 2, 9, [9], day(7)),
        ("3 DAYS", None, 9, [5], day(6)),  # made again, and beyond RETAIN
        ("3 DAYS", None, None, [4], day(2)),
    ],
)
def test_windows_beyond_retain_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
    retain: str | None,
    dropped: int | None,
    newest_end: int | None,
    labels: list[int],
    first: datetime,
) -> None:
    asked: dict[str, Any] = {}
    kept: Any = SimpleNamespace(unionByName=lambda *_, **__: kept)

    def frame_at(*_: object, **how: object) -> Any:
        asked.update(how)
        return kept

    monkeypatch.setattr(table_rules, "frame_at", frame_at)
    monkeypatch.setattr(table_rules, "frame_of_slices", lambda *given: asked.update(new=given[2]))
    monkeypatch.setattr(table_rules, "head", lambda _: 1)
    monkeypatch.setattr(table_rules, "table_exists", lambda _: True)
    newest = None if newest_end is None else SimpleNamespace(end=day(newest_end))
    work: Any = SimpleNamespace(
        folder=lambda _: "",
        ledger=SimpleNamespace(
            maintenance=SimpleNamespace(drop_boundary=lambda *_, **__: dropped and day(dropped)),
            reads=SimpleNamespace(newest=lambda _: newest),
        ),
    )
    days = replace(table("a.days", partitioned=True), retain=parse_duration(retain) if retain else None)
    sealed: Any = [SimpleNamespace(label=day(label), schema="{}") for label in labels]
    table_rules._frame_with_slices(work, None, days, sealed, [day(31)])  # type: ignore[arg-type]
    assert asked["low"] == first
    assert asked["without"] == {label_of(day(label)) for label in (*labels, 31)}
    assert [each.label for each in asked["new"]] == [day(label) for label in labels if day(label) >= first]


SMALL, ONCE = "count(*) < 6", "count(DISTINCT id) = count(*)"
Slices = dict[int, list[int]]


def blamed(monkeypatch: pytest.MonkeyPatch, rule: str, old: Slices, new: Slices) -> tuple[list[int], int]:
    """Return the days of a commit whose slices break a rule of the table, and the number of evaluations.

    `old` are the ids of the slices by day, `new` those of the commit.
    """
    states: list[list[int]] = []

    def evaluate(*given: Any) -> dict[str, bool]:
        ids = [it for each in (old | {it.label.day: new[it.label.day] for it in given[3]}).values() for it in each]
        states.append(ids)
        return {"r": len(ids) < 6 if rule is SMALL else len(ids) == len(set(ids))}

    slices = [SimpleNamespace(label=day(label)) for label in old]
    work: Any = SimpleNamespace(ledger=SimpleNamespace(reads=SimpleNamespace(slices=lambda *_: slices)))
    sealed: Any = [SimpleNamespace(label=day(label)) for label in sorted(new)]
    monkeypatch.setattr(table_rules, "_evaluate_table_rules", evaluate)
    of = replace(table("a.days", partitioned=True), rules=(Rule(rule, "r", Scope.TABLE, Action.FAIL, SOMEWHERE),))
    findings = table_rules.TableRuleFindings(work, None, of, sealed, {})  # type: ignore[arg-type]
    return [label for label in sorted(new) if findings.for_label(day(label))], len(states)


@pytest.mark.parametrize(
    ("rule", "old", "new", "days"),
    [
        (ONCE, {2: [2], 3: [3, 30]}, {2: [2, 30], 3: [3]}, []),  # a row moves to an earlier window
        (ONCE, {2: [2], 3: [3, 30]}, {2: [2, 30], 3: [3], 4: [4]}, []),
        (ONCE, {2: [2], 3: [3]}, {2: [2, 3], 3: [3, 30]}, [2, 3]),
        (ONCE, {2: [2], 3: [3]}, {2: [2], 3: [3, 2], 4: [4]}, [3, 4]),
        (ONCE, {2: [2], 3: [3, 30]}, {2: [2, 30], 3: [3], 4: [3]}, [4]),
        (ONCE, {}, {2: [2], 3: [3], 4: [3], 5: [5]}, [4, 5]),  # new labels follow one after the other
        (ONCE, {3: [3]}, {2: [3], 3: [2]}, []),  # a late label, into which a row moves
        (SMALL, {2: [1, 2], 3: [3, 4, 5]}, {2: [1, 2, 5], 3: [3, 4]}, []),
        (SMALL, {2: [1], 3: [2]}, {2: [1, 3, 4, 5], 3: [2], 4: [6]}, [4]),
    ],
)
def test_slices_that_replace_others_are_judged_together(
    monkeypatch: pytest.MonkeyPatch, rule: str, old: Slices, new: Slices, days: list[int]
) -> None:
    found, count = blamed(monkeypatch, rule, old, new)
    assert found == days
    assert count <= len(new) + 1
