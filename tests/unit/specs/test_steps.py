from __future__ import annotations

import pytest

from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Place
from waterclock.specs.document import ExampleTable, SpecStep, TableCell
from waterclock.specs.steps import VOCABULARY, StepAction, parse_step

HERE = Place("a.feature", 3, 5)
GRID = ExampleTable((TableCell("a", HERE),), ())


def step(text: str, *, grid: ExampleTable | None = None, has_text: bool = False) -> SpecStep:
    return SpecStep("Given", text, HERE, grid, has_text)


@pytest.mark.parametrize(
    ("text", "does", "table", "labels", "what"),
    [
        ("the table a.b", StepAction.HAS, "a.b", None, ""),
        ("table a.b at 2013-01-01", StepAction.HAS, "a.b", "2013-01-01", ""),
        ("the table a.b at 2013-01-01 has:", StepAction.HAS, "a.b", "2013-01-01", ""),
        ("the table a.b is empty", StepAction.IS_EMPTY, "a.b", None, ""),
        ("the table a.b at 2013-01 is empty", StepAction.IS_EMPTY, "a.b", "2013-01", ""),
        ("the table a.b also gets", StepAction.ALSO, "a.b", None, ""),
        ("the table a.b at 2013-01-01 is now", StepAction.NOW, "a.b", "2013-01-01", ""),
        ("a.b runs", StepAction.RUNS, "a.b", None, ""),
        ("a.b runs again at 2013-01-01..2013-01-03", StepAction.RUNS, "a.b", "2013-01-01..2013-01-03", ""),
        ("a.b is", StepAction.IS, "a.b", None, ""),
        ("a.b at 20130101000000 is:", StepAction.IS, "a.b", "20130101000000", ""),
        ("`a.b` is empty", StepAction.NOTHING, "a.b", None, ""),
        ("a.b at 2013-01-01 contains", StepAction.CONTAINS, "a.b", "2013-01-01", ""),
        ("a.b fails with not_negative", StepAction.FAILS, "a.b", None, "not_negative"),
        ("a.b at 2013-01-01 fails with E740", StepAction.FAILS, "a.b", "2013-01-01", "E740"),
        ('a.b warns of "usual"', StepAction.WARNS, "a.b", None, "usual"),
        ("a.b warns of 'amount > 0':", StepAction.WARNS, "a.b", None, "amount > 0"),
        ("a.b at 2013-01 fails with x = 'a' OR x = 'b'", StepAction.FAILS, "a.b", "2013-01", "x = 'a' OR x = 'b'"),
        ("a.b fails with 'a' = x OR x = 'b'", StepAction.FAILS, "a.b", None, "'a' = x OR x = 'b'"),
    ],
)
def test_each_form_of_a_step_is_understood(
    text: str, does: StepAction, table: str, labels: str | None, what: str
) -> None:
    takes_rows = does in {StepAction.HAS, StepAction.ALSO, StepAction.NOW, StepAction.IS, StepAction.CONTAINS}
    found = parse_step(step(text, grid=GRID if takes_rows else None))

    assert (found.does, found.table, found.labels, found.what) == (does, table, labels, what)


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("a.b rns at 2013-01-01", "a.b runs at 2013-01-01"),
        ("the tabel a.b is empty", "the table a.b is empty"),
        ("the table a.b at 2013-01-01 also has", "the table a.b at 2013-01-01 also gets"),
        ("a.b contain", "a.b contains"),
        ("a.b fails because of x", "a.b fails with RULE"),
    ],
)
def test_an_unknown_step_is_refused_with_the_nearest(text: str, nearest: str) -> None:
    with pytest.raises(WaterclockError) as raised:
        parse_step(step(text))

    error = raised.value
    assert (error.code, error.where, error.fix) == ("E351", "a.feature:3:5", f"did you mean: {nearest}")
    assert error.why == "the steps are:\n" + "\n".join(VOCABULARY)


@pytest.mark.parametrize(
    ("wrong", "what", "fix"),
    [
        (
            step("the table a.b"),
            "the rows are missing below this step",
            "write a table of | cells |, or: the table a.b is empty",
        ),
        (step("a.b is"), "the rows are missing below this step", "write a table of | cells |, or: a.b is empty"),
        (step("a.b runs", grid=GRID), "this step takes no rows", "remove the table below it"),
        (step("a.b runs", has_text=True), "this step takes no text block", "write a table of | cells |"),
    ],
)
def test_a_step_has_the_rows_that_it_needs_and_no_others(wrong: SpecStep, what: str, fix: str) -> None:
    with pytest.raises(WaterclockError) as raised:
        parse_step(wrong)

    assert (raised.value.code, raised.value.what, raised.value.fix) == ("E352", what, fix)
