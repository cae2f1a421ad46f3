"""Reading a single clause, as the Python API does."""

from __future__ import annotations

from typing import Any

import pytest

from waterclock.dpl.syntax.clause_parsing import parse_clause
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.dpl.syntax.statements import (
    ParsedBatching,
    ParsedColumnList,
    ParsedMode,
    ParsedOptions,
    ParsedQuery,
    ParsedTemporal,
    ParsedUnit,
)
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Secret, Value
from waterclock.flow.enums import Batching, Mode
from waterclock.timelabel.duration import Duration
from waterclock.timelabel.period import Period, TimeUnit


def parse(word: str, text: str, **variables: Value) -> Any:
    return parse_clause(word, text, SourceText("flows/a.py", text, line=3, column=20), variables=variables)


@pytest.mark.parametrize(
    ("word", "text", "value"),
    [
        ("EVERY", "day", Period(TimeUnit.DAY)),
        ("EVERY", "15 minutes", Period(TimeUnit.MINUTE, 15)),
        ("EVERY", ":often", Period(TimeUnit.MINUTE, 60)),
        ("DELAY", "2 HOURS", Duration(2, "HOUR")),
        ("RETAIN", ":keep", Duration(90, "DAY")),
        ("ZONE", "Europe/Berlin", "Europe/Berlin"),
        ("ZONE", "'Europe/Berlin'", "Europe/Berlin"),
        ("OWNER", ":owner", "me"),
        ("COMMENT", "it's free text; with anything", "it's free text; with anything"),
        ("START", "2018-01-01", "2018-01-01"),
        ("SCHEDULE", "10 * * * *", "10 * * * *"),
        ("BY", "data time updated_at", ParsedBatching(Batching.DATA_TIME, "updated_at")),
        ("BY", "arrival time", ParsedBatching(Batching.ARRIVAL_TIME)),
        ("MODE", "append", ParsedMode(Mode.APPEND)),
        ("MODE", "merge on (a, b) order by c", ParsedMode(Mode.MERGE, ("a", "b"), ("c",))),
        ("MODE", "temporal", ParsedMode(Mode.TEMPORAL, temporal=ParsedTemporal())),
        (
            "MODE",
            "temporal fill forward nulls value track (n) order by c, d at t on (a, b)",
            ParsedMode(
                Mode.TEMPORAL,
                ("a", "b"),
                ("c", "d"),
                temporal=ParsedTemporal("t", ("n",), are_all_values=True, fills_back=False),
            ),
        ),
        (
            "MODE",
            "temporal at at nulls value (a, b)",
            ParsedMode(Mode.TEMPORAL, temporal=ParsedTemporal("at", values=("a", "b"))),
        ),
        ("POOL", "heavy", "heavy"),
        ("TAGS", "(a, b)", ("a", "b")),
        ("SEQUENTIAL", "", True),
        ("TYPE", "SQLite", "sqlite"),
    ],
)
def test_a_clause_reads_as_it_does_in_a_statement(word: str, text: str, value: object) -> None:
    assert parse(word, text, often="hour", keep="90 days", owner="me") == value


def test_columns_need_no_brackets_of_their_own() -> None:
    for text in ("tailnum KEY, *", "(tailnum KEY, *)"):
        said = parse("COLUMNS", text)
        assert isinstance(said, ParsedColumnList)
        assert [(column.name, column.declared.is_key) for column in said.columns] == [("tailnum", True)]
        assert said.is_open


def test_units_queries_options_and_rules() -> None:
    unit = parse("FROM", "ops.public.planes")
    assert isinstance(unit, ParsedUnit)
    assert (unit.connection, unit.path) == ("ops", "public.planes")
    options = parse("OPTIONS", "(a.b 'x', c -1.5, d TRUE, e SECRET 's')")
    assert isinstance(options, ParsedOptions)
    assert options.values == {"a.b": "x", "c": -1.5, "d": True, "e": Secret("s")}
    query = parse("AS", "SELECT 1 AS one")
    assert isinstance(query, ParsedQuery)
    assert query.span.text == "SELECT 1 AS one"
    (rule,) = parse("EXPECT", "n > :least AS enough")
    assert (rule.name, rule.expression.text, rule.expression.variables) == ("enough", "n > :least", ("least",))


@pytest.mark.parametrize(
    ("word", "text", "code", "where"),
    [
        ("EVERY", "fortnight", "E102", "flows/a.py:3:20"),
        ("EVERY", "day hour", "E204", "flows/a.py:3:24"),
        ("EVERY", "", "E204", "flows/a.py:3:20"),
        ("ZONE", "Europe/Berln", "E105", "flows/a.py:3:20"),
        ("MODE", "merge on (id)\n  order bay x", "E204", "flows/a.py:4:3"),
        ("COLUMNS", "id KEY name", "E205", "flows/a.py:3:27"),
        ("PARTITION BY", "(a DESC)", "E204", "flows/a.py:3:23"),
        ("MODE", "temporal on (id)\n  tracks (a)", "E204", "flows/a.py:4:3"),
        ("MODE", "temporal fill back", "E204", "flows/a.py:3:34"),
        ("MODE", "temporal at a track (b) at c", "E207", "flows/a.py:3:44"),
        ("AS", "SELECT 1; SELECT 2", "E204", "flows/a.py:3:30"),
        ("AS", "SELECT 'x", "E201", "flows/a.py:3:27"),
        ("AS", "", "E233", "flows/a.py:3:20"),
        ("EXPECT", "a > 0 AS", "E204", "flows/a.py:3:26"),
    ],
)
def test_an_error_is_placed_inside_of_the_argument(word: str, text: str, code: str, where: str) -> None:
    with pytest.raises(WaterclockError) as raised:
        parse(word, text)
    assert (raised.value.code, raised.value.where) == (code, where)
