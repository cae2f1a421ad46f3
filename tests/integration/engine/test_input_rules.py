"""Rules on inputs: rows that break a rule are quarantined, dropped or reported before the query reads them."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.engine.test_setting_aside import replayed
from tests.tiny import Tiny, day, described, labels
from waterclock.cli.actions.release import release_batches
from waterclock.engine.batch import input_rules
from waterclock.engine.query.query import query
from waterclock.engine.query.ticks import RequestedTick
from waterclock.faults import inject_faults
from waterclock.operations.project_opening import open_read_only
from waterclock.storage.slices.inventory import list_slice_folders
from waterclock.timelabel.label import instant_of
from waterclock.ui.pages.table_quality import table_quality

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ORDERS = """
COLLECT shop.orders PARTITIONED (id BIGINT, amount INT, land STRING, at TIMESTAMP)
  FROM shop.orders EVERY DAY BY DATA TIME at;
"""
DAILY = """
TRANSFORM sales.daily PARTITIONED
  EXPECT amount > 0 AS positive OF shop.orders ELSE QUARANTINE,
         amount < 90 AS sane OF shop.orders ELSE DROP,
         land IN ('DE', 'FR') AS known OF shop.orders ELSE WARN,
         amount % 7 != 3 AS lucky OF shop.orders ELSE QUARANTINE,
         count(*) > 1 AS some OF shop.orders ELSE WARN, total < 60 AS few ELSE QUARANTINE
AS SELECT land, count(*) AS sales, sum(amount) AS total FROM shop.orders GROUP BY land;
"""
Row = tuple[int, int | None, str | None, int]


def some_orders(seed: int, days: Iterable[int], *, start: int = 0) -> list[Row]:
    """Return random orders: id, amount, land and day."""
    rng = random.Random(seed)
    found: list[Row] = []
    for at in days:
        for _ in range(rng.choice((1, 12, 20)) if at > 1 else 25):
            amount = rng.choice((None, -5, 0, *range(1, 100, 4)))
            found.append((start + len(found), amount, rng.choice(("DE", "FR", "IT", None)), at))
    return found


def put(tiny: Tiny, rows: Iterable[Row]) -> None:
    """Write rows into the shop's orders table."""
    as_text = [(id_, amount, land, f"2020-01-0{at} 10:00:00") for id_, amount, land, at in rows]
    tiny.source("orders", "id INTEGER, amount INTEGER, land TEXT, at TEXT", as_text)


def measures(tiny: Tiny, table: str) -> dict[str, dict[str, Any]]:
    """Return the measures of each label's newest revision."""
    with tiny.ledger() as ledger:
        audits = {label: ledger.past.audit(table, instant_of(label)) for label in tiny.done(table)}
        return {
            label: dict(audit.current.revision.measures)
            for label, audit in audits.items()
            if audit.current and audit.current.revision
        }


def quarantine(tiny: Tiny, table: str, tick: str | None = None) -> list[tuple[Any, ...]]:
    """Return label, input, broken rules and the id (or else the land) of each quarantined row."""
    sql = f"SELECT timelabel, input, row, broken, code FROM {table}_quarantine"
    with tiny.opened() as work:
        rows = query(work, sql, limit=10_000, as_of=RequestedTick(tick) if tick else None).rows
    told = []
    for label, of, text, broken, _ in rows:
        row = json.loads(text)
        told.append((label, of, tuple(broken), row.get("id", row["land"])))
    return sorted(told, key=str)


def is_positive(row: Row) -> bool:
    return row[1] is not None and row[1] > 0


def is_sane(row: Row) -> bool:
    return row[1] is not None and row[1] < 90


def is_known(row: Row) -> bool:
    return row[2] in {"DE", "FR"}


def is_lucky(row: Row) -> bool:
    return row[1] is not None and (row[1] % 7 if row[1] >= 0 else -(-row[1] % 7)) != 3


RULES = {"positive": is_positive, "sane": is_sane, "known": is_known, "lucky": is_lucky}
TAKES = {"positive": "quarantined", "sane": "dropped", "lucky": "quarantined"}


def expected(rows: Iterable[Row]) -> tuple[dict[str, Any], list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Compute the expected counts, quarantined rows and query result of one day's orders, in plain Python."""
    counts: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    first: Counter[str] = Counter()
    aside: list[tuple[Any, ...]] = []
    seen: list[Row] = []
    for row in rows:
        counts["in"] += 1
        broke = tuple(name for name, holds in RULES.items() if not holds(row))
        broken.update(broke)
        taken = next((name for name in broke if name in TAKES), None)
        if taken is None:
            seen.append(row)
            continue
        first[taken] += 1
        counts[TAKES[taken]] += 1
        if TAKES[taken] == "quarantined":
            aside.append((broke, row[0]))
    by_land: dict[str | None, list[int]] = {}
    for row in seen:
        by_land.setdefault(row[2], []).append(row[1] or 0)
    made: list[tuple[Any, ...]] = [(land, len(amounts), sum(amounts)) for land, amounts in by_land.items()]
    told: dict[str, Any] = {name: counts[name] for name in ("in", "quarantined", "dropped")}
    return told | {"broken": dict(broken), "first": dict(first)}, aside, made


def is_as_by_hand(tiny: Tiny, rows: Iterable[Row]) -> None:
    """Compare the tables, the quarantine and the measures with results computed in plain Python."""
    by_day: dict[int, list[Row]] = {}
    for row in rows:
        by_day.setdefault(row[3], []).append(row)
    told = measures(tiny, "sales.daily")
    shown: list[tuple[Any, ...]] = []
    aside: list[tuple[Any, ...]] = []
    for at, of_day in by_day.items():
        [label] = labels(at)
        counts, gone, made = expected(of_day)
        assert told[label]["input_rules"]["shop.orders"] == counts
        aside += [(label, "shop.orders", broke, id_) for broke, id_ in gone]
        many = [each for each in made if each[2] >= 60]
        aside += [(label, None, ("few",), land) for land, _, _ in many]
        assert (told[label]["in"], told[label]["quarantined"]) == (len(made), len(many))
        shown += [(label, *each) for each in made if each not in many]
        says = {said.partition(":")[0] for said in told[label]["warnings"]}
        assert ("some" in says) is (len(of_day) <= 1)
        assert "sane" not in says
        assert ("known" in says) is (counts["broken"].get("known", 0) > 0)
    assert quarantine(tiny, "sales.daily") == sorted(aside, key=str)
    found = tiny.rows("SELECT timelabel, land, sales, total FROM sales.daily")
    assert sorted(found, key=str) == sorted(shown, key=str)


def quality_is_as_by_hand(tiny: Tiny, rows: Iterable[Row]) -> None:
    """Compare the table's quality page with results computed in plain Python."""
    with open_read_only(tiny.root, None, None) as at:
        told = table_quality(at, at.flow.tables["sales.daily"])
    found = {rule["rule"]: (rule["rows"], rule["taken"], rule["takes"]) for rule in told["rules"]}
    by_day: dict[int, list[Row]] = {}
    for row in rows:
        by_day.setdefault(row[3], []).append(row)
    counted = [expected(of_day)[0] for of_day in by_day.values()]
    for name, fate in TAKES.items():
        broken, taken = (sum(of[what].get(name, 0) for of in counted) for what in ("broken", "first"))
        assert found[name] == (broken, taken, fate)
    aside = {each["label"]: each for each in told["aside"] if each["input"] == "shop.orders"}
    for day_, of in zip(by_day, counted, strict=True):
        each = aside.get(labels(day_)[0])
        assert (each is None) is (not of["quarantined"] and not of["dropped"])
        if each is not None:
            assert (each["came"], each["quarantined"], each["dropped"]) == (of["in"], of["quarantined"], of["dropped"])
            assert each["rows"] == of["in"] - of["quarantined"] - of["dropped"]


@pytest.mark.parametrize(
    "together",
    [pytest.param(True, id="in one job"), pytest.param(False, id="one by one", marks=pytest.mark.soak)],
)
def test_input_rows_are_quarantined_dropped_or_reported_before_the_query_reads_them(
    tmp_path: Path, spark: SparkSession, together: bool
) -> None:
    tiny = Tiny(tmp_path, spark)
    rows = some_orders(7 + together, (1, 2, 3))
    put(tiny, rows)
    tiny.declare(ORDERS + DAILY)
    for now in [day(4)] if together else [day(2), day(3), day(4)]:
        outcome = tiny.run(now)
        assert not outcome.failed, described(outcome)
    is_as_by_hand(tiny, rows)
    quality_is_as_by_hand(tiny, rows)
    # after a restatement, the rules are checked again
    changed = [*(row for row in rows if row[3] != 2), *some_orders(3, (2,), start=500)]
    put(tiny, changed)
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("shop.orders", [day(2)], "recollect", who="ann")
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    is_as_by_hand(tiny, changed)
    with tiny.opened() as work:
        left = [
            leaf.path for leaf in list_slice_folders(work.folder(work.flow.tables["sales.daily"])) if leaf.label is None
        ]
    assert not left


FEW: list[Row] = [(1, 5, "DE", 1), (2, -1, "DE", 1), (3, 7, "FR", 2), (4, None, "FR", 2), (5, 8, "DE", 2)]


def test_a_fixed_rule_is_replayed_for_labels_with_quarantined_input_rows(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    put(tiny, [*FEW, (6, 9, "DE", 3)])
    flow = """TRANSFORM sales.daily PARTITIONED EXPECT {rule} AS good OF shop.orders ELSE QUARANTINE
      AS SELECT sum(amount) AS total FROM shop.orders;"""
    tiny.declare(ORDERS + flow.format(rule="amount > 0"))
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    first, second, _ = labels(1, 2, 3)
    aside = [(first, "shop.orders", ("good",), 2), (second, "shop.orders", ("good",), 4)]
    assert quarantine(tiny, "sales.daily") == aside
    assert replayed(tiny, "sales.daily") == []
    tiny.declare(ORDERS + flow.format(rule="amount != 0"))
    assert not tiny.run(day(4)).failed  # changed rules alone cause no recomputation
    assert quarantine(tiny, "sales.daily") == aside
    assert replayed(tiny, "sales.daily") == [first, second]
    assert not tiny.run(day(4)).failed
    assert quarantine(tiny, "sales.daily") == aside[1:]
    assert tiny.rows("SELECT total FROM sales.daily ORDER BY timelabel") == [(4,), (15,), (9,)]
    assert quarantine(tiny, "sales.daily", "2020-01-02") == []  # as of a tick: with the knowledge at that time
    assert tiny.rows("SELECT DISTINCT input FROM sales.daily_quarantine") == [("shop.orders",)]


def test_a_batch_with_unexpected_input_rows_is_held_until_released_or_fails(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    put(tiny, FEW)
    tiny.declare(
        ORDERS
        + """TRANSFORM sales.daily PARTITIONED EXPECT amount > 0 AS good OF shop.orders
      ELSE QUARANTINE AT MOST 40 PERCENT ELSE HOLD, count(DISTINCT id) > 1 OF shop.orders ELSE HOLD
      AS SELECT sum(amount) AS total FROM shop.orders;
    TRANSFORM sales.strict PARTITIONED EXPECT amount IS NOT NULL AS there OF shop.orders, amount > 0 AS good
      OF shop.orders ELSE QUARANTINE AS SELECT count(*) AS orders FROM shop.orders;"""
    )
    outcome = tiny.run(day(4))
    said = {report.group.table: report.error for report in outcome.failed if report.error}
    held = {key: status for key, status in tiny.batches().items() if status != "done"}
    first, second, third = labels(1, 2, 3)
    assert held == {
        ("sales.daily", first): "held",
        ("sales.daily", third): "held",
        ("sales.strict", second): "failed",
    }, described(outcome)
    assert said["sales.strict"].code == "E740"
    assert "there: 1 of 3 rows of shop.orders violate (amount IS NOT NULL)" in said["sales.strict"].what
    assert tiny.rows("SELECT total FROM sales.daily") == [(15,)]
    assert tiny.rows("SELECT orders FROM sales.strict ORDER BY timelabel") == [(1,), (0,)]
    assert quarantine(tiny, "sales.daily") == [(second, "shop.orders", ("good",), 4)]
    rows = tiny.rows("SELECT timelabel, total, _row IS NULL FROM sales.daily_held")
    assert sorted(rows, key=str) == [(first, 5, True), (first, None, False), (third, None, True)]
    assert release_batches(tmp_path, None, f"sales.daily@{first}", "known returns", None, yes=True, is_json=False) == 0
    assert tiny.rows("SELECT total FROM sales.daily ORDER BY timelabel") == [(5,), (15,)]
    assert quarantine(tiny, "sales.daily")[0] == (first, "shop.orders", ("good",), 2)
    measured = measures(tiny, "sales.daily")[first]
    assert measured["input_rules"]["shop.orders"]["broken"] == {"good": 1}
    assert "good: 1 of 2 rows of shop.orders violate (amount > 0), beyond quarantine at most 40 percent" in [
        *measured["warnings"]
    ]
    with tiny.opened() as work:
        left = [
            leaf
            for leaf in list_slice_folders(work.folder(work.flow.tables["sales.strict"]))
            if "inputs_aside" in leaf.path
        ]
    assert not left


def test_input_rules_apply_to_every_way_of_reading_a_table(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    put(tiny, FEW)
    (tmp_path / "flows" / "code.py").write_text("""
import waterclock as wc

@wc.transform("sales.by_code", partitioned=True, expect=["amount > 0 AS good OF shop.orders ELSE QUARANTINE"])
def by_code(orders=wc.table("shop.orders")):
    return orders.groupBy().count()
""")
    tiny.declare(
        ORDERS
        + """
    CREATE VIEW shop.germans AS SELECT * FROM shop.orders WHERE land = 'DE';
    TRANSFORM shop.state (land KEY, *) MERGE AS SELECT land, max(amount) AS amount FROM shop.orders GROUP BY land;
    TRANSFORM sales.twice PARTITIONED EXPECT amount > 0 AS good OF shop.orders ELSE DROP
    AS SELECT count(*) AS pairs FROM shop.orders a JOIN shop.orders b ON a.land = b.land;
    TRANSFORM sales.first PARTITIONED EXPECT amount > 0 AS good OF shop.orders ELSE WARN
    AS SELECT id FROM shop.orders LIMIT 1;
    TRANSFORM sales.viewed PARTITIONED EXPECT amount > 0 AS good OF shop.orders ELSE QUARANTINE
    AS SELECT count(*) AS germans FROM shop.germans;
    TRANSFORM sales.past PARTITIONED EVERY DAY EXPECT amount > 0 AS good OF shop.orders ELSE DROP
    AS SELECT (SELECT count(*) FROM shop.orders) AS now, count(*) AS before FROM PAST(shop.orders, '2 days');
    TRANSFORM sales.states EXPECT amount > 7 AS good OF shop.state ELSE QUARANTINE AS SELECT land FROM shop.state;
    """
    )
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    first, second = labels(1, 2)
    door = {
        name: {label: found["input_rules"] for label, found in measures(tiny, f"sales.{name}").items()}
        for name in ("twice", "first", "viewed", "past", "states", "by_code")
    }
    assert tiny.rows("SELECT pairs FROM sales.twice ORDER BY timelabel") == [(1,), (2,)]
    for name in ("twice", "first", "viewed", "past", "by_code"):
        of = door[name]
        assert [of[label]["shop.orders"]["in"] for label in (first, second)] == [2, 3], name
        assert [of[label]["shop.orders"]["broken"] for label in (first, second)] == [{"good": 1}, {"good": 1}], name
    assert tiny.rows("SELECT germans FROM sales.viewed ORDER BY timelabel") == [(1,), (1,)]
    assert tiny.rows("SELECT now, before FROM sales.past ORDER BY timelabel") == [(1, 2), (2, 5)]
    assert tiny.rows("SELECT `count` FROM sales.by_code ORDER BY timelabel") == [(1,), (2,)]
    assert door["states"][second]["shop.state"] == {
        "in": 2,
        "quarantined": 1,
        "dropped": 0,
        "broken": {"good": 1},
        "first": {"good": 1},
    }
    assert tiny.rows("SELECT land FROM sales.states") == [("DE",)]


def test_a_failing_input_rule_is_found_before_the_python_function_is_called(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    put(tiny, FEW[:1])
    (tmp_path / "flows" / "code.py").write_text("""
import waterclock as wc

@wc.transform("sales.doubled", partitioned=True, expect=["amount IS NOT NULL AS there OF shop.orders"])
def doubled(orders=wc.table("shop.orders")):
    assert all(row.amount * 2 for row in orders.collect())
    return orders
""")
    tiny.declare(ORDERS)
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    put(tiny, FEW)
    [report] = tiny.run(day(3)).failed
    assert report.error is not None
    assert report.error.code == "E740", report.error.render()


def jobs_of_a_batch(tmp_path: Path, spark: SparkSession, said: str) -> int:
    tiny = Tiny(tmp_path, spark)
    put(tiny, FEW)
    tiny.declare(f"{ORDERS}TRANSFORM sales.daily PARTITIONED {said} AS SELECT id FROM shop.orders WHERE id > 0;")
    assert not tiny.run(day(2)).failed
    tiny.shop("UPDATE orders SET at = '2020-01-02 10:00:00'")
    before = int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())
    assert not (outcome := tiny.run(day(3))).failed, described(outcome)
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()) - before


def test_quarantining_input_rules_add_one_spark_job_and_warning_ones_add_two(
    tmp_path: Path, spark: SparkSession
) -> None:
    asked = {
        "bare": "",
        "told": "EXPECT amount > 0 OF shop.orders ELSE WARN, count(*) > 0 OF shop.orders, id < 9 OF shop.orders",
        "aside": "EXPECT amount > 0 AS good OF shop.orders ELSE QUARANTINE, id < 9 OF shop.orders ELSE WARN",
    }
    found = {name: jobs_of_a_batch(tmp_path / name, spark, said) for name, said in asked.items()}
    assert found["aside"] - found["bare"] == 1
    assert found["told"] - found["bare"] == 2  # one job before its shuffle, one after it


@pytest.mark.parametrize("otherwise", ["WARN", "QUARANTINE"])
def test_input_rules_of_all_labels_of_a_group_are_checked_in_one_scan(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, otherwise: str
) -> None:
    tiny, scans = Tiny(tmp_path, spark), list[int]()
    put(tiny, [(at, at - 3, "DE", at) for at in range(1, 7)])
    tiny.source("lands", "land TEXT", [("DE",), ("FR",)])

    def noted(of: Callable[..., Any]) -> Callable[..., Any]:
        def note(rows: Any, *more: Any) -> Any:
            scans.append(rows._jdf.queryExecution().optimizedPlan().collectLeaves().size())
            return of(rows, *more)

        return note

    for name in ("count_input_rows", "quarantine_input_rows"):
        monkeypatch.setattr(input_rules, name, noted(getattr(input_rules, name)))
    tiny.declare(
        f"""{ORDERS}
    COLLECT shop.lands (land STRING) FROM shop.lands EVERY DAY;
    TRANSFORM sales.daily PARTITIONED EXPECT amount > 0 AS good OF shop.orders ELSE {otherwise},
      land = 'DE' AS home OF shop.lands ELSE {otherwise}
    AS SELECT o.id FROM shop.orders o JOIN shop.lands l ON l.land = o.land;
    """
    )
    assert not (outcome := tiny.run(day(7))).failed, described(outcome)
    told = measures(tiny, "sales.daily")
    broken = [told[label]["input_rules"]["shop.orders"]["broken"] for label in labels(*range(1, 7))]
    assert broken == [{"good": 1}] * 3 + [{}] * 3
    assert {str(each["input_rules"]["shop.lands"]["broken"]) for each in told.values()} == {"{'home': 1}"}
    if otherwise == "QUARANTINE":
        assert len(quarantine(tiny, "sales.daily")) == 3 + 6
    assert scans == [2, 1], "the slices with the reading table, and the shared input"


def test_input_rules_affect_no_other_reader_of_a_shared_view_and_no_other_query(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    put(tiny, FEW)
    tiny.declare(
        ORDERS
        + """
    CREATE VIEW shop.known SHARED AS SELECT id, amount, land FROM shop.orders WHERE id > 0;
    TRANSFORM sales.asked PARTITIONED EXPECT amount > 0 AS good OF shop.orders ELSE QUARANTINE
    AS SELECT id FROM shop.known;
    TRANSFORM sales.plain PARTITIONED AS SELECT id FROM shop.known;
    TRANSFORM sales.chosen PARTITIONED EVERY DAY EXPECT amount > 0 AS good OF shop.orders ELSE DROP
      WHEN WINDOW_START() < '2020-01-02' AS SELECT count(*) AS ids FROM sales.plain
      ELSE AS SELECT count(*) AS ids FROM shop.orders;
    """
    )
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    first, second = labels(1, 2)
    assert tiny.rows("SELECT id FROM sales.asked ORDER BY id") == [(1,), (3,), (5,)]
    assert tiny.rows("SELECT id FROM sales.plain ORDER BY id") == [(1,), (2,), (3,), (4,), (5,)]
    assert quarantine(tiny, "sales.asked") == [
        (first, "shop.orders", ("good",), 2),
        (second, "shop.orders", ("good",), 4),
    ]
    assert tiny.rows("SELECT ids FROM sales.chosen ORDER BY timelabel") == [(2,), (2,)]
    told = measures(tiny, "sales.chosen")
    assert "input_rules" not in told[first]
    assert told[second]["input_rules"]["shop.orders"]["dropped"] == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", ["claimed", "make", "written", "sealed", "audited", "committed"])
def test_a_batch_that_stops_anywhere_sets_each_row_aside_once(tmp_path: Path, spark: SparkSession, point: str) -> None:
    tiny = Tiny(tmp_path, spark)
    rows = some_orders(11, (1, 2))
    put(tiny, rows)
    tiny.declare(ORDERS + DAILY)
    assert not tiny.run(day(2)).failed
    struck: list[str] = []

    def stop(at: str) -> None:
        if at == point and tiny.done("shop.orders") == labels(1, 2) and not struck:
            struck.append(at)
            raise OSError("its machine was lost")

    with inject_faults(stop):
        tiny.run(day(3))
    assert struck == [point]
    if tiny.batches()["sales.daily", labels(2)[0]] == "failed":
        with tiny.ledger() as ledger:
            ledger.decisions.retry("sales.daily", [day(2)], who="ann")
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    is_as_by_hand(tiny, rows)


def test_a_rule_without_a_result_is_reported_with_its_position(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    put(tiny, [(1, 0, "DE", 1)])
    tiny.declare(f"""{ORDERS.replace("land STRING, at TIMESTAMP", "at TIMESTAMP, *")}
TRANSFORM sales.a PARTITIONED EXPECT 10 / amount > 1 AS inverse OF shop.orders ELSE DROP
AS SELECT 1 AS one FROM shop.orders;
TRANSFORM sales.b PARTITIONED EXPECT amuont > 1 OF shop.orders ELSE QUARANTINE AS SELECT 1 AS one FROM shop.orders;
""")
    said = {report.group.table: report.error for report in tiny.run(day(2)).failed if report.error}
    assert said["sales.a"].code == "E757"
    assert str(said["sales.a"].where).startswith("flows/flow.dpl:8:")
    assert "10 / amount" in said["sales.a"].what
    told = said["sales.b"].render()
    assert "amuont" in told, told


def test_a_row_that_is_set_aside_has_all_its_columns_whatever_their_names(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("orders", "id INTEGER, ok INTEGER, wc_read_by INTEGER", [(1, 1, 10), (2, 0, 20)])
    tiny.declare("""
    COLLECT shop.orders (id BIGINT, ok BOOLEAN NOT NULL, *) FROM shop.orders EVERY DAY EXPECT ok ELSE WARN;
    TRANSFORM sales.orders (ok BOOLEAN NOT NULL, *) EXPECT id > 0 OF shop.orders ELSE WARN,
      id < 2 AS first OF shop.orders ELSE QUARANTINE, ok ELSE QUARANTINE AS SELECT * FROM shop.orders;
    TRANSFORM sales.fine (ok BOOLEAN NOT NULL, *) EXPECT ok ELSE QUARANTINE AS SELECT * FROM shop.orders;
    """)
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    [(row, broken)] = tiny.rows("SELECT row, broken FROM sales.orders_quarantine")
    assert (json.loads(row)["wc_read_by"], broken) == (20, ["first"])
    # NOT NULL of ok is not broken, although the rule with this name is
    assert tiny.rows("SELECT broken FROM sales.fine_quarantine") == [(["ok"],)]
    assert tiny.rows("SELECT id FROM sales.fine") == [(1,)]
