"""The cost of checking an ad hoc query is at most proportional to its length, counted in calls."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.counting import calls_named, calls_of
from tests.language.cases import CAPABILITIES, KNOWN, SETTINGS
from waterclock.dpl import adhoc
from waterclock.dpl.adhoc import LONGEST_QUERY, adhoc_query
from waterclock.dpl.project import load_project
from waterclock.errors import ProjectErrors
from waterclock.flow.declarations import Flow

HIDING = """
COLLECT raw.hiding (id BIGINT, secret STRING HIDDEN) PARTITIONED FROM landing.hiding EVERY DAY BY ARRIVAL TIME;
"""


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Flow:
    root: Path = tmp_path_factory.mktemp("cost")
    (root / "flows").mkdir()
    (root / "waterclock.toml").write_text(SETTINGS, encoding="utf-8")
    (root / "flows/known.dpl").write_text(KNOWN + HIDING, encoding="utf-8")
    return load_project(root, capabilities=CAPABILITIES).flow


def refused(text: str, flow: Flow) -> list[str]:
    try:
        adhoc_query(text, flow)
    except ProjectErrors as raised:
        return [f"{error.code} {error.fix}" for error in raised.errors]
    return []


def of_size(shape: str, size: int) -> str:
    many = range(size)
    return {
        "stars": f"SELECT {', '.join(['t.*'] * size)} FROM raw.hiding t",
        "stars of subqueries": f"SELECT {', '.join(['(SELECT t.* FROM stg.open o)'] * size)} FROM raw.hiding t",
        "joins": f"SELECT * FROM raw.hiding a {' '.join(f'JOIN raw.hiding a{at} USING (id)' for at in many)}",
        "unclosed": "SELECT 1;\n" * size + "'",
        "table arguments": "WITH p AS (SELECT 1 AS id) SELECT * FROM "
        + ", ".join(f"explode(TABLE(p)) e{at}" for at in many),
        "stray reads": f"SELECT {', '.join(['LATEST(raw.orders)'] * size)} FROM raw.orders",
        "arguments": f"SELECT {'schema_of_xml(' * size}id{')' * size} FROM raw.orders",
        "CTEs": f"WITH {', '.join(f'p{at} AS (SELECT 1 AS id)' for at in many)} SELECT 1 FROM "
        + ", ".join(f"p{size - 1} a{at}" for at in many),
    }[shape]


@pytest.mark.parametrize(
    "shape",
    ["stars", "stars of subqueries", "joins", "unclosed", "table arguments", "stray reads", "arguments", "CTEs"],
)
def test_four_times_the_text_is_about_four_times_the_work(shape: str, flow: Flow) -> None:
    refused(of_size(shape, 2), flow)
    calls = [calls_of(partial(refused, of_size(shape, size), flow))[1] for size in (75, 300)]
    assert calls[1] < 5 * calls[0]


def test_each_statement_of_a_text_with_an_unclosed_quote_is_tokenized_alone(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    from waterclock.dpl.syntax import tokens

    read: list[int] = []
    real = tokens.dialect()

    class Counting:
        def tokenize(self, text: str) -> object:
            read.append(len(text))
            return real.tokenize(text)

    monkeypatch.setattr(tokens, "dialect", Counting)
    text = of_size("unclosed", 300)
    assert refused(text, flow) == ["E201 close it with '"]
    assert sum(read) <= 2 * len(text)


def test_only_the_first_ten_unknown_tables_get_similar_names(flow: Flow) -> None:
    text = "SELECT 1 FROM " + ", ".join(f"raw.order{at}" for at in range(400))
    fixes, comparisons = calls_named(partial(refused, text, flow), "real_quick_ratio")
    assert all(fix.startswith("E213 did you mean raw.orders or ") for fix in fixes[:10])
    assert set(fixes[10:]) == {"E213 declare it by a COLLECT, TRANSFORM or CREATE VIEW"}
    assert 0 < comparisons <= 10 * 2 * len({*flow.tables, *flow.views})


def test_a_text_beyond_the_limit_is_refused_before_it_is_read(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "SELECT 1 -- "
    assert refused(text + "x" * (LONGEST_QUERY - len(text)), flow) == []
    monkeypatch.delattr(adhoc, "statements_of")
    with pytest.raises(ProjectErrors) as raised:
        adhoc_query(text + "x" * (LONGEST_QUERY - len(text) + 1), flow)
    [error] = raised.value.errors
    assert (error.code, error.what, error.where) == ("E267", "this query has 100,001 characters", "query:1:1")
