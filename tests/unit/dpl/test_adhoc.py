from __future__ import annotations

from pathlib import Path

import pytest

from tests.language.cases import CAPABILITIES, KNOWN, SETTINGS
from waterclock.dpl.adhoc import adhoc_query, tables_of
from waterclock.dpl.project import load_project
from waterclock.dpl.query.splice import splice
from waterclock.errors import ProjectErrors
from waterclock.flow.declarations import Flow

MODEL = """
TRANSFORM fact.a PARTITIONED (id BIGINT, customer BIGINT REFERENCES raw.customers)
AS SELECT id, id AS customer FROM raw.orders;
CREATE VIEW stg.flat AS SELECT * FROM FLAT(fact.a);
CREATE VIEW stg.over AS SELECT * FROM stg.flat;
"""


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(SETTINGS, encoding="utf-8")
    (tmp_path / "flows/known.dpl").write_text(KNOWN + MODEL, encoding="utf-8")
    return load_project(tmp_path, capabilities=CAPABILITIES).flow


def refusals(text: str, flow: Flow) -> list[str]:
    with pytest.raises(ProjectErrors) as raised:
        adhoc_query(text, flow)
    return [f"{error.code} {error.what} {error.where}" for error in raised.value.errors]


def test_an_ad_hoc_query_can_read_tables_and_views_and_the_current_time(flow: Flow) -> None:
    query = adhoc_query("SELECT now() AS n, o.* FROM stg.open o JOIN raw.customers;", flow)
    assert tables_of(query) == ("raw.orders", "raw.customers")


@pytest.mark.parametrize("read", ["PAST(raw.orders, '7 days')", "LATEST(raw.customers)", "flat(fact.a)"])
def test_reads_of_a_batch_are_refused(read: str, flow: Flow) -> None:
    word = read.partition("(")[0].upper()
    [refusal] = refusals(f"SELECT * FROM {read}", flow)
    assert refusal.startswith(f"E216 {word}(…) is only for queries of the flow query:1:")


@pytest.mark.parametrize("word", ["WATERMARK", "NEXT_WATERMARK"])
def test_a_watermark_function_is_refused_with_a_fix_that_names_the_mark_table(word: str, flow: Flow) -> None:
    with pytest.raises(ProjectErrors) as raised:
        adhoc_query(f"SELECT {word}(raw.orders)", flow)
    [error] = raised.value.errors
    assert (error.code, error.fix) == ("E216", "read max(watermark) of raw.orders_mark")


@pytest.mark.parametrize("view", ["stg.flat", "stg.over"])
def test_a_view_of_a_flat_read_is_refused_too(view: str, flow: Flow) -> None:
    assert refusals(f"SELECT * FROM {view}", flow) == [
        f"E216 {view} reads FLAT(fact.a), which is only for queries of the flow query:1:15"
    ]


def test_a_sampled_table_gets_its_alias_after_the_sample_clause(flow: Flow) -> None:
    query = adhoc_query("SELECT * FROM raw.orders TABLESAMPLE (10 PERCENT) REPEATABLE (1) WHERE id = 1", flow)
    assert splice(query, lambda _: "orders_read").text == (
        "SELECT * FROM orders_read TABLESAMPLE (10 PERCENT) REPEATABLE (1) AS `orders` WHERE id = 1"
    )


def test_queries_by_name_are_refused(flow: Flow) -> None:
    text = "SELECT id FROM raw.orders UNION ALL BY NAME SELECT id FROM raw.customers"
    assert refusals(text, flow) == ["E236 UNION ALL BY NAME is allowed only at the top level of a TRANSFORM query:1:27"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SELECT TRANSFORM(id) USING 'touch x' AS (a) FROM raw.orders", "USING would run a shell command"),
        ('FROM raw.orders |> SELECT TRANSFORM(id) USING "id" AS (a)', "USING would run a shell command"),
        ("SELECT Reflect('java.lang.System', 'exit', 0)", "Reflect calls Java, which is not allowed in a query"),
        ("SELECT system.builtin.`java_method`('a', 'b')", "java_method calls Java, which is not allowed in a query"),
        ("SELECT try_reflect('a', 'b')", "try_reflect calls Java, which is not allowed in a query"),
    ],
)
def test_a_query_runs_no_command_and_calls_no_java(text: str, what: str, flow: Flow) -> None:
    assert [refusal.partition(" query:")[0] for refusal in refusals(text, flow)] == [f"E733 {what}"]


@pytest.mark.parametrize(
    ("text", "word", "place"),
    [
        ("SELEC id FROM raw.orders", "SELEC", "1:1"),
        ("SELEC count(*) AS n FROM raw.orders", "SELEC", "1:1"),
        ("WIHT a AS (SELECT 1) SELECT * FROM a", "WIHT", "1:1"),
        ("SELECT n FROM (selct count(*) AS n FROM raw.orders)", "selct", "1:16"),
    ],
)
def test_a_misspelt_first_keyword_is_reported_at_its_position(text: str, word: str, place: str, flow: Flow) -> None:
    assert refusals(text, flow) == [f"E210 {word} is not a keyword of a query query:{place}"]


@pytest.mark.parametrize("named", ["text.`/etc/hostname`", "(raw.orders)", "IDENTIFIER('text.`/x`')"])
@pytest.mark.parametrize("call", ["SELECT f(TABLE({})) FROM raw.orders", "SELECT f(a => table ({})) FROM raw.orders"])
def test_a_table_is_not_handed_to_a_function_by_name(named: str, call: str, flow: Flow) -> None:
    found = refusals(call.format(named), flow)
    assert found[0].startswith("E216 TABLE(")
    assert "names a table outside of FROM" in found[0]
    assert all("IDENTIFIER" in each for each in found[1:])


def test_a_function_may_be_handed_a_query_or_a_part_of_one(flow: Flow) -> None:
    asked = adhoc_query("WITH a AS (SELECT 1) SELECT f(TABLE(A), TABLE(SELECT id FROM raw.orders)) FROM a", flow)
    assert tables_of(asked) == ("raw.orders",)


def test_a_call_that_lacks_an_argument_is_refused_where_the_parser_breaks_off(flow: Flow) -> None:
    assert refusals("SELECT map(id) AS a FROM raw.orders", flow)[0].startswith("E210 the query cannot be read")
