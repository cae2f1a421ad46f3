"""Failures are shown once for each reason."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from tests.model.flows import at, collect, flow
from tests.unit.planner.pasts import done, failed, past
from waterclock.cli.views import status
from waterclock.planner.planning import plan

FLOW = flow(collect("a"), collect("b"))


def told(**of: dict[str, str]) -> list[str]:
    """Return the lines about failures, given the error of each label by table."""
    ledger = past(
        **{name: done(troubles={at(day): failed(error) for day, error in days.items()}) for name, days in of.items()}
    )
    to = Console(file=StringIO(), width=200)
    status._print_problems(to, plan(FLOW, ledger, at("2013-01-20")))
    assert isinstance(to.file, StringIO)
    return to.file.getvalue().splitlines()


def test_labels_with_the_same_failure_are_shown_as_one_problem() -> None:
    lines = told(
        a={f"2013-01-{day:02}": f"E806 visits_2013_01_{day:02}.csv line {day}: no number" for day in range(1, 10)}
    )
    assert lines == [
        "✕ a@20130101000000 failed: E806 visits_2013_01_01.csv line 1: no number",
        "  and the same for 20130102000000, 20130103000000, 20130104000000, 20130105000000, 20130106000000 and 3 more",
        "",
    ]


def test_other_reasons_and_other_tables_are_problems_of_their_own() -> None:
    lines = told(a={"2013-01-01": "E1 no disk", "2013-01-02": "E2 no column"}, b={"2013-01-01": "E1 no disk"})
    assert [line for line in lines if line.startswith("✕")] == [
        "✕ a@20130101000000 failed: E1 no disk",
        "✕ a@20130102000000 failed: E2 no column",
        "✕ b@20130101000000 failed: E1 no disk",
    ]


def test_of_many_problems_the_rest_is_counted() -> None:
    words = ["disk", "column", "file", "key", "rights", "memory", "time"]
    lines = told(a={f"2013-01-0{day}": f"E1 no {word}" for day, word in enumerate(words, 1)})
    assert lines[5:] == ["  and 2 more: waterclock plan", ""]
