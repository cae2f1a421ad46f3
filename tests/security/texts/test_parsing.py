"""No text crashes the parser: each is accepted, or refused with a code and its position."""

from __future__ import annotations

import re
import time
import traceback
from pathlib import Path

import pytest

from tests.language.cases import CAPABILITIES, KNOWN, SETTINGS
from tests.security.texts.fuzzing import mutations, seeds
from waterclock.dpl.adhoc import adhoc_query
from waterclock.dpl.project import check_project
from waterclock.dpl.syntax.parser import parse_text
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.errors import ProjectErrors, WaterclockError
from waterclock.flow.declarations import Flow
from waterclock.timelabel.cron import compile_cron


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Flow:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "flows").mkdir()
    (folder / "flows" / "a.dpl").write_text(KNOWN)
    (folder / "waterclock.toml").write_text(SETTINGS)
    project, errors = check_project(folder, capabilities=CAPABILITIES)[:2]
    assert not errors
    assert project is not None
    return project.flow


def refusal(text: str, flow: Flow) -> WaterclockError | None:
    """Return the error that refuses a query; None if it is accepted."""
    try:
        adhoc_query(text, flow)
    except ProjectErrors as error:
        return error.errors[0]
    return None


@pytest.mark.parametrize(
    "text",
    ["ELSE", "ELSE 1", "END", "THEN 1", "SELECT * FROM raw.orders |> WHERE *", "SELECT 1 |> UNION ALL FROM raw.orders",
     "SELECT 1 WHERE * 1", "SELECT * 1", "FROM raw.orders |> LIMIT 3un", "SELECT 1 |> LIMIT 1e", "SELECT 1e999999",
     "SELECT " + "9" * 5000, "SELECT map(a) FROM raw.orders"],
)  # fmt: skip
def test_a_text_that_breaks_the_parser_off_is_refused(flow: Flow, text: str) -> None:
    found = refusal(text, flow)
    assert found is not None
    assert found.code in {"E210", "E220"}
    assert str(found.where).startswith("query:1:")


NESTED = {
    "brackets": lambda n: "SELECT " + "(" * n + "1" + ")" * n,
    "open brackets": lambda n: "SELECT " + "(" * n,
    "arrays": lambda n: "SELECT " + "[" * n + "1" + "]" * n,
    "open arrays": lambda n: "SELECT " + "[" * n,
    "calls": lambda n: "SELECT " + "array(" * n + "1" + ")" * n,
    "not": lambda n: "SELECT " + "NOT " * n + "true",
    "minus": lambda n: "SELECT " + "- " * n + "1",
    "bang": lambda n: "SELECT " + "! " * n + "true",
    "dollars": lambda n: "SELECT " + "$" * n,
    "case": lambda n: "SELECT " + "CASE WHEN true THEN " * n + "1" + " END" * n,
    "subqueries": lambda n: "SELECT * FROM " + "(SELECT * FROM " * n + "raw.orders" + ")" * n,
    "exists": lambda n: "SELECT 1 WHERE " + "EXISTS (SELECT 1 WHERE " * n + "true" + ")" * n,
    "types": lambda n: "SELECT CAST(1 AS " + "array<" * n + "int" + ">" * n + ")",
    "structs": lambda n: "SELECT CAST(1 AS " + "struct<a:" * n + "int" + ">" * n + ")",
    "casts": lambda n: "SELECT " + "CAST(" * n + "1" + " AS INT)" * n,
}


@pytest.mark.parametrize("kind", NESTED)
@pytest.mark.parametrize("levels", [150, 600, 1100, 4000])
def test_a_text_nested_too_deeply_is_refused_quickly(flow: Flow, kind: str, levels: int) -> None:
    begun = time.monotonic()
    found = refusal(NESTED[kind](levels), flow)
    assert time.monotonic() - begun < 5
    assert found is not None
    if kind == "dollars":  # Spark treats $$ as a quotation
        assert found.code == "E279"
    else:
        assert found.code == "E267"
        assert "levels" in str(found.why)


@pytest.mark.parametrize("kind", sorted(set(NESTED) - {"open brackets", "open arrays", "dollars", "minus"}))
def test_forty_levels_of_nesting_are_accepted(flow: Flow, kind: str) -> None:
    found = refusal(NESTED[kind](40), flow)
    assert found is None or found.code != "E267"


@pytest.mark.parametrize(
    "text",
    ["SELECT 1" + "+1" * 4000, "SELECT true" + " AND true" * 4000, "SELECT 'a'" + "||'a'" * 4000,
     "SELECT 1" + " UNION ALL SELECT 1" * 1000, "SELECT 1 IN (" + "1," * 4000 + "1)"],
)  # fmt: skip
def test_long_texts_that_are_not_deep_are_read(flow: Flow, text: str) -> None:
    assert refusal(text, flow) is None


@pytest.mark.parametrize(
    "text",
    ["TRANSFORM ops.labels OPTIONS ", "PUBLISH raw.a TO b.c OPTIONS (chunk 1e)", "COLLECT raw.a (x DECIMAL(",
     "PUBLISH raw.a TO b.c OPTIONS (chunk " + "9" * 5000 + ")", "COLLECT raw.a FROM b.c BUCKETS " + "9" * 5000,
     "COLLECT raw.a (x DECIMAL(" + "9" * 5000 + ")) FROM b.c",
     "TRANSFORM a.b EXPECT " + "NOT " * 600 + "x AS c AS SELECT 1"],
)  # fmt: skip
def test_a_statement_that_broke_the_reader_off_is_refused(text: str) -> None:
    statements, errors = parse_text(SourceText("f.dpl", text), variables={})
    del statements
    assert all(str(error.where).startswith("f.dpl:") for error in errors)
    assert errors


@pytest.mark.parametrize(
    "text",
    [
        "9" * 13_200 + " * * * *",
        "*/" + "9" * 13_200 + " * * * *",
        "² * * * *",
        "* " * 9000,
        "0-" + "9" * 5000 + " * * * *",
    ],
)
def test_a_cron_of_any_length_is_refused_with_a_short_message(text: str) -> None:
    with pytest.raises(WaterclockError, match="E104") as caught:
        compile_cron(text)
    assert len(caught.value.render()) < 1000


def _no_crash(texts: list[str], count: int, seed: int, flow: Flow) -> None:
    for text in mutations(texts, count, seed):
        begun = time.process_time()  # other load on the machine does not count
        try:
            refusal(text, flow)
            parse_text(SourceText("f.dpl", text), variables={})
        except Exception:  # noqa: BLE001 (reported in ASCII: a worker cannot report a text that is not UTF-8)
            raise AssertionError(f"seed {seed}: {text!a}: {traceback.format_exc()!a}") from None
        assert time.process_time() - begun < 20, f"seed {seed}: {text!a}"


def _texts() -> list[str]:
    found = seeds()
    queries = [
        match[1] for text in found if (match := re.search(r"\bAS\s+((?:SELECT|WITH|FROM|VALUES).*)", text, re.DOTALL))
    ]
    return [*found, *queries, *queries, "FROM raw.orders |> WHERE id > 1 |> EXTEND 1 AS x |> ORDER BY x |> LIMIT 3"]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_limit_of_rows_is_a_finite_number(value: float) -> None:
    text = "TRANSFORM a.b EXPECT x > 0 ELSE WARN AT MOST :most AS SELECT 1 AS x"
    _, errors = parse_text(SourceText("f.dpl", text), variables={"most": value})
    assert [error.code for error in errors] == ["E217"]


def test_mutated_texts_are_read_or_refused(flow: Flow) -> None:
    _no_crash(_texts(), 400, 38, flow)


@pytest.mark.soak
@pytest.mark.slow
def test_many_mutated_texts_are_read_or_refused(flow: Flow) -> None:
    _no_crash(_texts(), 150_000, int(time.time()), flow)


@pytest.mark.soak
@pytest.mark.slow
def test_check_reads_or_refuses_mutated_projects(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(SETTINGS)
    seed = int(time.time())
    for text in mutations(seeds(), 4000, seed):
        (tmp_path / "flows" / "a.dpl").write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            check_project(tmp_path, capabilities=CAPABILITIES)
        except WaterclockError:
            continue
        except Exception:  # noqa: BLE001 (reported in ASCII: a worker cannot report a text that is not UTF-8)
            raise AssertionError(f"seed {seed}: {text!a}: {traceback.format_exc()!a}") from None
