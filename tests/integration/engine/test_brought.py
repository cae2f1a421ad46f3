"""`format_attribute` in SQL equals the column function, everywhere in a flow."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiny import Tiny, day, described
from waterclock.engine.spark.errors import to_error
from waterclock.engine.spark.user_functions import register_functions
from waterclock.flow.declarations import Flow
from waterclock.temporal import format_attribute
from waterclock.temporal.text_formats import FORMATS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SIGNS = st.sampled_from(list("aB'ßİǆéЖ-. \t\n\r\u00a0\u2003\u3000\u200b\u0085\x1f\x00\U0001f600"))
TEXTS = st.none() | st.text(SIGNS, max_size=8)


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    register_functions(own, Path(), Flow(project="x", tables={}), ["SELECT format_attribute(a)"])
    return own


@settings(max_examples=settings().max_examples // 4, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=40), replaced=TEXTS, spelt=st.sampled_from(FORMATS))
def test_the_function_of_sql_is_the_function_on_columns(
    session: SparkSession, texts: list[str | None], replaced: str | None, spelt: str
) -> None:
    df = session.createDataFrame([(text, spelt, replaced) for text in texts], "a string, f string, r string")
    df.createOrReplaceTempView("texts")
    wanted = [row[0] for row in df.select(format_attribute("a", spelt, replaced)).collect()]
    for call in (f"format_attribute(a, '{spelt}', r)", "format_attribute(a, f, nullreplacement => r)"):
        assert [row[0] for row in session.sql(f"SELECT {call} AS a FROM texts").collect()] == wanted


def test_omitted_arguments_default_to_those_of_the_python_function(session: SparkSession) -> None:
    found = session.sql("SELECT format_attribute(' a  B '), format_attribute('', 'upper'), format_attribute(NULL)")
    assert found.first() == ("a B", None, None)


def test_it_is_planned_as_sparks_own_functions_and_one_branch(session: SparkSession) -> None:
    session.sql("SELECT concat('a', id) AS a FROM range(3)").createOrReplaceTempView("texts")
    said = StringIO()
    with redirect_stdout(said):
        session.sql("SELECT format_attribute(a, 'upper', '?') AS a FROM texts").explain()
    plan = said.getvalue()
    assert "upper(trim(regexp_replace(" in plan
    assert not any(word in plan for word in ("Python", "CASE", "raise_error", "initcap", "lower"))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT format_attribute(max(a), 'upper') AS a FROM texts",
        "SELECT format_attribute(a, 'upper') AS a, count(*) AS n FROM texts GROUP BY format_attribute(a, 'upper')",
        "SELECT format_attribute(a, 'lower') AS b FROM texts WHERE format_attribute(a, 'upper') = 'X' ORDER BY b",
        "SELECT l.a FROM texts l JOIN texts r ON format_attribute(l.a, 'lower') = format_attribute(r.a, 'lower')",
        "SELECT a, row_number() OVER (PARTITION BY format_attribute(a) ORDER BY a) AS n FROM texts",
        "SELECT count(*) AS n FROM texts HAVING format_attribute(max(a), 'upper') = 'X'",
        "SELECT format_attribute(format_attribute(a, 'upper'), 'lower') AS a FROM texts",
    ],
)
def test_format_attribute_can_be_called_wherever_sql_allows_an_expression(session: SparkSession, sql: str) -> None:
    session.sql("SELECT ' x' AS a").createOrReplaceTempView("texts")
    assert session.sql(sql).count() == 1


def test_a_call_where_spark_allows_no_sql_function_is_reported_with_a_fix(session: SparkSession) -> None:
    session.sql("SELECT ' x' AS a, array('y') AS l").createOrReplaceTempView("texts")
    for sql in (
        "SELECT a FROM texts ORDER BY format_attribute(a)",
        "SELECT transform(l, x -> format_attribute(x)) FROM texts",
    ):
        with pytest.raises(Exception, match="UNSUPPORTED") as raised:
            session.sql(sql)
        assert "in an inner SELECT" in (to_error(raised.value, where="here").fix or "")


def test_an_unknown_format_in_a_row_fails_the_query(session: SparkSession) -> None:
    session.sql("SELECT * FROM VALUES ('x', 'upper'), ('y', 'uper') AS (a, f)").createOrReplaceTempView("texts")
    with pytest.raises(Exception, match="an unknown format") as raised:
        session.sql("SELECT format_attribute(a, f) AS a FROM texts").collect()
    error = to_error(raised.value, where="here")
    assert (error.code, error.why) == ("E310", "a row has uper")


def test_an_error_above_it_is_not_taken_for_its_own(session: SparkSession) -> None:
    session.sql("SELECT 'x' AS a, 'upper' AS f").createOrReplaceTempView("texts")
    with pytest.raises(Exception, match="UNRESOLVED_COLUMN") as raised:
        session.sql("SELECT nothing FROM (SELECT format_attribute(a, f) AS a FROM texts)")
    assert to_error(raised.value, where="here").code == "E730"


FLOW = """
CREATE FUNCTION clean(x STRING) RETURNS STRING RETURN format_attribute(x, 'upper', 'NOBODY');
COLLECT raw.people PARTITIONED (id BIGINT, name STRING EXPECT (format_attribute(name, 'upper', '?') <> 'GONE'),
    state STRING, at TIMESTAMP)
  FROM shop.people EVERY DAY BY DATA TIME at
  EXPECT format_attribute(name, nullreplacement => '?') <> '?' AS named ELSE WARN;
CREATE VIEW stg.people AS SELECT id, format_attribute(name, 'initcap', '?') AS name, state FROM raw.people;
TRANSFORM dim.people (id BIGINT KEY, name STRING, loud STRING, state STRING)
  MERGE DELETE WHEN format_attribute(state, 'lower') = 'left'
AS SELECT id, name, clean(name) AS loud, state FROM stg.people
   UNION ALL BY NAME
   SELECT DISTINCT 99L AS id, format_attribute('  the   end') AS name, NULL AS loud, NULL AS state FROM raw.people;
"""


def test_queries_views_rules_deletes_functions_and_questions_call_it(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    rows = [(1, "  ann   LEE", "here", "2020-01-01 12:00:00"), (2, " \t", "here", "2020-01-01 13:00:00"),
            (3, "bo", " LEFT ", "2020-01-01 14:00:00")]  # fmt: skip
    tiny.source("people", "id INTEGER, name TEXT, state TEXT, at TEXT", rows)
    tiny.declare(FLOW)
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT id, name, loud FROM dim.people ORDER BY id") == [
        (1, "Ann Lee", "ANN LEE"),
        (2, "?", "?"),
        (99, "the end", None),
    ]
    assert [each for report in tiny.heard.finished_ for each in report.warnings] == [
        "named: 1 of 3 rows violate (format_attribute(name, nullreplacement => '?') <> '?')"
    ]
    assert tiny.rows("SELECT format_attribute(name, 'lower') FROM dim.people WHERE id = 1") == [("ann lee",)]
    assert tiny.rows("SELECT format_attribute(p.name, 'upper') AS n FROM stg.people p WHERE id = 3") == [("BO",)]
    tiny.shop("INSERT INTO people VALUES (4, 'gone', 'here', '2020-01-02 12:00:00')")
    (failed, *_) = tiny.run(day(3)).failed
    assert failed.error is not None
    assert failed.error.code == "E740"
