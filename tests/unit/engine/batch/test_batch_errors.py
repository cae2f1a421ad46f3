"""An error of a publish with computed columns shows no value that it does not send."""

from __future__ import annotations

import pytest

from tests.systems import HERE
from waterclock.engine.batch.batch_errors import hide_values
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Column, Columns
from waterclock.flow.published_columns import PublishedExpression

MADE = Columns(
    (Column("id", HERE), Column("age", HERE, made_as=PublishedExpression("CAST(born AS INT)", ("born",)))),
    is_open=False,
)
NAMED = Columns((Column("id", HERE), Column("born", HERE)), is_open=False)


@pytest.mark.parametrize(
    ("code", "why"),
    [("E730", "Spark reports CAST_INVALID_INPUT"), ("E720", "age.py:3 in age: return 1"), ("E790", None)],
)
def test_values_of_rows_are_removed_from_an_error(code: str, why: str | None) -> None:
    raised = WaterclockError(code, "The value 'S3cret' is no INT", where="out.people@2020", why=why, transient=True)
    found = hide_values(MADE, raised)
    assert "S3cret" not in found.render()
    assert (found.code, found.where, found.transient) == (code, raised.where, True)
    assert found.why
    assert found.why.startswith(why or "")
    assert found.fix
    assert hide_values(NAMED, raised) is raised


@pytest.mark.parametrize(
    ("code", "why"), [("E730", "Spark reports UNRESOLVED_COLUMN.WITHOUT_SUGGESTION"), ("E810", "")]
)
def test_an_error_without_row_values_is_unchanged(code: str, why: str) -> None:
    raised = WaterclockError(code, "it has no column x", where="out.people@2020", why=why)
    assert hide_values(MADE, raised) is raised
