"""Scenarios that comparable tools get wrong; Waterclock is correct in each, on real Spark and Delta."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.postgres import server
from tests.tiny import TOML, Tiny, day, described, labels
from waterclock.errors import ProjectErrors, WaterclockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ORDERS = "id INTEGER, amount INTEGER, at TEXT"
COLLECT = """
COLLECT shop.orders PARTITIONED (id BIGINT KEY, amount BIGINT, at TIMESTAMP) FROM shop.orders
  EVERY DAY BY DATA TIME at;
"""
REVENUE = "TRANSFORM sales.revenue PARTITIONED AS SELECT sum(amount) AS revenue FROM shop.orders;"


# scenarios with several runners or projects also run on a shared ledger server
LEDGERS = ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)]


def toml(ledger: str) -> str:
    """Return the project file of a small project with this kind of ledger."""
    return TOML if ledger == "sqlite" else f'{TOML}ledger = "{server().ledger_url()}"\n'


@pytest.fixture
def tiny(tmp_path: Path, spark: SparkSession) -> Tiny:
    return Tiny(tmp_path, spark)


def ten_days(tiny: Tiny) -> None:
    tiny.source("orders", ORDERS, [(n, n, f"2020-01-{n:02d} 12:00:00") for n in range(1, 11)])


def test_scenario_a_child_of_a_later_parent_waits_for_the_same_window(tiny: Tiny) -> None:
    tiny.source("orders", ORDERS, [(n, 1, f"2020-01-01 {n:02d}:30:00") for n in range(10)])
    tiny.declare(
        COLLECT.replace("EVERY DAY", "EVERY DAY DELAY 8 HOURS")
        + REVENUE.replace("AS SELECT", "DELAY 0 HOURS AS SELECT")
    )
    early = tiny.run(day(2, 1))
    assert early.done == 0
    assert tiny.done("sales.revenue") == []
    late = tiny.run(day(2, 9))
    assert not late.failed, described(late)
    assert tiny.rows("SELECT revenue FROM sales.revenue") == [(10,)]


def test_scenario_b_one_failing_day_of_ten_blocks_only_its_own_child(tiny: Tiny) -> None:
    ten_days(tiny)
    tiny.declare(
        COLLECT
        + "TRANSFORM clean.orders PARTITIONED AS SELECT id, amount, 10 / (amount - 4) AS share FROM shop.orders;"
        + "TRANSFORM sales.revenue PARTITIONED AS SELECT sum(amount) AS revenue FROM clean.orders;"
    )
    outcome = tiny.run(day(11))
    assert [report.group.batches[0].window.label for report in outcome.failed] == labels(4)
    assert tiny.done("sales.revenue") == labels(1, 2, 3, 5, 6, 7, 8, 9, 10)
    assert outcome.plan is not None
    blocked = [batch for batch in outcome.plan.batches if batch.table == "sales.revenue"]
    assert [batch.window.label for batch in blocked] == labels(4)
    assert f"clean.orders@{labels(4)[0]}, failed" in blocked[0].reason

    tiny.shop("UPDATE orders SET amount = 40 WHERE id = 4")
    tiny.declare(
        COLLECT
        + "TRANSFORM clean.orders PARTITIONED AS\n"
        + "SELECT id, amount, try_divide(10, amount - 4) AS share FROM shop.orders;"
        + "TRANSFORM sales.revenue PARTITIONED AS SELECT sum(amount) AS revenue FROM clean.orders;"
    )
    before = tiny.runs_of("clean.orders"), tiny.runs_of("sales.revenue")
    with tiny.ledger() as ledger:
        ledger.decisions.retry("clean.orders", [day(4)], who="a test")
    again = tiny.run(day(11))
    assert not again.failed, described(again)
    assert (tiny.runs_of("clean.orders"), tiny.runs_of("sales.revenue")) == (before[0] + 1, before[1] + 1)
    assert tiny.done("sales.revenue") == labels(*range(1, 11))


def test_scenario_c_a_late_row_restates_only_its_day_and_the_readers_of_that_day(tiny: Tiny) -> None:
    ten_days(tiny)
    tiny.declare(COLLECT.replace("BY DATA TIME at", "BY DATA TIME at LOOKBACK 3 DAYS") + REVENUE)
    assert not tiny.run(day(10)).failed
    before = tiny.digests()
    tiny.shop("INSERT INTO orders VALUES (77, 100, '2020-01-08 09:00:00')")
    outcome = tiny.run(day(11))
    assert not outcome.failed, described(outcome)
    changed = {key for key, digest in tiny.digests().items() if before.get(key) != digest}
    late, new = labels(8)[0], labels(10)[0]
    assert changed == {(name, label) for name in ("shop.orders", "sales.revenue") for label in (late, new)}
    assert tiny.rows(f"SELECT revenue FROM sales.revenue WHERE timelabel = '{late}'") == [(108,)]


def test_scenario_d_a_child_without_a_lookback_follows_its_parent_that_has_one(tiny: Tiny) -> None:
    ten_days(tiny)
    child = "TRANSFORM sales.total AS SELECT sum(amount) AS total FROM HISTORY(shop.orders);"
    tiny.declare(COLLECT.replace("BY DATA TIME at", "BY DATA TIME at LOOKBACK 3 DAYS") + child)
    assert not tiny.run(day(10)).failed
    assert tiny.rows("SELECT total FROM sales.total") == [(45,)]
    tiny.shop("UPDATE orders SET amount = 5000 WHERE id = 8")
    assert not tiny.run(day(11)).failed
    assert tiny.rows("SELECT sum(amount) FROM shop.orders") == [(5047,)]
    assert tiny.rows("SELECT total FROM sales.total") == [(5047,)], "the child is not up to date with less"


def test_scenario_e_four_days_down_are_caught_up_oldest_first_with_a_cap(tiny: Tiny) -> None:
    ten_days(tiny)
    tiny.declare(COLLECT + REVENUE)
    tiny.run(day(3))
    assert tiny.done("sales.revenue") == labels(1, 2)
    tiny.settings = type(tiny.settings)(threads=1, group_cap=1, catch_up=2, who="a test")
    tiny.heard.finished_.clear()
    outcome = tiny.run(day(7))
    assert not outcome.failed, described(outcome)
    assert tiny.done("sales.revenue") == labels(*range(1, 7))
    order = [r.group.batches[0].window.label for r in tiny.heard.finished_ if r.group.table == "shop.orders"]
    assert order == labels(3, 4, 5, 6)


def test_scenario_f_a_table_run_before_its_input_waits_and_names_the_input(tiny: Tiny) -> None:
    ten_days(tiny)
    tiny.declare(COLLECT + REVENUE)
    outcome = tiny.run(day(2), only=["sales.revenue"])
    assert outcome.done == 0
    assert tiny.done("sales.revenue") == []
    assert outcome.plan is not None
    (waiting,) = outcome.plan.batches
    assert waiting.causes[0].table == "shop.orders"
    tiny.run(day(2))
    assert tiny.rows("SELECT revenue FROM sales.revenue") == [(1,)]


def test_scenario_g_a_window_whose_source_is_empty_is_done_with_no_rows(tiny: Tiny) -> None:
    tiny.source("orders", ORDERS, [(1, 10, "2020-01-02 12:00:00")])
    tiny.declare(COLLECT + REVENUE)
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    assert tiny.done("shop.orders") == labels(1, 2)
    assert tiny.rows("SELECT timelabel, count(*) FROM shop.orders GROUP BY 1") == [(labels(2)[0], 1)]
    assert tiny.rows("SELECT timelabel, revenue FROM sales.revenue ORDER BY 1") == [
        (labels(1)[0], None),
        (labels(2)[0], 10),
    ]

    tiny.shop("DELETE FROM orders")
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("shop.orders", [day(2)], "recollect", who="a test")
    again = tiny.run(day(3))
    assert not again.failed, described(again)
    assert tiny.rows("SELECT count(*) FROM shop.orders") == [(0,)]
    assert tiny.rows("SELECT timelabel, revenue FROM sales.revenue ORDER BY 1") == [
        (labels(1)[0], None),
        (labels(2)[0], None),
    ]


def test_scenario_h_a_batch_never_touches_rows_of_other_windows(tiny: Tiny) -> None:
    tiny.source(
        "orders", f"{ORDERS}, land TEXT", [(n, 1, f"2020-01-{1 + n // 10:02d} 12:00:00", "de") for n in range(40)]
    )
    tiny.declare(
        """
        COLLECT shop.orders (id BIGINT KEY, at TIMESTAMP, land STRING) FROM shop.orders
          EVERY DAY BY DATA TIME at APPEND;
        """
    )
    for now in (2, 3, 4, 5):
        outcome = tiny.run(day(now))
        assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT count(*), count(DISTINCT timelabel) FROM shop.orders") == [(40, 4)]


@pytest.mark.parametrize("ledger", LEDGERS)
def test_scenario_i_a_keyed_update_that_its_destination_cannot_do_is_refused(
    ledger: str, tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark, toml=toml(ledger))
    tiny.declare(
        COLLECT + "TRANSFORM sales.r (id KEY, *) AS SELECT * FROM shop.orders; PUBLISH sales.r TO files.r MERGE;"
    )
    with pytest.raises(ProjectErrors) as refused:
        tiny.load()
    assert "MERGE" in refused.value.render()


def test_scenario_j_all_errors_of_two_files_are_shown_with_their_places(tiny: Tiny) -> None:
    tiny.declare(COLLECT)
    (tiny.root / "flows" / "a.dpl").write_text(
        "TRANSFORM a.b AS SELECT * FROM shop.order;\nTRANSFORM a.c EVRY DAY AS SELECT 1 AS x;"
    )
    (tiny.root / "flows" / "b.dpl").write_text("PUBLISH a.z TO out.z;")
    with pytest.raises(ProjectErrors) as refused:
        tiny.load()
    places = [error.where for error in refused.value.errors]
    assert "flows/a.dpl:1:32" in places
    assert "flows/a.dpl:2:15" in places
    assert any(str(place).startswith("flows/b.dpl:1:") for place in places)


def test_scenario_k_unknown_tables_and_columns_are_refused_with_the_nearest_name(tiny: Tiny) -> None:
    tiny.declare(
        COLLECT + "TRANSFORM a.b AS SELECT amuont FROM shop.orders; TRANSFORM a.c AS SELECT 1 AS x FROM shop.ordes;"
    )
    with pytest.raises(ProjectErrors) as refused:
        tiny.load()
    text = refused.value.render()
    assert "amount" in text
    assert "did you mean shop.orders" in text


def test_scenario_k_rules_of_columns_that_are_not_there_are_refused_with_the_nearest_name(tiny: Tiny) -> None:
    tiny.declare(
        COLLECT + "TRANSFORM a.b PARTITIONED EXPECT amuont > 0 AS positive ELSE QUARANTINE AT MOST 1 PERCENT ELSE HOLD"
        " AS SELECT id, amount FROM shop.orders;"
        "TRANSFORM a.c PARTITIONED EXPECT count(*) > 0 AS some ELSE HLOD AS SELECT id FROM shop.orders;"
        "TRANSFORM a.d AS SELECT id FROM shop.orders_quarantin;"
    )
    with pytest.raises(ProjectErrors) as refused:
        tiny.load()
    text = refused.value.render()
    assert "did you mean amount" in text
    assert "did you mean HOLD" in text
    assert "did you mean shop.orders" in text


def test_scenario_l_a_batch_that_is_held_leaves_readers_the_last_good_version(tiny: Tiny) -> None:
    rows = [(1, 5, "2020-01-01 12:00:00"), (2, 0, "2020-01-02 12:00:00"), (3, -1, "2020-01-02 13:00:00")]
    tiny.source("orders", ORDERS, [*rows, (4, 7, "2020-01-02 14:00:00")])
    rule = "EXPECT x > 0 AS positive ELSE QUARANTINE AT MOST 1 ELSE HOLD"
    tiny.declare(
        f"{COLLECT} TRANSFORM marts.m PARTITIONED {rule} AS SELECT id, amount AS x FROM shop.orders;"
        "TRANSFORM marts.n AS SELECT sum(x) AS x FROM HISTORY(marts.m);"
    )
    assert not tiny.run(day(2)).failed
    outcome = tiny.run(day(3))
    assert [(report.group.table, report.error and report.error.code) for report in outcome.failed] == [
        ("marts.m", "E755")
    ]
    assert tiny.rows("SELECT id, x FROM marts.m") == [(1, 5)]
    assert tiny.rows("SELECT x FROM marts.n") == [(5,)]
    assert tiny.rows("SELECT count(*) FROM marts.m_quarantine") == [(0,)]
    # with one bad row less, the day is complete, and the other bad row is quarantined
    tiny.shop("UPDATE orders SET amount = 2 WHERE id = 3")
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("shop.orders", [day(2)], "recollect", who="ann")
        ledger.decisions.retry("marts.m", [day(2)], who="ann")
    assert not tiny.run(day(3)).failed
    assert tiny.rows("SELECT id, x FROM marts.m ORDER BY id") == [(1, 5), (3, 2), (4, 7)]
    assert tiny.rows("SELECT x FROM marts.n") == [(14,)]
    assert tiny.rows("SELECT count(*) FROM marts.m_quarantine") == [(1,)]


def test_scenario_l_a_failed_run_leaves_readers_the_last_good_version(tiny: Tiny) -> None:
    tiny.source("orders", ORDERS, [(1, 5, "2020-01-01 12:00:00"), (2, 0, "2020-01-02 12:00:00")])
    tiny.declare(
        COLLECT + "TRANSFORM marts.m AS SELECT sum(10 / amount) AS x FROM HISTORY(shop.orders);"
        "TRANSFORM marts.n AS SELECT x FROM marts.m;"
    )
    assert not tiny.run(day(2)).failed
    outcome = tiny.run(day(3))
    assert [report.group.table for report in outcome.failed] == ["marts.m"]
    assert tiny.rows("SELECT x FROM marts.m") == [(2.0,)]
    assert tiny.rows("SELECT x FROM marts.n") == [(2.0,)]


@pytest.mark.soak
def test_scenario_m_a_reader_during_refreshes_always_sees_a_whole_version(tiny: Tiny, spark: SparkSession) -> None:
    tiny.source("orders", ORDERS, [(n, n, "2020-01-01 12:00:00") for n in range(100)])
    tiny.declare("COLLECT shop.orders (id BIGINT KEY, amount BIGINT, at TIMESTAMP) FROM shop.orders EVERY DAY;")
    assert not tiny.run(day(2)).failed
    folder = str(tiny.root / ".waterclock" / "tables" / "shop" / "orders")
    seen: set[int] = set()
    errors: list[BaseException] = []
    stop, has_read = threading.Event(), threading.Event()

    def read() -> None:
        reader = spark.newSession()
        while not stop.is_set():
            try:
                seen.add(reader.read.format("delta").load(folder).count())
            except Exception as error:  # noqa: BLE001 - any error of the reader is the finding
                errors.append(error)
            has_read.set()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for now in range(3, 9):
            has_read.clear()
            assert has_read.wait(60)
            tiny.shop(f"INSERT INTO orders SELECT id + 100 * {now}, amount, at FROM orders WHERE id < 100")
            assert not tiny.run(day(now)).failed
    finally:
        stop.set()
        thread.join()
    assert not errors
    assert seen <= {100 * count for count in range(1, 8)}
    assert len(seen) > 1


@pytest.mark.parametrize("ledger", LEDGERS)
def test_scenario_n_two_runs_at_once_do_each_batch_once(ledger: str, tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark, toml=toml(ledger))
    ten_days(tiny)
    tiny.declare(COLLECT + REVENUE + "PUBLISH sales.revenue TO out.revenue;")
    with tiny.opened() as work:
        from waterclock.engine.run_opening import apply_flow

        apply_flow(work, day(11))
    other = Tiny(tiny.root, spark, toml=None)
    outcomes: list[Any] = []
    threads = [threading.Thread(target=lambda one=one: outcomes.append(one.run(day(11)))) for one in (tiny, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [described(outcome) for outcome in outcomes] == ["[]", "[]"]
    tiny.run(day(11))
    assert tiny.done("sales.revenue") == labels(*range(1, 11))
    assert tiny.runs_of("shop.orders") == 10
    assert tiny.runs_of("sales.revenue") == 10
    assert tiny.rows("SELECT count(*), sum(amount) FROM shop.orders") == [(10, 55)]
    assert tiny.delivered("SELECT count(*), sum(revenue) FROM revenue") == [(10, 55)]


@pytest.mark.parametrize("ledger", LEDGERS)
def test_scenario_o_a_table_of_another_project_is_refused_naming_its_owner(
    ledger: str, tmp_path: Path, spark: SparkSession
) -> None:
    storage = str(tmp_path / "lake")
    first = Tiny(tmp_path / "one", spark, name="first", storage=storage, toml=toml(ledger))
    first.source("orders", ORDERS, [(1, 1, "2020-01-01 12:00:00")])
    first.declare(COLLECT)
    assert not first.run(day(2)).failed
    elsewhere = server().ledger_url() if ledger == "postgres" else f"sqlite:///{tmp_path}/second.db"
    second_toml = f'{TOML}ledger = "{elsewhere}"\n'
    second = Tiny(tmp_path / "two", spark, name="second", storage=storage, toml=second_toml)
    second.source("orders", ORDERS, [(7, 7, "2020-01-01 12:00:00")])
    second.declare(COLLECT)
    outcome = second.run(day(2))
    assert len(outcome.failed) == 1
    error = outcome.failed[0].error
    assert isinstance(error, WaterclockError)
    assert "first" in error.render()
    assert first.rows("SELECT id FROM shop.orders") == [(1,)]


def test_scenario_r_an_error_in_a_query_has_four_parts_and_no_trace(tiny: Tiny) -> None:
    tiny.source("orders", ORDERS, [(1, 1, "2020-01-01 12:00:00")])
    tiny.declare(COLLECT + "TRANSFORM a.b AS\nSELECT id,\n  date_add(amount, 'x') AS d FROM shop.orders;")
    outcome = tiny.run(day(2))
    (failed,) = outcome.failed
    assert failed.error is not None
    text = failed.error.render()
    assert "flows/flow.dpl:" in text
    assert "at org.apache" not in text
    assert "Traceback" not in text
    assert len(text.splitlines()) < 12


def test_scenario_r_an_error_in_a_python_transform_shows_the_users_line(tiny: Tiny) -> None:
    tiny.source("orders", ORDERS, [(1, 1, "2020-01-01 12:00:00")])
    tiny.declare(COLLECT)
    (tiny.root / "flows" / "bad.py").write_text(
        "from __future__ import annotations\nimport waterclock as wc\n\n\n"
        "@wc.transform('a.b')\n"
        "def b(orders=wc.table('shop.orders')):\n"
        "    return orders.select(orders.amuont)\n"
    )
    outcome = tiny.run(day(2))
    (failed,) = outcome.failed
    assert failed.error is not None
    text = failed.error.render()
    assert "bad.py:7" in text
    assert "amuont" in text
    assert "site-packages" not in text


def test_scenario_s_permanent_errors_are_tried_once_and_passing_ones_again(tiny: Tiny) -> None:
    tiny.source("orders", ORDERS, [(1, 0, "2020-01-01 12:00:00")])
    tiny.declare(COLLECT + "TRANSFORM a.b AS SELECT 1 / amount AS x FROM shop.orders;")
    outcome = tiny.run(day(2))
    (failed,) = outcome.failed
    assert failed.group.table == "a.b"
    with tiny.ledger() as ledger:
        assert len(ledger.past.audit("a.b", day(1)).attempts) == 1

    from waterclock.faults import inject_faults

    strikes = iter([True])

    def once(point: str) -> None:
        if point == "sealed" and next(strikes, False):
            raise ConnectionError("connection reset by the test")

    tiny.source("orders", ORDERS, [(1, 1, "2020-01-02 12:00:00")])
    with inject_faults(once):
        again = tiny.run(day(3), only=["shop.orders"])
    assert not again.failed, described(again)
    with tiny.ledger() as ledger:
        assert len(ledger.past.audit("shop.orders", day(2)).attempts) == 2


def test_scenario_t_the_whole_history_of_a_batch_is_kept_failures_and_restatements_too(tiny: Tiny) -> None:
    tiny.source("orders", ORDERS, [(1, 10, "2020-01-01 12:00:00"), (1, 20, "2020-01-02 12:00:00")])
    bad = REVENUE.replace("sum(amount)", "sum(1 DIV (amount - 20))")
    tiny.declare(COLLECT + bad)
    assert tiny.run(day(3)).failed
    tiny.declare(COLLECT + REVENUE)
    with tiny.ledger() as ledger:
        ledger.decisions.retry("sales.revenue", [day(2)], who="ann")
    assert not tiny.run(day(3)).failed
    tiny.shop("UPDATE orders SET amount = 25 WHERE amount = 20")
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("shop.orders", [day(2)], "recollect", who="ann")
    assert not tiny.run(day(3)).failed
    with tiny.ledger() as ledger:
        trail = ledger.past.audit("sales.revenue", day(2))
    shared, *alone = trail.attempts
    assert shared.status == "lost", "a claim of two labels, of which one failed, is split"
    assert [attempt.status for attempt in alone] == ["failed", "done", "done"]
    assert "DIVIDE_BY_ZERO" in str(alone[0].error)
    assert [attempt.revision.rows for attempt in alone if attempt.revision] == [1, 1]
    codes = [attempt.code for attempt in alone]
    assert codes[0] != codes[1] == codes[2], "the code of the run is recorded"
    first, second = (attempt.inputs for attempt in alone[1:])
    assert first[0].version < second[0].version, "and its inputs"
    assert [event.kind for event in trail.events].count("retried") == 1
    kept = tiny.rows(
        "SELECT kind, count(*) FROM waterclock.events WHERE table = 'sales.revenue' AND "
        f"timelabel = '{labels(2)[0]}' GROUP BY kind ORDER BY kind"
    )
    assert dict(kept)["done"] == 2
