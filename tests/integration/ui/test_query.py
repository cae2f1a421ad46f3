from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from starlette.testclient import TestClient

from tests.pages import client_of
from tests.tiny import Tiny, day
from waterclock.ui.live_project import LiveProject
from waterclock.ui.query_queue import QueryQueue

COLLECT = "COLLECT shop.orders PARTITIONED FROM shop.orders EVERY DAY BY DATA TIME at;"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("query")
    tiny = Tiny(folder, spark)
    tiny.declare(COLLECT)
    rows = [(1, 10.5, "2020-01-01 06:00:00"), (2, 30.0, "2020-01-01 07:00:00"), (3, 20.0, "2020-01-02 06:00:00")]
    tiny.source("orders", "id INTEGER, amount REAL, at TIMESTAMP", rows)
    assert not tiny.run(day(3)).failed
    live, asker = LiveProject(folder), QueryQueue()
    yield client_of(live, asker=asker)
    live.close()
    asker.close()


@pytest.mark.spark
def test_a_query_is_answered_as_it_is_and_as_it_was_with_a_plot_and_as_csv(page: TestClient) -> None:
    sql = "SELECT date_format(at, 'yyyy-MM-dd') AS day, sum(amount) AS total FROM shop.orders GROUP BY 1 ORDER BY 1"
    told = page.get("/query.json", params={"q": sql}).json()
    assert told["texts"] == [["2020-01-01", "40.5"], ["2020-01-02", "20.0"]]
    assert [(bar["name"], bar["height"]) for bar in told["plot"]["bars"]] == [
        ("2020-01-01", 100),
        ("2020-01-02", 49.38),
    ]
    then = page.get("/query.json", params={"q": sql, "as-of": "2020-01-02"}).json()
    assert (then["texts"], len(then["lines"])) == ([["2020-01-01", "40.5"]], 1)
    assert page.get("/query.csv", params={"q": sql}).text == "day,total\n2020-01-01,40.5\n2020-01-02,20.0\n"
    assert "<rect" in page.get("/query", params={"q": sql}).text


@pytest.mark.spark
def test_instants_have_their_zone_on_the_page_in_json_and_in_csv(page: TestClient) -> None:
    sql = "SELECT id, at, CAST(at AS TIMESTAMP_NTZ) AS ntz FROM shop.orders WHERE id = 1"
    told = page.get("/query.json", params={"q": sql}).json()
    assert told["texts"] == [["1", "2020-01-01 06:00:00Z", "2020-01-01 06:00:00"]]
    assert told["answer"]["rows"] == [[1, "2020-01-01T06:00:00Z", "2020-01-01T06:00:00"]]
    csv = page.get("/query.csv", params={"q": sql}).text
    assert csv == "id,at,ntz\n1,2020-01-01T06:00:00Z,2020-01-01T06:00:00\n"


@pytest.mark.spark
def test_formulas_in_a_csv_download_are_escaped_on_request(page: TestClient) -> None:
    sql = "SELECT '=cmd()' AS `+a`, -5 AS n, '-' AS dash, NULL AS none, 'a=b' AS plain"
    plain = page.get("/query.csv", params={"q": sql}).text
    assert plain == "+a,n,dash,none,plain\n=cmd(),-5,-,,a=b\n"
    escaped = page.get("/query.csv", params={"q": sql, "formulas": "escape"}).text
    assert escaped == "'+a,n,dash,none,plain\n'=cmd(),-5,'-,,a=b\n"
    assert "formulas=escape" in page.get("/query", params={"q": sql}).text


@pytest.mark.spark
def test_a_tables_page_leads_to_all_that_it_held_then(page: TestClient) -> None:
    address = page.get("/tables/shop.orders.json", params={"at": "2020-01-01"}).json()["held"]["query"]
    told = page.get(address.replace("/query?", "/query.json?")).json()
    assert (told["as_of"], sorted(row[1] for row in told["texts"])) == ("shop.orders@20200101000000", ["1", "2"])


@pytest.mark.spark
def test_errors_of_a_query_are_shown_below_it(page: TestClient) -> None:
    for sql, code in (
        ("SELECT nope FROM shop.orders", "E730"),
        ("SELECT * FROM shop.ordres", "E213"),
        ("DROP TABLE a", "E210"),
    ):
        answer = page.get("/query.json", params={"q": sql})
        assert answer.status_code == 200
        assert answer.json()["errors"][0]["code"].startswith(code)
        assert page.get("/query", params={"q": sql}).status_code == 200
    assert page.get("/query.csv", params={"q": "SELECT * FROM shop.ordres"}).status_code == 422


@pytest.mark.spark
def test_other_sites_cannot_have_a_browser_ask(page: TestClient) -> None:
    for path in ("/query", "/query.json", "/query.csv"):
        answer = page.get(path, params={"q": "SELECT 1"}, headers={"Sec-Fetch-Site": "cross-site"})
        assert answer.status_code == 403
