"""Every page and its JSON respond to any address, header or name without a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests import stocks
from tests.pages import client_of
from waterclock.ui.live_project import LiveProject

HERE = {"Origin": "http://localhost"}
AWKWARD = "\"quoted\" 'single' <b>bold</b> &amp; & 100 % `tick` {{ 7 * 7 }} {% raw %} \\ 🌊 עברית\u200f " + "long " * 60
_NAMES = "raw.inventory marts.* +marts.revenue+ `raw.inventory` ` raw.inventory@2026-11-09 tag:x * @ .."
_LABELS = """2026-11-09 20261109000000 2026-11 2026 2026-W46 ..2026-11-09 2026-11-09.. 0001 9999 9999-12-31 latest -1
0001-01-01..9999-12-31 2026-11-09T00:00Z..2026-11-09T05:00Z"""
_ODD = ["\x00", "%", "%00", "../..", "<script>", "é", "🌊", "\u202e", "{{7*7}}", " ", "a" * 3000]
_WORDS = st.sampled_from([*_NAMES.split(), *_LABELS.split(), "retry", "recompute", "recollect", "skip", *_ODD])
_TEXTS = st.one_of(_WORDS, st.text(max_size=30), st.lists(_WORDS, max_size=4).map(" ".join))
_PAGES = st.sampled_from(["/", "/grid", "/today", "/catalog", "/runs", "/errors", "/plan", "/tables.json", "/livez"])


@pytest.fixture(scope="module")
def never_changed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Return the pages of a small project, to which no test makes lasting changes; our errors are raised."""
    shop = stocks.make(tmp_path_factory.mktemp("bad") / "shop")
    shop.fill(until=stocks.FIRST + timedelta(days=5))
    live = LiveProject(shop.folder, now="2026-11-21T01:30Z")
    yield client_of(live)
    live.close()


def is_ours(answer: object) -> bool:
    kind, status = answer.headers.get("content-type", ""), answer.status_code  # type: ignore[attr-defined]
    return status < 500 and (status in {304, 307} or kind.startswith(("text/html", "application/json", "text/plain")))


def address(*parts: str) -> str:
    from urllib.parse import quote

    return "/".join(quote(part, safe="") for part in parts)


@given(
    page=_PAGES,
    twin=st.sampled_from(["", ".json"]),
    query=st.dictionaries(
        st.sampled_from(["t", "l", "verb", "tab", "table", "labels", "layer", "state", "part", "x"]), _TEXTS, max_size=4
    ),
    headers=st.dictionaries(
        st.sampled_from(["HX-Request", "If-None-Match", "Accept-Encoding", "Cookie", "Authorization", "Range", "X"]),
        st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30),
        max_size=2,
    ),
)
def test_any_question_is_answered(
    never_changed: TestClient, page: str, twin: str, query: dict[str, str], headers: dict[str, str]
) -> None:
    answer = never_changed.get(
        "/grid.json" if (page, twin) == ("/", ".json") else page + twin, params=query, headers=headers
    )
    assert is_ours(answer), (answer.status_code, answer.text[:300])


@given(
    first=st.sampled_from(["tables", "batches", "static", "plan", "nowhere", ""]),
    parts=st.lists(_TEXTS, max_size=3),
    twin=st.sampled_from(["", ".json"]),
)
def test_any_address_is_answered(never_changed: TestClient, first: str, parts: list[str], twin: str) -> None:
    answer = never_changed.get(f"http://localhost/{address(first, *parts)}{twin}", follow_redirects=False)
    assert is_ours(answer) or answer.headers["content-type"].startswith(("text/javascript", "text/css", "image/svg"))


@given(
    form=st.dictionaries(st.sampled_from(["verb", "t", "l", "digest", "why", "who"]), _TEXTS),
    body=st.one_of(st.none(), st.binary(max_size=60)),
)
def test_any_form_is_answered_and_does_nothing(
    never_changed: TestClient, form: dict[str, str], body: bytes | None
) -> None:
    answer = never_changed.post(
        "/plan", data=form if body is None else None, content=body, headers=HERE, follow_redirects=False
    )
    assert is_ours(answer), (answer.status_code, answer.text[:300])
    assert answer.status_code >= 400


def test_awkward_texts_are_shown_as_they_are(tmp_path: Path, served: Callable[..., TestClient]) -> None:
    said = AWKWARD.replace("\\", "\\\\").replace("'", "\\'")
    long = "a" * 100
    flow = f"""CREATE CONNECTION erp TYPE sqlite;
COLLECT raw.`select` PARTITIONED (sku STRING COMMENT '{said}', at TIMESTAMP) FROM erp.a EVERY DAY BY DATA TIME at
  OWNER '{said}' COMMENT '{said}';
TRANSFORM raw.{long} PARTITIONED EVERY DAY COMMENT '{said}' AS SELECT sku FROM raw.`select`;
"""
    shop = stocks.make(tmp_path / "awkward", flow=flow)
    shop.fails = {("raw.select", datetime(2026, 9, 23, tzinfo=UTC)): AWKWARD}
    shop.fill(until=stocks.FIRST + timedelta(days=4))
    page = served(shop.folder)
    names = page.get("/tables.json").json()["tables"]
    assert names == ["raw.select", f"raw.{long}"]
    of_tables = [
        f"/{kind}/{address(name)}{tab}"
        for name in names
        for kind, tab in (("tables", ""), ("tables", "/code"), ("batches", "/2026-09-23"))
    ]
    for path in ("/", "/catalog", "/today", "/errors", "/runs", *of_tables):
        answer = page.get(path)
        assert answer.status_code == 200, (path, answer.text)
        assert "<b>bold" not in answer.text
        assert "% raw %" not in answer.text or "{% raw %}" in answer.text
    assert "{{ 7 * 7 }}" in page.get("/tables/raw.select").text
    found = page.get("/catalog", params={"owner": AWKWARD.strip()})
    assert found.status_code == 200


def test_an_empty_project_is_reported_on_its_pages(tmp_path: Path, served: Callable[..., TestClient]) -> None:
    page = served(stocks.make(tmp_path / "empty", flow="", header=stocks.HEADER.partition("connections")[0]).folder)
    for path in ("/", "/today", "/catalog", "/runs", "/errors"):
        assert page.get(path).status_code == 200, path
    assert "No table is declared yet." in page.get("/").text


def test_a_project_with_errors_shows_each_as_a_card(tmp_path: Path, served: Callable[..., TestClient]) -> None:
    flow = "TRANSFORM a.b AS SELECT 1 FROM c.d;\nTRANSFORM a.c AS SELEC 1;\n"
    page = served(stocks.make(tmp_path / "wrong", flow=flow).folder)
    for path in ("/", "/today", "/tables/a.b", "/batches/a.b/2026", "/plan", "/nowhere"):
        answer = page.get(path)
        assert answer.status_code in {404, 503}
        assert 'class="err"' in answer.text
    cards = page.get("/grid.json").json()["errors"]
    assert len(cards) > 1
    assert all(card["code"] and card["what"] for card in cards)


def test_ten_thousand_equal_failures_are_shown_as_one_group(tmp_path: Path, served: Callable[..., TestClient]) -> None:
    page = served(stocks.all_failed(tmp_path / "many", 10_000).folder)
    for path in ("/", "/today", "/errors", "/catalog", "/tables/raw.a", "/tables/raw.a/batches", "/batches/raw.a/2026"):
        answer = page.get(path)
        assert answer.status_code == 200
        assert len(answer.content) < 400_000
    assert page.get("/today.json").json()["needs"][0]["count"] == 10_000
    told = page.get("/grid.json").json()
    said = "".join(part["text"] for part in (*told["title"], *told["more"]))
    assert said.startswith("10\u2009000 failures")
    assert "due" not in said
    asked = {"verb": "retry", "t": "raw.a", "l": "2026"}
    assert page.get("/plan.json", params=asked).json()["count"] == 10_000


def test_failures_beyond_the_limit_are_only_counted_as_not_checked(
    tmp_path: Path, served: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waterclock.operations.plan_excerpt._MOST", 60)
    page = served(stocks.all_failed(tmp_path / "many", 200).folder)
    told = page.get("/grid.json").json()
    said = "".join(part["text"] for part in (*told["title"], *told["more"]))
    assert said.startswith("At least 120 failures")
    told = page.get("/errors.json").json()
    assert (told["troubles"][0]["count"], told["not_looked_at"]) == (120, 80)
    assert "80 more batches" in page.get("/errors").text


def test_a_ripple_that_is_half_done_is_shown(shop: stocks.Stocks, served: Callable[..., TestClient]) -> None:
    label = datetime(2026, 11, 10, tzinfo=UTC)
    with shop.ledger() as ledger:
        ledger.decisions.request_restate("raw.returns", [label], "recompute", who="ann")
    shop.fails = {}
    shop.now = datetime.now(UTC)
    shop.fill(until=stocks.NOW, stop=lambda group: group.table != "raw.returns")
    page = served(shop.folder)
    for path in (
        "/",
        "/today",
        "/catalog",
        "/errors",
        "/tables/core.returns_daily",
        "/batches/core.returns_daily/2026-11-10",
    ):
        assert page.get(path).status_code == 200
    asked = {"verb": "recompute", "t": "raw.returns", "l": "2026-11-10"}
    assert page.get("/plan.json", params=asked).status_code == 200


def test_a_query_that_is_too_long_is_refused_and_not_cut_into_another_one(page: TestClient) -> None:
    sql = f"SELECT 1 AS a {' ' * 9_990} WHERE 1 = 0"
    told = page.get("/query.json", params={"q": sql}).json()
    assert (told["answer"], [error["code"] for error in told["errors"]]) == (None, ["E210"])
    assert page.get("/query.csv", params={"q": sql}).status_code == 422


def test_an_empty_query_is_refused_before_a_process_is_started(page: TestClient) -> None:
    refused = page.get("/query.csv", params={"q": " "})
    assert (refused.status_code, "there is no query" in refused.text) == (422, True)


def test_a_table_that_is_named_like_a_file_has_its_page_and_its_twin(
    tmp_path: Path, served: Callable[..., TestClient]
) -> None:
    flow = "CREATE CONNECTION erp TYPE sqlite;\n" + "".join(
        f"COLLECT raw.{name} PARTITIONED (sku STRING, at TIMESTAMP) FROM erp.{name} EVERY DAY BY DATA TIME at;\n"
        for name in ("json", "svg")
    )
    page = served(stocks.make(tmp_path / "named", flow=flow).folder)
    for name in ("raw.json", "raw.svg"):
        for kind in ("tables", "lineage"):
            answer = page.get(f"/{kind}/{name}")
            assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
            assert name in answer.text
            assert page.get(f"/{kind}/{name}.json").json()["table"] == name
        assert page.get(f"/lineage/{name}.svg").headers["content-type"] == "image/svg+xml"
    assert page.get("/tables/raw.csv.json").status_code == 404
