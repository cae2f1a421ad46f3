"""Queries as of a tick, with the knowledge of today or of that time, return the rows of that time."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import waterclock as wc
from tests.tiny import Tiny, day, described, labels
from waterclock.batches.ledger_snapshot import FOLLOW
from waterclock.engine.query.query import AnsweredQuery, query
from waterclock.engine.query.ticks import MissingLabels, RequestedTick
from waterclock.engine.run_opening import apply_flow
from waterclock.engine.runner import Runner
from waterclock.errors import WaterclockError
from waterclock.planner.plan import Batch
from waterclock.planner.planning import Planner
from waterclock.planner.prerequisites import find_prerequisites
from waterclock.selection import Labels

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ORDERS = "id INTEGER, amount INTEGER, at TEXT"
FLOW = """
COLLECT shop.orders PARTITIONED (id BIGINT KEY, amount BIGINT, at TIMESTAMP) FROM shop.orders
  EVERY DAY BY DATA TIME at;
TRANSFORM sales.revenue PARTITIONED AS SELECT sum(amount) AS revenue FROM shop.orders;
TRANSFORM sales.largest (id BIGINT KEY, amount BIGINT) MERGE ON (id)
AS SELECT id, max(amount) AS amount FROM shop.orders GROUP BY id;
TRANSFORM sales.total (total BIGINT) AS SELECT sum(amount) AS total FROM HISTORY(shop.orders);
CREATE VIEW sales.sums AS SELECT total FROM sales.total;
"""


def three_days(folder: Path, spark: SparkSession) -> Tiny:
    """Return three days of orders, run day by day, so that each state of the regular tables was made."""
    tiny = Tiny(folder, spark)
    tiny.source("orders", ORDERS, [(n % 2, n * 10, f"2020-01-0{n} 12:00:00") for n in (1, 2, 3)])
    tiny.declare(FLOW)
    outcome = tiny.run(day(2), day(4))
    assert not outcome.failed, described(outcome)
    return tiny


@pytest.fixture(scope="module")
def asked_alone(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Tiny:
    """Return three days that tests only query."""
    return three_days(tmp_path_factory.mktemp("three_days"), spark)


@pytest.fixture
def tiny(asked_alone: Tiny, tmp_path: Path) -> Tiny:
    """Return a copy of a project with three days."""
    return asked_alone.copied(tmp_path / "three_days")


def asked(tiny: Tiny, sql: str, tick: str, **more: Any) -> AnsweredQuery:
    with tiny.opened() as work:
        return query(work, sql, limit=100, as_of=RequestedTick(tick, **more))


def rows(tiny: Tiny, sql: str, tick: str, **more: Any) -> list[tuple[Any, ...]]:
    return list(asked(tiny, sql, tick, **more).rows)


def refusal(tiny: Tiny, sql: str, tick: str, **more: Any) -> WaterclockError:
    with pytest.raises(WaterclockError) as refused:
        asked(tiny, sql, tick, **more)
    return refused.value


def test_each_kind_of_table_is_queried_as_of_a_tick(asked_alone: Tiny) -> None:
    assert rows(asked_alone, "SELECT revenue FROM sales.revenue ORDER BY 1", "2020-01-03") == [(10,), (20,)]
    assert rows(asked_alone, "SELECT id, amount FROM sales.largest ORDER BY 1", "2020-01-03") == [(0, 20), (1, 10)]
    assert rows(asked_alone, "SELECT total FROM sales.total", "2020-01-03") == [(30,)]
    assert rows(asked_alone, "SELECT total FROM sales.total", "2020-01-02T17:00") == [(10,)]
    assert rows(asked_alone, "SELECT total FROM sales.sums", "latest") == [(60,)]


def test_a_tick_is_an_instant_a_label_the_end_of_a_tables_window_or_latest(asked_alone: Tiny) -> None:
    sql = "SELECT count(*) FROM shop.orders"
    assert rows(asked_alone, sql, labels(3)[0]) == [(2,)]
    assert rows(asked_alone, sql, f"shop.orders@{labels(3)[0]}") == [(3,)]
    assert rows(asked_alone, sql, "shop.orders@2020-01-02") == [(2,)]
    newest = asked(asked_alone, sql, "latest")
    assert newest.moment is not None
    assert (newest.rows, newest.moment.tick, newest.moment.known_at) == (((3,),), day(4), None)


def test_latest_is_the_newest_tick_that_all_tables_of_the_query_have_reached(tiny: Tiny) -> None:
    tiny.shop("INSERT INTO orders VALUES (4, 40, '2020-01-04 12:00:00')")
    assert tiny.run(day(5), only=["shop.orders"]).done == 1
    alone = asked(tiny, "SELECT sum(amount) FROM shop.orders", "latest")
    both = asked(tiny, "SELECT sum(amount), max(total) FROM shop.orders, sales.total", "latest")
    assert alone.moment is not None
    assert both.moment is not None
    assert (alone.moment.tick, alone.rows) == (day(5), ((100,),))
    assert (both.moment.tick, both.rows) == (day(4), ((60, 60),))


@pytest.mark.parametrize(
    ("sql", "tick", "code", "said"),
    [
        ("SELECT * FROM shop.orders", "2020-01-01", "E521", "shop.orders begins after 20200101000000"),
        ("SELECT * FROM shop.orders", "2098-01-01", "E521", "is in the future"),
        ("SELECT * FROM sales.total", "2020-01-09", "E522", "sales.total has no state as of 20200109000000"),
        ("SELECT * FROM shop.orders", "soon", "E106", "soon"),
        ("SELECT 1", "2020-13-01", "E106", "2020-13-01"),
        ("SELECT * FROM shop.orders", "shop.order@2020-01-01", "E511", "shop.order"),
        ("SELECT * FROM shop.orders", "shop.orders@2020-01", "E512", "several labels"),
    ],
)
def test_a_tick_without_content_is_refused_with_the_way_out(
    asked_alone: Tiny, sql: str, tick: str, code: str, said: str
) -> None:
    error = refusal(asked_alone, sql, tick)
    assert error.code == code
    assert said in error.what
    assert code == "E106" or error.fix


def test_the_state_known_before_a_restatement_can_still_be_queried(tiny: Tiny) -> None:
    sql = "SELECT (SELECT sum(amount) FROM shop.orders), (SELECT total FROM sales.total), "
    sql += "(SELECT sum(amount) FROM sales.largest)"
    with tiny.ledger() as ledger:
        before = ledger.now()
    tiny.shop("UPDATE orders SET amount = 500 WHERE amount = 20")
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("shop.orders", [day(2)], "recollect", who="ann")
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    assert rows(tiny, sql, "2020-01-04") == [(540, 540, 530)]
    assert rows(tiny, sql, "2020-01-04", known_at=before) == [(60, 60, 50)]
    assert rows(tiny, sql, "2020-01-03", known_at=before) == [(30, 30, 30)]
    assert rows(tiny, "SELECT total FROM sales.total", "2020-01-03", known_at=before) == [(30,)]


def test_during_a_restatement_a_join_returns_the_old_state_and_is_flagged_as_pending(tiny: Tiny) -> None:
    tiny.shop("UPDATE orders SET amount = 500 WHERE amount = 20")
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("shop.orders", [day(2)], "recollect", who="ann")
    assert tiny.run(day(4), only=["shop.orders"]).done == 1
    both = "SELECT (SELECT sum(amount) FROM shop.orders), (SELECT sum(revenue) FROM sales.revenue)"
    answer = asked(tiny, both, "2020-01-04")
    assert answer.rows == ((60, 60),)
    assert answer.moment is not None
    assert answer.moment.has_pending_restatements
    assert rows(tiny, "SELECT sum(amount) FROM shop.orders", "2020-01-04") == [(540,)], "it is settled itself"
    tiny.run(day(4))
    again = asked(tiny, both, "2020-01-04")
    assert again.rows == ((540, 540),)
    assert again.moment is not None
    assert not again.moment.has_pending_restatements


def test_nothing_was_known_before_the_first_batch(asked_alone: Tiny) -> None:
    with asked_alone.ledger() as ledger:
        long_ago = ledger.now() - timedelta(days=300)
    error = refusal(asked_alone, "SELECT count(*) FROM shop.orders", "2020-01-04", known_at=long_ago)
    assert (error.code, error.where) == ("E522", f"shop.orders@{labels(1)[0]}")


def made_first(tiny: Tiny, tables: list[str]) -> list[Batch]:
    """Make the batches that a query as of 2 January needs, as `query --make` does."""
    with tiny.opened() as work:
        planner = Planner(work.flow)
        snapshot = work.ledger.reads.snapshot(work.flow)
        assert planner.plan(snapshot, day(3)).behind == {"sales.twice": (day(1),)}
        ticks = planner.ticks(snapshot, day(3))
        needed = find_prerequisites(work.flow, ticks, tables, day(2))
        for name, of_table in needed.follow.items():
            work.ledger.decisions.request_restate(name, sorted(of_table), FOLLOW, who="ann")
        spans = {name: Labels.from_range(*span) for name, span in needed.spans.items()}
        runner = Runner(work, only=spans, labels=spans, force=needed.force)
        made = list(runner.plan(day(3)).batches)
        assert not runner.run_once(day(3)).failed
        assert not planner.plan(work.ledger.reads.snapshot(work.flow), day(3)).behind
    return made


def test_three_tables_never_answer_from_three_worlds(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("orders", ORDERS, [(n, n * 10, f"2020-01-0{n} 12:00:00") for n in (1, 2)])
    tiny.declare("""
    COLLECT shop.orders PARTITIONED (id BIGINT KEY, amount BIGINT, at TIMESTAMP) FROM shop.orders
      EVERY DAY BY DATA TIME at;
    TRANSFORM sales.total (total BIGINT) AS SELECT sum(amount) AS total FROM HISTORY(shop.orders);
    TRANSFORM sales.twice (twice BIGINT) AS SELECT 2 * total AS twice FROM sales.total;
    """)
    assert not tiny.run(day(2), day(3)).failed
    tiny.shop("UPDATE orders SET amount = 500 WHERE id = 1")
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("shop.orders", [day(1)], "recollect", who="ann")
    assert not tiny.run(day(3)).failed
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("sales.total", [day(1)], "recompute", who="ann")
    assert not tiny.run(day(3), only=["sales.total"]).failed
    three = "SELECT (SELECT sum(amount) FROM shop.orders), (SELECT total FROM sales.total), "
    three += "(SELECT twice FROM sales.twice)"
    answer = asked(tiny, three, "2020-01-02")
    assert answer.rows == ((10, 10, 20),), "twice has not followed: everything as before the first restatement"
    assert answer.moment is not None
    assert answer.moment.behind == {"sales.twice": (day(1),)}
    two = "SELECT (SELECT total FROM sales.total), (SELECT twice FROM sales.twice)"
    assert rows(tiny, two, "2020-01-02") == [(10, 20)], "nor of two of them, although orders is not queried"
    followed = "SELECT (SELECT sum(amount) FROM shop.orders), (SELECT total FROM sales.total)"
    assert rows(tiny, followed, "2020-01-02") == [(500, 500)]
    assert rows(tiny, three, "2020-01-03") == [(520, 520, 1040)], "the newest states have followed"
    with pytest.warns(UserWarning, match="sales.twice@20200101000000 was not made again"):
        older = wc.resolve("sales.twice", "2020-01-02", project=tiny.root)
    assert [row.twice for row in older.collect()] == [20]
    assert [(report.table, report.label) for report in made_first(tiny, ["sales.twice"])] == [("sales.twice", day(1))]
    assert rows(tiny, three, "2020-01-02") == [(500, 500, 1000)], "and the older one, once it was made again"

    tiny.shop("INSERT INTO orders VALUES (4, 40, '2020-01-04 12:00:00')")
    with tiny.opened() as work:
        apply_flow(work, day(5))
        assert (
            Runner(work, only=["shop.orders"], labels={"shop.orders": Labels.from_range(day(4), day(5))})
            .run_once(day(5))
            .done
            == 1
        )
    count = "SELECT count(*) FROM shop.orders"
    assert refusal(tiny, count, "2020-01-05").where == "shop.orders@20200103000000"
    partial = asked(tiny, count, "2020-01-05", is_partial=True)
    assert partial.rows == ((3,),)
    assert partial.moment is not None
    assert partial.moment.missing == (MissingLabels("shop.orders", day(3), day(3), 1),)


def test_a_notebook_gets_a_table_as_of_a_tick_in_its_own_session(asked_alone: Tiny) -> None:
    newest = wc.resolve("sales.largest", project=asked_alone.root)
    older = wc.resolve("sales.largest", "2020-01-02", project=asked_alone.root)
    assert newest.sparkSession.sparkContext.applicationId == asked_alone.spark.sparkContext.applicationId
    assert {(row.id, row.amount) for row in newest.collect()} == {(0, 20), (1, 30)}
    assert {(row.id, row.amount) for row in older.collect()} == {(1, 10)}
    largest, total = wc.resolve(["sales.largest", "sales.total"], "2020-01-03", project=asked_alone.root)
    assert {(row.id, row.amount) for row in largest.collect()} == {(0, 20), (1, 10)}
    assert [row.total for row in total.collect()] == [30]
    with pytest.raises(WaterclockError) as refused:
        wc.resolve("sales.largst", project=asked_alone.root)
    assert "sales.largest" in str(refused.value.fix)
