"""The printed summary of work on a branch."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from tests.ledgers import day
from waterclock.cli.views.branch import print_branch_work, print_promotion
from waterclock.engine.branching.branch_state import BranchState
from waterclock.engine.branching.table_changes import TableChanges
from waterclock.operations.branches import BranchWork
from waterclock.operations.promotion import Promotion
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.period import Period, TimeUnit


def test_tables_whose_rows_are_not_those_of_the_branch_are_named_with_the_reason_and_the_fix() -> None:
    text = StringIO()
    state = BranchState("try", "prod", day(3), day(3), day(9))
    changes = TableChanges(
        changed=("core.c",),
        collects=("raw.users", "raw.a", "raw.new"),
        borrowed=("raw.users", "raw.a"),
        reasons={"raw.users": "core.c"},
    )
    new_york = Cadence(Period(TimeUnit.DAY), zone="America/New_York")
    windows = {"core.c": tuple(new_york.window_of(day(number)) for number in (3, 4))}
    found = BranchWork({}, {}, windows, {}, {}, unsettled=("core.mid",), cadences={"core.c": new_york})
    print_branch_work(Console(file=text, width=200), state, changes, found)
    printed = text.getvalue()
    assert "core.c: changed; 2 labels, 2013-01-03 .. 2013-01-04" in printed
    assert "raw.users: reads core.c, but a branch collects nothing: its rows are those of prod" in printed
    assert "raw.a: changed, but a branch collects nothing: its rows are those of prod" in printed
    assert "raw.new: new, but a branch collects nothing: it has no rows" in printed
    assert "core.mid: prod had labels to make again when try was created" in printed
    assert "Fix: run prod, then `waterclock branch delete try` and create it again" in printed


def test_a_promotion_names_labels_that_it_may_not_make_below_their_table() -> None:
    text = StringIO()
    plan = Promotion("try", {"core.a": (day(1),), "core.b": (day(1), day(2))}, conditions={"core.a": "some wait"})
    print_promotion(Console(file=text, width=200), plan, "prod")
    assert text.getvalue() == "  core.a: 1 label adopted\n    some wait\n  core.b: 2 labels adopted\n"
