"""A project that requests an API for each row of a table, over a real server: each request is sent once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.apis import Space
from tests.tiny import TOML, Tiny, day, described, labels
from waterclock.batches.ledger_snapshot import RECOMPUTE
from waterclock.engine.maintenance.rebuild_all import rebuild_all
from waterclock.faults import inject_faults
from waterclock.planner.plan import RECOLLECT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
FLOW = """
CREATE CONNECTION api TYPE rest;
COLLECT raw.orders PARTITIONED (id BIGINT, user_id BIGINT, at TIMESTAMP) FROM shop.orders EVERY DAY BY DATA TIME at;
COLLECT raw.users PARTITIONED (user_id BIGINT KEY, id BIGINT, name STRING) FROM api.users
  OPTIONS ({options}) FOR EACH raw.orders;
TRANSFORM mart.sold PARTITIONED AS
SELECT u.name, count(*) AS orders FROM raw.orders o JOIN raw.users u USING (user_id) GROUP BY u.name;
"""
ONE = "path 'detail/{user_id}', not_found 'skip'"
ROWS = "SELECT timelabel, user_id, name FROM raw.users ORDER BY ALL"


class Stopped(BaseException):
    """Simulates the end of a process within a test."""


class Shop(Tiny):
    """Orders in a database, and an API with the users who ordered."""

    space: Space

    def order(self, *orders: tuple[int, int | None]) -> None:
        """Replace the orders, each given by its day and its user."""
        rows = [(at, user, f"2020-01-0{number} 12:00:00") for at, (number, user) in enumerate(orders)]
        self.source("orders", "id INTEGER, user_id INTEGER, at TIMESTAMP", rows)

    def ask_again(self, verb: str, table: str, *days: int) -> None:
        with self.ledger() as ledger:
            ledger.decisions.request_restate(table, [day(number) for number in days], verb, who="a test")

    def asked(self, since: int = 0) -> list[str]:
        """Return the requested ids, in order."""
        return [one for said in self.space.asked[since:] if said["path"] == "detail" for one in said["ids"]]


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Shop:
    space = Space()
    space.set(rows=users(1, 2, 3, 4, 5))
    toml = TOML + f'connections.api = {{{{ url = "{space.url}", tries = 2, timeout = 20 }}}}\n'
    made = Shop(tmp_path, spark, toml=toml)
    made.space = space
    made.declare(FLOW.replace("{options}", ONE))
    return made


def users(*ids: int, word: str = "u") -> list[dict[str, Any]]:
    return [{"id": one, "name": f"{word}{one}", "more": [one]} for one in ids]


def test_each_id_is_requested_once_and_a_restated_table_requests_only_new_ids(shop: Shop) -> None:
    shop.order((1, 1), (1, 1), (1, 2), (1, None), (2, 2), (2, 9))
    outcome = shop.run(day(3))
    assert not outcome.failed, described(outcome)
    first, second = labels(1, 2)
    assert shop.rows(ROWS) == [(first, 1, "u1"), (first, 2, "u2"), (second, 2, "u2")]
    assert shop.rows("SELECT name, orders FROM mart.sold ORDER BY ALL") == [("u1", 2), ("u2", 1), ("u2", 1)]
    assert sorted(shop.asked()) == ["1", "2", "2", "9"], "no NULL, no id twice for a label"
    assert not shop.run(day(3)).failed
    assert len(shop.asked()) == 4

    shop.space.set(rows=users(1, 2, 3, word="new"))
    shop.order((1, 3), (1, 2), (2, 2), (2, 9))
    shop.ask_again(RECOLLECT, "raw.orders", 1)
    asked = len(shop.space.asked)
    outcome = shop.run(day(3))
    assert not outcome.failed, described(outcome)
    assert shop.asked(asked) == ["3"], "stored responses are used again"
    assert shop.rows(ROWS) == [(first, 2, "u2"), (first, 3, "new3"), (second, 2, "u2")]
    assert shop.rows("SELECT name FROM mart.sold ORDER BY ALL") == [("new3",), ("u2",), ("u2",)]

    asked = len(shop.space.asked)
    shop.ask_again(RECOMPUTE, "raw.users", 1, 2)
    assert not shop.run(day(3)).failed
    assert shop.asked(asked) == [], "a recompute sends no request"
    shop.ask_again(RECOLLECT, "raw.users", 2)
    assert not shop.run(day(3)).failed
    assert sorted(shop.asked(asked)) == ["2", "9"]
    assert shop.rows(ROWS)[-1] == (second, 2, "new2")

    asked = len(shop.space.asked)
    renamed = FLOW.replace("{options}", ONE).replace("raw.users", "raw.people")
    shop.declare(renamed.replace("FOR EACH raw.orders", "FOR EACH raw.orders WAS raw.users"))
    assert not shop.run(day(3)).failed
    shop.ask_again(RECOMPUTE, "raw.people", 1, 2)
    assert not shop.run(day(3)).failed
    assert shop.asked(asked) == [], "a renamed table keeps its responses"


def test_a_stopped_collect_resumes_with_the_unanswered_ids(shop: Shop) -> None:
    shop.order(*((1, user) for user in range(1, 6)))
    shop.space.set(faults=[None, None, 500, 500], pause=0.0)
    outcome = shop.run(day(2))
    assert not outcome.failed, described(outcome)  # the second attempt continues
    assert shop.asked().count(shop.asked()[0]) == shop.asked().count(shop.asked()[1]) == 1
    assert len(shop.rows(ROWS)) == 5

    def strike(point: str) -> None:
        if point == "page.kept":
            raise Stopped

    shop.order(*((2, user) for user in range(1, 6)))
    asked = len(shop.space.asked)
    with pytest.raises(Stopped), inject_faults(strike):
        shop.run(day(3))
    with shop.ledger() as ledger:
        for claim in ledger.claims.open():
            ledger.claims.close_lost(claim, why="its process ended")
    assert not shop.run(day(3)).failed
    assert sorted(shop.asked(asked)) == ["1", "2", "3", "4", "5"], "all were kept before the stop"


@pytest.mark.soak
def test_several_ids_in_a_request_and_answers_that_serve_later_labels(shop: Shop) -> None:
    options = "path 'details', params.ids '{user_id}', batch 2, match 'id', cache '7 days', in_flight 2"
    shop.declare(FLOW.replace("{options}", options))
    shop.order((1, 1), (1, 2), (1, 3), (1, 8), (2, 3), (2, 4), (2, 8))
    outcome = shop.run(day(3))
    assert not outcome.failed, described(outcome)
    first, second = labels(1, 2)
    expected = [(first, 1), (first, 2), (first, 3), (second, 3), (second, 4)]
    assert [row[:2] for row in shop.rows(ROWS)] == expected
    told = [one["ids"] for one in shop.space.asked if one["path"] == "detail"]
    assert max(map(len, told)) == 2
    assert sorted(shop.asked()) == ["1", "2", "3", "4", "8", "8"], (
        "3 has a response, and the unknown 8 is requested again"
    )
    shop.space.set(echo="all")
    shop.order((3, 5))
    outcome = shop.run(day(4))
    [error] = [report.error for report in outcome.failed]
    assert error is not None
    assert error.code == "E868"


def test_an_id_removed_at_the_source_is_requested_again_despite_a_cached_answer(shop: Shop) -> None:
    shop.declare(FLOW.replace("{options}", f"{ONE}, cache '7 days'"))
    shop.order((1, 1))
    assert not shop.run(day(2)).failed
    shop.space.set(rows=users(2))
    shop.ask_again(RECOLLECT, "raw.users", 1)
    assert not shop.run(day(2)).failed
    assert shop.rows(ROWS) == []
    shop.order((2, 1), (2, 2))
    asked = len(shop.space.asked)
    outcome = shop.run(day(3))
    assert not outcome.failed, described(outcome)
    assert sorted(shop.asked(asked)) == ["1", "2"]
    assert [row[1] for row in shop.rows(ROWS)] == [2]


def test_rebuild_all_sends_no_requests(shop: Shop) -> None:
    """The API may have deleted the records of earlier responses."""
    flow = (
        FLOW.replace("{options}", ONE)
        + """
    TRANSFORM mart.people EVERY DAY AS SELECT DISTINCT user_id FROM HISTORY(raw.orders);
    COLLECT raw.state (user_id BIGINT KEY, name STRING) FROM api.state OPTIONS ({options})
      FOR EACH mart.people EVERY DAY;
    COLLECT raw.known (user_id BIGINT KEY, name STRING) FROM api.known OPTIONS ({options}) FOR EACH raw.orders MERGE;
    """.replace("{options}", f"{ONE}, resume 0")
    )
    shop.declare(flow)
    shop.order((1, 1), (1, 2), (2, 2), (2, 3))
    outcome = shop.run(day(3))
    assert not outcome.failed, described(outcome)
    tables = ("raw.users", "raw.state", "raw.known", "mart.sold")
    before = [shop.rows(f"SELECT * FROM {table} ORDER BY ALL") for table in tables]
    assert all(before)
    asked = len(shop.space.asked)
    shop.space.set(rows=[])
    shop.declare(flow.replace("count(*) AS orders", "count(*) + 0 AS orders"))
    with shop.opened() as work:
        rebuild_all(work, day(3))
    outcome = shop.run(day(3))
    assert not outcome.failed, described(outcome)
    assert shop.space.asked[asked:] == []
    assert [shop.rows(f"SELECT * FROM {table} ORDER BY ALL") for table in tables] == before


@pytest.mark.soak
def test_after_a_rebuild_in_another_mode_only_new_ids_are_requested(shop: Shop) -> None:
    flow = FLOW.replace("{options}", ONE)
    shop.declare(flow)
    shop.order((1, 1))
    assert not shop.run(day(2)).failed
    shop.declare(flow.replace("raw.users PARTITIONED", "raw.users").replace("EACH raw.orders", "EACH raw.orders MERGE"))
    with shop.opened() as work:
        rebuild_all(work, day(2))
    asked = len(shop.space.asked)
    assert not shop.run(day(2)).failed
    assert shop.asked(asked) == []
    shop.order((1, 1), (1, 3))
    shop.ask_again(RECOLLECT, "raw.orders", 1)
    outcome = shop.run(day(2))
    assert not outcome.failed, described(outcome)
    assert shop.asked(asked) == ["3"]


def test_an_id_unknown_to_the_source_fails_its_batch_and_retry_requests_only_that_id(shop: Shop) -> None:
    shop.declare(FLOW.replace("{options}", "path 'detail/{user_id}'"))
    shop.order((1, 1), (1, 9))
    outcome = shop.run(day(2))
    [error] = [report.error for report in outcome.failed]
    assert error is not None
    assert error.code == "E869"
    assert "detail/9" in str(error.why)
    asked = len(shop.space.asked)
    shop.space.set(rows=users(1, 9))
    with shop.ledger() as ledger:
        ledger.decisions.retry("raw.users", [day(1)], who="a test")
    assert not shop.run(day(2)).failed
    assert shop.asked(asked) == ["9"]
    assert [row[1] for row in shop.rows(ROWS)] == [1, 9]
