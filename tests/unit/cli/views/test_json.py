from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from waterclock.cli.views.error_card import flatten_errors, style_error
from waterclock.cli.views.json import print_json
from waterclock.cli.views.query import print_answer
from waterclock.cli.views.theme import make_console
from waterclock.engine.query.query import AnsweredQuery
from waterclock.engine.query.ticks import MissingLabels, ResolvedTick
from waterclock.errors import ProjectErrors, WaterclockError
from waterclock.operations.json import instant_text
from waterclock.operations.query_results import ZonedQueryResult

if TYPE_CHECKING:
    import pytest

ANSWER = AnsweredQuery(
    (("name", "string"), ("revenue", "double"), ("at", "timestamp"), ("paid", "boolean"), ("raw", "binary")),
    (
        ("Ada", 12.5, datetime(2013, 1, 1, 6, tzinfo=UTC), True, b"\x01\xff"),
        (None, float("nan"), None, None, None),
    ),
    is_cut=True,
)


def told(answer: AnsweredQuery, width: int | None = None) -> list[str]:
    out = io.StringIO()
    print_answer(ZonedQueryResult(answer), make_console(out, width=width))
    return out.getvalue().splitlines()


def test_rows_are_a_table_with_numbers_to_the_right() -> None:
    head, first, second, tail = told(ANSWER)
    assert head.split() == ["name", "revenue", "at", "paid", "raw"]
    assert first.split() == ["Ada", "12.5", "2013-01-01", "06:00:00Z", "true", "01ff"]
    assert second.split() == ["null", "nan", "null", "null", "null"]
    assert first.index("12.5") + 4 == head.index("revenue") + len("revenue")
    assert tail == "the first 2 rows; --limit shows more"


def test_a_result_with_too_many_columns_for_a_line_is_shown_row_by_row() -> None:
    columns = tuple((f"column_{n}", "string") for n in range(10, 24))
    lines = told(AnsweredQuery(columns, (tuple("abcdefghijklmn"), tuple("mnopqrstuvwxyz")), is_cut=False))
    assert lines[:3] == ["row 1", "  column_10  a", "  column_11  b"]
    assert lines[15:17] == ["row 2", "  column_10  m"]
    assert lines[-1] == "2 rows"


def test_an_empty_result_is_shown_as_0_rows() -> None:
    assert told(AnsweredQuery((("n", "int"),), (), is_cut=False))[-1] == "0 rows"


MOMENT = ResolvedTick(
    datetime(2013, 1, 3, tzinfo=UTC),
    datetime(2013, 2, 1, tzinfo=UTC),
    has_pending_restatements=True,
    behind={"b": (datetime(2013, 1, 1, tzinfo=UTC), datetime(2013, 1, 2, tzinfo=UTC))},
    missing=(MissingLabels("a", datetime(2013, 1, 1, tzinfo=UTC), datetime(2013, 1, 2, tzinfo=UTC), 2),),
    awaited=(MissingLabels("c", datetime(2013, 1, 4, tzinfo=UTC), datetime(2013, 1, 4, tzinfo=UTC), 1),),
)


def test_stale_and_missing_labels_are_listed_below_the_rows() -> None:
    assert told(AnsweredQuery((("n", "int"),), ((1,),), is_cut=False, moment=MOMENT))[-6:] == [
        "1 row",
        "as of 2013-01-03 00:00Z, tick 20130103000000, as known at 2013-02-01 00:00Z",
        "inputs were restated since, and not all batches were made again: this is the answer known before",
        "  b@20130101000000 and 1 other have not been made again",
        "without a@20130101000000..20130102000000, 2 labels: missing",
        "newer ticks wait for c@20130104000000; `waterclock plan` shows why",
    ]
    shown = ZonedQueryResult(AnsweredQuery((), (), is_cut=False, moment=MOMENT)).to_json()
    assert shown["behind"] == [{"table": "b", "labels": ["20130101000000", "20130102000000"]}]
    assert shown["missing"] == [{"table": "a", "first": "20130101000000", "last": "20130102000000", "labels": 2}]


def test_a_value_with_brackets_is_text_and_no_markup() -> None:
    assert "[red]x[/red]" in told(AnsweredQuery((("t", "string"),), (("[red]x[/red]",),), is_cut=False))[1]


def test_instants_show_their_zone_and_local_times_have_none() -> None:
    noon = datetime(2013, 1, 1, 12, tzinfo=UTC)
    local, never = noon.replace(tzinfo=None), datetime(1, 1, 1, microsecond=5, tzinfo=UTC)
    columns = (("at", "timestamp"), ("ntz", "timestamp_ntz"), ("never", "timestamp"), ("of", "struct<at:timestamp>"))
    answer = AnsweredQuery(columns, ((noon, local, never, {"at": noon}),), is_cut=False)
    assert told(answer, width=120)[1].split("  ") == [
        "2013-01-01 12:00:00Z",
        "2013-01-01 12:00:00",
        "0001-01-01 00:00:00.000005Z",
        "{'at': '2013-01-01T12:00:00Z'}",
    ]
    assert json.loads(json.dumps(ZonedQueryResult(answer).to_json()))["rows"] == [
        [
            "2013-01-01T12:00:00Z",
            "2013-01-01T12:00:00",
            "0001-01-01T00:00:00.000005Z",
            {"at": "2013-01-01T12:00:00Z"},
        ]
    ]


def test_rows_are_json_values() -> None:
    found = json.loads(json.dumps(ZonedQueryResult(ANSWER).to_json(), default=str))
    assert found["columns"][1] == {"name": "revenue", "type": "double"}
    assert found["rows"][0][0] == "Ada"
    assert found["rows"][0][4] == "01ff"
    assert found["rows"][1][1] == "nan"
    assert found["is_cut"] is True


def test_json_holds_instants_dates_and_decimals(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"at": datetime(2013, 1, 1, 5, tzinfo=UTC), "on": date(2013, 1, 1), "sum": Decimal("1.50"), "é": {2, 1}})
    assert json.loads(capsys.readouterr().out) == {
        "version": 1,
        "at": "2013-01-01T05:00:00Z",
        "on": "2013-01-01",
        "sum": "1.50",
        "é": [1, 2],
    }
    assert instant_text(None) is None


def test_a_card_has_the_words_of_the_error_and_wraps_its_parts_below_themselves() -> None:
    error = WaterclockError(
        "E203",
        "unknown column warehouse_id",
        where="staging/inventory.dpl:12:8",
        why=" ".join(["word"] * 30),
        fix="did you mean i.warehouse?",
        excerpt="12 | JOIN sites s ON s.id = i.warehouse_id\n   |                        ^^^^^^^^^^^^^^",
    )
    assert style_error(error).plain == error.render()
    lines = style_error(error, width=60).plain.splitlines()
    assert all(len(line) < 60 for line in lines)
    assert lines[4].startswith("why  word")
    assert lines[5].startswith("     word")
    assert " ".join(style_error(error, width=60).plain.split()) == " ".join(error.render().split())


def test_errors_that_hold_others_are_taken_apart() -> None:
    one, two = WaterclockError("E1", "a"), WaterclockError("E2", "b")
    assert flatten_errors([ProjectErrors([one, two])]) == [one, two]
