from __future__ import annotations

from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from waterclock.engine.spark import queries
from waterclock.engine.spark.queries import insert_values, literal_of

TOKYO = ZoneInfo("Asia/Tokyo")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("SELECT * FROM t WHERE a > :n", "SELECT * FROM t WHERE a > 5"),
        ("SELECT f(:n), (:n), :n+:n", "SELECT f(5), (5), 5+5"),
        ("SELECT ':n', `a:n`, \":n\" -- :n\n, :n", "SELECT ':n', `a:n`, \":n\" -- :n\n, 5"),
        ("SELECT payload:n, x[0]:n, f(y):n FROM t", "SELECT payload:n, x[0]:n, f(y):n FROM t"),
        ("SELECT CAST(a AS INT), b::int, :other", "SELECT CAST(a AS INT), b::int, :other"),
        ("SELECT /* :n */ :name", "SELECT /* :n */ 'it\\'s'"),
        ("SELECT a=:n AND b IN (:n,:name)", "SELECT a=5 AND b IN (5,'it\\'s')"),
    ],
)
def test_only_parameter_markers_are_replaced_by_values(text: str, written: str) -> None:
    assert insert_values(text, {"n": 5, "name": "it's"}) == written


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (True, "TRUE"),
        (-3, "(-3)"),
        (0.1, "(0.1D)"),
        (float("nan"), "CAST('nan' AS DOUBLE)"),
        (date(2020, 2, 29), "DATE'2020-02-29'"),
        (datetime(2020, 1, 1, 5, tzinfo=UTC), "TIMESTAMP'2020-01-01 05:00:00Z'"),
        (datetime(2020, 1, 1, 5, 0, 0, 7, tzinfo=UTC), "TIMESTAMP'2020-01-01 05:00:00.000007Z'"),
        ("a\\b'c", "'a\\\\b\\'c'"),
    ],
)
def test_a_value_is_written_as_its_type(value: Any, written: str) -> None:
    assert literal_of(value) == written


@pytest.mark.parametrize(
    ("value", "bound"),
    [
        (datetime.fromisoformat("2020-01-01T05:00"), datetime(2020, 1, 1, 5, tzinfo=UTC)),
        (datetime(2020, 1, 1, 5, tzinfo=TOKYO), datetime(2020, 1, 1, 5, tzinfo=TOKYO)),
        (date(2020, 1, 1), date(2020, 1, 1)),
        ("2020-01-01", "2020-01-01"),
    ],
)
def test_a_time_without_an_offset_is_bound_in_utc_whatever_the_zone_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, value: Any, bound: Any
) -> None:
    asked: dict[str, Any] = {}
    spark: Any = SimpleNamespace(sql=lambda _, args: asked.update(args))
    for name in ("require_no_command", "check_plan"):
        monkeypatch.setattr(queries, name, lambda *_: None)
    queries.build_query_frame(spark, "SELECT :since", {"since": value})
    assert repr(asked) == repr({"since": bound})
