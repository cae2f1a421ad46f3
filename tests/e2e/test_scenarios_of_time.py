"""Scenarios with hours, days and late rows that comparable tools get wrong, on real Spark and Delta."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import Tiny, day, described, labels
from tests.unit.cli.conftest import ask
from waterclock.engine.run_settings import RunSettings
from waterclock.faults import inject_faults
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HOUR = timedelta(hours=1)
VISITS = "visitors INTEGER, at TEXT"
HOURS = """
COLLECT web.visits PARTITIONED (visitors BIGINT, at TIMESTAMP) FROM shop.visits EVERY HOUR BY DATA TIME at;
"""
QUARTERS = HOURS.replace("EVERY HOUR", "EVERY 6 HOURS")  # quarters of a day: the same behaviour, but faster
DAYS = """
TRANSFORM web.days PARTITIONED EVERY DAY AS
SELECT count(*) AS hours, sum(visitors) AS visitors FROM web.visits;
"""
POSITIVE = "BIGINT EXPECT (visitors > 0) ELSE FAIL"
ORDERS = "id INTEGER, amount INTEGER, at TEXT"
REVENUE = """
COLLECT shop.orders PARTITIONED (id BIGINT KEY, amount BIGINT, at TIMESTAMP) FROM shop.orders
  EVERY DAY BY DATA TIME at LOOKBACK 1 DAY;
TRANSFORM sales.revenue PARTITIONED AS SELECT sum(100 / amount) AS share, sum(amount) AS revenue FROM shop.orders;
"""


@pytest.fixture
def tiny(tmp_path: Path, spark: SparkSession) -> Tiny:
    return Tiny(tmp_path, spark)


@pytest.fixture(scope="module")
def made_hours(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Tiny:
    """Return a project with three days of 24 hourly batches; tests never change it."""
    tiny = Tiny(tmp_path_factory.mktemp("hours"), spark)
    visits(tiny, day(1), day(4))
    tiny.declare(HOURS + DAYS)
    assert tiny.run(day(4)).done == 3 * 25
    return tiny


@pytest.fixture
def hours(made_hours: Tiny, tmp_path: Path) -> Tiny:
    return made_hours.copied(tmp_path / "hours")


@pytest.fixture(scope="module")
def made_days(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Tiny:
    """Return a project with a table and its child that ran up to the 15th; the source has rows up to the 20th."""
    tiny = Tiny(tmp_path_factory.mktemp("days"), spark)
    tiny.source("orders", ORDERS, [(n, n, f"2020-01-{n:02d} 12:00:00") for n in range(1, 21)])
    tiny.declare(REVENUE)
    assert tiny.run(day(16)).done == 30
    return tiny


@pytest.fixture
def days(made_days: Tiny, tmp_path: Path) -> Tiny:
    return made_days.copied(tmp_path / "days")


def visits(tiny: Tiny, start: datetime, end: datetime) -> None:
    """Fill the source with one visitor per hour, at half past."""
    instants = (start + n * HOUR for n in range((end - start) // HOUR))
    tiny.source("visits", VISITS, [(1, f"{at:%Y-%m-%d %H}:30:00") for at in instants])


def told(tiny: Tiny, now: datetime, *arguments: str) -> str:
    """Return the output of a command that runs at `now`."""
    result = ask(*arguments, "--project", str(tiny.root), "--now", f"{now:%Y-%m-%dT%H:%MZ}")
    assert result.exit_code == 0, result.output
    return result.stdout


def recollect(tiny: Tiny, now: datetime, at: datetime) -> None:
    """Request that the next run recollects an hour of visits."""
    told(tiny, now, "recollect", "web.visits", f"{at:%Y-%m-%dT%H:%M}", "--yes", "--no-run")


def changed(before: Any, after: Any) -> set[tuple[str, str]]:
    """Return the batches whose content changed."""
    return {key for key, digest in after.items() if before.get(key) != digest}


def order(tiny: Tiny, table: str) -> list[str]:
    """Return the labels of a table in the order in which they finished."""
    reports = (report for report in tiny.heard.finished_ if report.group.table == table)
    return [batch.window.label for report in reports for batch in report.group.batches]


def test_scenario_u_a_restated_hour_remakes_its_day_once_and_no_other_hour(hours: Tiny) -> None:
    before = hours.digests()
    hours.shop("UPDATE visits SET visitors = 100 WHERE at = '2020-01-02 05:30:00'")
    recollect(hours, day(4), day(2, 5))
    outcome = hours.run(day(4))
    assert not outcome.failed, described(outcome)
    assert outcome.done == 2
    assert changed(before, hours.digests()) == {("web.visits", label_of(day(2, 5))), ("web.days", labels(2)[0])}
    assert hours.rows("SELECT hours, visitors FROM web.days ORDER BY timelabel") == [(24, 24), (24, 123), (24, 24)]
    assert hours.run(day(4)).done == 0


def test_scenario_u2_a_day_may_go_with_some_of_its_hours_and_is_made_whole_by_the_rest(tiny: Tiny) -> None:
    visits(tiny, day(1), day(2))
    tiny.shop("UPDATE visits SET visitors = -1 WHERE at = '2020-01-01 18:30:00'")  # its batch fails
    sums = DAYS.replace("PARTITIONED", "PARTITIONED PARTIAL AFTER 2 HOURS").replace(
        "count(*)", "NOT IS_PARTIAL() AS whole, count(*)"
    )
    tiny.declare(
        QUARTERS.replace("visitors BIGINT", f"visitors {POSITIVE}")
        + sums
        + "TRANSFORM web.read PARTITIONED AS SELECT whole, hours FROM web.days; PUBLISH web.days TO out.days;"
    )
    assert len(tiny.run(day(2, 1)).failed) == 1
    assert "blocked by web.visits@20200101180000, failed" in told(tiny, day(2, 1), "plan", "web.days")
    outcome = tiny.run(day(2, 2))  # the wait has expired
    assert not outcome.failed, described(outcome)
    assert outcome.done == 3
    without = "without web.visits 20200101180000..20200102000000"
    assert both(tiny) == [[(False, 18)]] * 2
    assert tiny.delivered("SELECT whole, hours FROM days") == [(0, 18)]
    assert without in audited(tiny)
    assert "1 partial of web.days" in told(tiny, day(2, 2), "status")
    assert tiny.run(day(2, 3)).done == 0  # it is not made a second time
    tiny.shop("UPDATE visits SET visitors = 7 WHERE at = '2020-01-01 18:30:00'")
    told(tiny, day(2, 3), "retry", "web.visits", "--no-run")
    assert tiny.run(day(2, 3)).done == 4  # the hour, the completed day, and its readers
    assert both(tiny) == [[(True, 24)]] * 2
    assert tiny.delivered("SELECT whole, hours FROM days") == [(1, 24)]
    assert without not in audited(tiny)
    assert tiny.run(day(2, 4)).done == 0


def audited(tiny: Tiny) -> str:
    """Return the output of `audit` for the first day."""
    return str(ask("audit", "web.days@20200101000000", "--project", str(tiny.root)).stdout)


def both(tiny: Tiny) -> list[list[tuple[Any, ...]]]:
    """Return the rows of the day's table and of its reader."""
    return [tiny.rows(f"SELECT whole, hours FROM web.{name}") for name in ("days", "read")]


def test_scenario_u3_editing_the_delay_of_a_daily_table_loses_no_hour(tiny: Tiny) -> None:
    visits(tiny, day(1), day(2))
    tiny.declare(HOURS + DAYS.replace("EVERY DAY", "EVERY DAY DELAY 1 HOUR"))
    assert tiny.run(day(1, 23)).done == 23
    tiny.declare(HOURS + DAYS.replace("EVERY DAY", "EVERY DAY DELAY 60 MINUTES"))
    assert tiny.run(day(2)).done == 1
    assert tiny.run(day(2, 1), only=["web.days"]).done == 1
    assert tiny.rows("SELECT hours FROM web.days") == [(24,)]


def test_scenario_u4_and_w5_missed_days_are_made_oldest_first_with_a_cap(tiny: Tiny) -> None:
    visits(tiny, day(1), day(7))
    tiny.declare(QUARTERS)
    assert tiny.run(day(3)).done == 8
    tiny.declare(QUARTERS + DAYS)  # two days of its hours ran before
    assert ask("pause", "web.days", "--why", "not yet", "--project", str(tiny.root)).exit_code == 0
    assert tiny.run(day(5)).done == 8
    assert ask("resume", "web.days", "--project", str(tiny.root)).exit_code == 0
    assert "4 labels" in told(tiny, day(5), "plan", "web.days")
    tiny.settings = RunSettings(threads=1, group_cap=1, catch_up=4, who="a test")
    outcome = tiny.run(day(7))  # after two days without a running batch
    assert not outcome.failed, described(outcome)
    assert order(tiny, "web.days") == labels(1, 2, 3, 4, 5, 6)
    assert tiny.rows("SELECT DISTINCT hours FROM web.days") == [(24,)]


@pytest.mark.parametrize(
    ("start", "count"),
    [
        pytest.param(datetime(2020, 3, 4, 5, tzinfo=UTC), 24, id="a day of 24 hours"),
        pytest.param(datetime(2020, 3, 8, 5, tzinfo=UTC), 23, id="clocks go forward"),
        pytest.param(datetime(2020, 11, 1, 4, tzinfo=UTC), 25, id="clocks go back"),
    ],
)
def test_scenario_v_and_v4_a_day_of_new_york_is_made_of_all_its_hours(tiny: Tiny, start: datetime, count: int) -> None:
    end = start + count * HOUR
    visits(tiny, start - HOUR, end + HOUR)
    tiny.declare(
        HOURS.replace("EVERY HOUR", f"EVERY HOUR START '{start:%Y-%m-%dT%H:%MZ}'")
        + DAYS.replace("EVERY DAY", "EVERY DAY ZONE 'America/New_York'")
    )
    assert tiny.run(end - HOUR).done == count - 1
    assert tiny.run(end).done == 2
    assert tiny.rows("SELECT timelabel, hours FROM web.days") == [(label_of(start), count)]


def test_scenario_v2_and_v3_both_hours_of_one_local_name_are_windows_and_their_day_waits_for_each(tiny: Tiny) -> None:
    start = datetime(2020, 11, 1, 4, tzinfo=UTC)  # midnight in New York; 05:00 and 06:00 are both its 01:00
    visits(tiny, start, start + 25 * HOUR)
    tiny.shop("UPDATE visits SET visitors = -1 WHERE at = '2020-11-01 06:30:00'")
    tiny.declare(
        HOURS.replace("EVERY HOUR", "EVERY HOUR START '2020-11-01T04:00Z'").replace("BIGINT", POSITIVE)
        + DAYS.replace("EVERY DAY", "EVERY DAY ZONE 'America/New_York'")
    )
    tiny.settings = RunSettings(threads=1, group_cap=3, who="a test")
    assert tiny.run(start + 25 * HOUR).done == 24
    assert "blocked by web.visits@20201101060000, failed" in told(tiny, start + 25 * HOUR, "plan", "web.days")
    assert tiny.done("web.days") == []


def test_scenario_w_an_older_day_whose_hour_changed_is_listed_as_stale_and_made_by_itself(hours: Tiny) -> None:
    hours.shop("UPDATE visits SET visitors = 100 WHERE at = '2020-01-01 07:30:00'")
    recollect(hours, day(4), day(1, 7))
    assert hours.run(day(4), only=["web.visits"]).done == 1
    plan = told(hours, day(4), "plan").splitlines()
    assert [line.split()[1:] for line in plan if "▨" in line] == [["stale", "2020-01-01", labels(1)[0]]]
    [row] = [line for line in told(hours, day(4), "status").splitlines() if line.startswith("web.days")]
    assert row.split() == ["web.days", "▨", "■", "■"]
    assert hours.run(day(4)).done == 1
    assert hours.rows("SELECT visitors FROM web.days ORDER BY timelabel") == [(123,), (24,), (24,)]


def test_scenario_w2_an_hour_that_fails_for_ever_blocks_its_day_by_name_and_no_other(tiny: Tiny) -> None:
    visits(tiny, day(1), day(4))
    tiny.shop("CREATE TABLE calls AS SELECT visitors, at FROM visits")
    tiny.shop("UPDATE visits SET visitors = -1 WHERE at = '2020-01-02 07:30:00'")
    tiny.declare(
        QUARTERS.replace("BIGINT", POSITIVE)
        + QUARTERS.replace("visits", "calls")
        + "TRANSFORM web.days PARTITIONED EVERY DAY AS\n"
        + "SELECT count(*) AS hours FROM web.visits AS v JOIN web.calls AS c ON c.at = v.at;"
    )
    tiny.settings = RunSettings(threads=2, group_cap=4, who="a test")
    assert len(tiny.run(day(4)).failed) == 1
    assert tiny.done("web.days") == labels(1, 3)
    assert "blocked by web.visits@20200102060000, failed" in told(tiny, day(4), "plan")
    tiny.shop("UPDATE visits SET visitors = 1")
    told(tiny, day(4), "retry", "--no-run")
    assert tiny.run(day(4)).done == 2
    assert tiny.rows("SELECT hours FROM web.days") == [(24,)] * 3


@pytest.mark.parametrize(("parents", "flow"), [(124, QUARTERS), (744, HOURS)], ids=["124", "744"])
@pytest.mark.soak
def test_scenario_w3_a_month_follows_one_of_its_hours_however_many_these_are(
    tiny: Tiny, parents: int, flow: str
) -> None:
    end = day(31) + 24 * HOUR
    visits(tiny, day(1), end)
    tiny.declare(flow + DAYS.replace("days", "months").replace("EVERY DAY", "EVERY MONTH"))
    assert tiny.run(end).done == parents + 1
    tiny.shop("UPDATE visits SET visitors = 100 WHERE at = '2020-01-13 12:30:00'")
    recollect(tiny, end, day(13, 12))
    assert tiny.run(end, only=["web.visits"]).done == 1
    assert "stale" in told(tiny, end, "plan", "web.months")
    assert tiny.run(end).done == 1
    assert tiny.rows("SELECT hours, visitors FROM web.months") == [(744, 843)]


def test_scenario_w4_a_day_runs_once_its_last_hour_arrives_after_a_newer_day_is_complete(tiny: Tiny) -> None:
    visits(tiny, day(1), day(3))
    tiny.source("loads", "since TEXT", [(f"2020-01-0{n} {h:02}:00:00",) for n in (1, 2) for h in (0, 6, 12, 18)])
    tiny.shop("DELETE FROM loads WHERE since = '2020-01-01 06:00:00'")
    tiny.declare(
        QUARTERS.replace(" at;", " at\n  AWAIT QUERY 'SELECT count(*) > 0 FROM loads WHERE since = :window_start';")
        + DAYS
    )
    assert tiny.run(day(3)).done == 7 + 1
    assert tiny.done("web.days") == labels(2)
    assert "waits for web.visits@20200101060000" in told(tiny, day(3), "plan", "web.days")
    tiny.shop("INSERT INTO loads VALUES ('2020-01-01 06:00:00')")
    assert tiny.run(day(3)).done == 2
    assert tiny.done("web.days") == labels(1, 2)


def test_scenario_x_nothing_follows_an_hour_that_is_made_again_with_equal_content(hours: Tiny) -> None:
    recollect(hours, day(4), day(3, 5))
    assert hours.run(day(4)).done == 1
    assert "nothing is due" in told(hours, day(4), "plan")


def test_scenario_x2_no_batch_follows_content_that_changed_and_was_restored(hours: Tiny) -> None:
    for visitors in (100, 1):
        hours.shop(f"UPDATE visits SET visitors = {visitors} WHERE at = '2020-01-03 05:30:00'")
        recollect(hours, day(4), day(3, 5))
        assert hours.run(day(4), only=["web.visits"]).done == 1
    assert "nothing is due" in told(hours, day(4), "plan")
    assert hours.run(day(4)).done == 0


def test_scenario_x2_a_day_whose_hour_changes_while_it_is_made_is_made_once_more(hours: Tiny) -> None:
    def change(visitors: int) -> None:
        hours.shop(f"UPDATE visits SET visitors = {visitors} WHERE at = '2020-01-03 05:30:00'")
        recollect(hours, day(4), day(3, 5))
        assert hours.run(day(4), only=["web.visits"]).done == 1

    meanwhile = iter([1000])

    def once(point: str) -> None:
        if point == "sealed" and (visitors := next(meanwhile, None)):
            change(visitors)

    change(100)
    hours.heard.finished_.clear()
    with inject_faults(once):
        hours.run(day(4), only=["web.days"])
    assert order(hours, "web.days") == labels(3, 3)
    assert hours.rows("SELECT visitors FROM web.days ORDER BY timelabel") == [(24,), (24,), (1023,)]


def test_scenario_y2_changed_code_is_reported_and_backfill_lists_all_batches_first(days: Tiny) -> None:
    reader = "TRANSFORM sales.large PARTITIONED AS SELECT revenue > 5 AS is_large FROM sales.revenue;"
    days.declare(REVENUE + reader)
    assert days.run(day(16)).done == 15
    days.declare(REVENUE.replace("sum(amount) AS", "sum(amount) * 10 AS") + reader)
    assert "sales.revenue: 15 done labels ran under older code" in told(days, day(16), "plan")
    shown = ask("backfill", "sales.revenue", "--changed", "--project", str(days.root), "--now", "2020-01-16")
    assert shown.exit_code == 1, "it was not confirmed"
    parent, child = shown.stdout.split("then, if rows differ, up to 15 batches")
    assert "sales.revenue     15 labels" in parent
    assert "sales.large     15 labels" in child
    assert days.run(day(16)).done == 0, "changed code alone restates no batch"


def test_scenario_z_days_off_are_made_before_the_newest_ones(days: Tiny) -> None:
    days.settings = RunSettings(threads=1, group_cap=1, who="a test")
    outcome = days.run(day(21))
    assert not outcome.failed, described(outcome)
    assert order(days, "shop.orders") == labels(16, 17, 18, 19, 20)
    assert days.done("sales.revenue") == labels(*range(1, 21))


def test_scenario_z2_a_late_row_of_an_old_day_changes_that_day_and_its_dependents_alone(days: Tiny) -> None:
    days.declare(REVENUE.replace("LOOKBACK 1 DAY", "LOOKBACK 30 DAYS"))
    before = days.digests()
    days.shop("INSERT INTO orders VALUES (77, 100, '2020-01-05 09:00:00')")
    outcome = days.run(day(17))
    assert not outcome.failed, described(outcome)
    late, new = labels(5)[0], labels(16)[0]
    expected = {(table, label) for table in ("shop.orders", "sales.revenue") for label in (late, new)}
    assert changed(before, days.digests()) == expected
    assert outcome.plan is not None
    assert not outcome.plan.batches
    assert [days.runs_of(table) for table in ("shop.orders", "sales.revenue")] == [17, 17]
    assert days.rows(f"SELECT revenue FROM sales.revenue WHERE timelabel = '{late}'") == [(105,)]


def test_scenario_z3_a_failed_day_is_retried_whatever_ran_since(days: Tiny) -> None:
    days.declare(REVENUE.replace("amount BIGINT", "amount BIGINT EXPECT (amount < 100) ELSE FAIL"))
    days.shop("UPDATE orders SET amount = 100 WHERE id = 18")
    assert len(days.run(day(20)).failed) == 1
    assert days.done("sales.revenue") == labels(*range(1, 18), 19)
    assert days.run(day(21)).done == 2
    days.shop("UPDATE orders SET amount = 18 WHERE id = 18")
    told(days, day(21), "retry", "--no-run")
    outcome = days.run(day(21))
    assert not outcome.failed, described(outcome)
    assert outcome.done == 2
    assert days.done("shop.orders") == days.done("sales.revenue") == labels(*range(1, 21))
