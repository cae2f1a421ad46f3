"""Done labels are made again, from the stage or from the source, with exactly the labels that depend on them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described, evening, labels

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ORDERS = "id INTEGER, amount INTEGER, at TEXT"
FLOW = """
COLLECT shop.orders PARTITIONED (id BIGINT KEY, amount BIGINT, at TIMESTAMP) FROM shop.orders
  EVERY DAY BY DATA TIME at;
TRANSFORM sales.revenue PARTITIONED AS SELECT sum(amount) AS revenue FROM shop.orders;
TRANSFORM sales.is_large PARTITIONED AS SELECT revenue > 100 AS is_large FROM sales.revenue;
"""
VISITS = """
COLLECT web.visits PARTITIONED (page, *) FROM land.acme.visits EVERY DAY BY ARRIVAL TIME;
TRANSFORM web.pages PARTITIONED AS SELECT count(DISTINCT page) AS pages FROM web.visits;
"""


@pytest.fixture
def tiny(tmp_path: Path, spark: SparkSession) -> Tiny:
    return Tiny(tmp_path, spark)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Tiny:
    """Return a project with three days that ran; tests never change it."""
    tiny = Tiny(tmp_path_factory.mktemp("three_days"), spark)
    tiny.source("orders", ORDERS, [(n, n * 10, f"2020-01-0{n} 12:00:00") for n in (1, 2, 3)])
    tiny.declare(FLOW)
    assert tiny.run(day(4)).done == 9
    return tiny


@pytest.fixture
def three_days(made: Tiny, tmp_path: Path) -> Tiny:
    return made.copied(tmp_path / "three_days")


def ask(tiny: Tiny, table: str, verb: str, *days: int) -> None:
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate(table, [day(number) for number in days], verb, who="ann")


def revisions(tiny: Tiny) -> dict[str, int]:
    return {name: tiny.runs_of(name) for name in ("shop.orders", "sales.revenue", "sales.is_large")}


def test_recollect_reads_the_source_again_and_stops_at_unchanged_batches(three_days: Tiny) -> None:
    three_days.shop("UPDATE orders SET amount = 25 WHERE id = 2")
    ask(three_days, "shop.orders", "recollect", 1, 2)
    outcome = three_days.run(day(4))
    assert not outcome.failed, described(outcome)
    # day 1 is equal, so its readers are not made again; day 2 changes the revenue, which is never large
    assert outcome.done == 4
    assert three_days.rows("SELECT timelabel, revenue FROM sales.revenue ORDER BY 1") == [
        (label, revenue) for label, revenue in zip(labels(1, 2, 3), (10, 25, 30), strict=True)
    ]
    assert three_days.run(day(4)).done == 0


def test_recompute_of_a_collect_keeps_the_collected_rows(three_days: Tiny) -> None:
    three_days.shop("UPDATE orders SET amount = 25 WHERE id = 2")
    before = three_days.digests()
    ask(three_days, "shop.orders", "recompute", 2)
    outcome = three_days.run(day(4))
    assert not outcome.failed, described(outcome)
    assert outcome.done == 1
    assert three_days.digests() == before


def test_recompute_reads_archived_files_with_the_currently_declared_columns(tiny: Tiny) -> None:
    for number in (1, 2):
        tiny.land("visits", evening(number), f"page,visitor\nhome,{number}\nnews,{number}\n")
    tiny.declare(VISITS.replace("(page, *)", "(page)"))
    assert tiny.run(day(3)).done == 4
    tiny.declare(VISITS)
    ask(tiny, "web.visits", "recompute", 1)
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT timelabel, page, visitor FROM web.visits ORDER BY 1, 2") == [
        (labels(1)[0], "home", "1"),
        (labels(1)[0], "news", "1"),
        (labels(2)[0], "home", None),
        (labels(2)[0], "news", None),
    ]


def test_a_missing_archived_file_is_named_and_the_label_keeps_its_rows(tiny: Tiny) -> None:
    tiny.land("visits", evening(1), "page,visitor\nhome,1\n")
    tiny.declare(VISITS)
    assert tiny.run(day(2)).done == 2
    [archived] = [path for path in tiny.root.rglob("acme_visits_*") if path.is_file()]
    archived.rename(tiny.root / "elsewhere.csv.gz")
    ask(tiny, "web.visits", "recompute", 1)
    outcome = tiny.run(day(2))
    assert "E823" in described(outcome)
    assert "acme_visits_2020_01_01_23_59_59.csv.gz is gone" in described(outcome)
    assert tiny.rows("SELECT page, visitor FROM web.visits") == [("home", "1")]


def test_an_archived_item_that_was_cut_off_is_named_and_the_label_keeps_its_rows(tiny: Tiny) -> None:
    folder = tiny.land("visits", evening(1), "page,visitor\n").parent
    (folder / "acme_visits_2020_01_01_12_00_00.csv").write_text("page,visitor\nhome,1\nnews,1\n")
    tiny.declare(VISITS)
    assert tiny.run(day(2)).done == 2
    [archived] = [path for path in tiny.root.rglob("acme_visits_*.csv") if path.is_file()]
    archived.write_text("page,visitor\nhome,1\n")
    ask(tiny, "web.visits", "recompute", 1)
    outcome = tiny.run(day(2))
    assert "E823" in described(outcome)
    assert "acme_visits_2020_01_01_12_00_00.csv is not as it was collected" in described(outcome)
    assert "has 20 bytes; it had 27" in described(outcome)
    assert tiny.rows("SELECT page, visitor FROM web.visits ORDER BY 1") == [("home", "1"), ("news", "1")]


def test_recompute_of_a_transform_remakes_only_readers_of_changed_labels(three_days: Tiny) -> None:
    three_days.declare(FLOW.replace("sum(amount) AS", "sum(amount) * 10 AS"))
    ask(three_days, "sales.revenue", "recompute", 2, 3)
    outcome = three_days.run(day(4))
    assert not outcome.failed, described(outcome)
    assert outcome.done == 4
    assert three_days.rows("SELECT timelabel, is_large FROM sales.is_large ORDER BY 1") == [
        (label, is_large) for label, is_large in zip(labels(1, 2, 3), (False, True, True), strict=True)
    ]


def test_audit_lists_both_revisions_of_a_restated_label_and_both_slices_remain(three_days: Tiny) -> None:
    three_days.shop("UPDATE orders SET amount = 25 WHERE id = 2")
    ask(three_days, "shop.orders", "recollect", 2)
    three_days.run(day(4))
    with three_days.ledger() as ledger:
        first, second = [attempt.revision for attempt in ledger.past.audit("shop.orders", day(2)).attempts]
    assert first is not None
    assert second is not None
    folder = three_days.root / ".waterclock" / "tables" / "shop" / "orders"
    assert (folder / first.slice_path).is_dir()
    assert (folder / second.slice_path).is_dir()
    assert first.digest != second.digest


def test_on_restate_report_leaves_stale_batches_until_they_are_requested(three_days: Tiny) -> None:
    three_days.declare(FLOW.replace("sales.revenue PARTITIONED AS", "sales.revenue PARTITIONED ON RESTATE REPORT AS"))
    three_days.shop("UPDATE orders SET amount = 250 WHERE id = 2")
    ask(three_days, "shop.orders", "recollect", 2)
    outcome = three_days.run(day(4))
    assert outcome.done == 1
    assert outcome.plan is not None
    assert outcome.plan.reported == {"sales.revenue": (day(2),)}
    ask(three_days, "sales.revenue", "recompute", 2)
    outcome = three_days.run(day(4))
    assert outcome.done == 2
    assert outcome.plan is not None
    assert outcome.plan.reported == {}
    assert three_days.rows(f"SELECT is_large FROM sales.is_large WHERE timelabel = '{labels(2)[0]}'") == [(True,)]


LIMITED = FLOW.replace(
    "sales.revenue PARTITIONED AS", "sales.revenue PARTITIONED ON RESTATE RECOMPUTE AT MOST 1 LABEL ELSE HOLD AS"
)


def test_a_restatement_beyond_its_limit_waits_for_a_release_and_new_windows_do_not(three_days: Tiny) -> None:
    three_days.declare(LIMITED)
    three_days.shop("UPDATE orders SET amount = 250 WHERE id < 3")
    three_days.shop("INSERT INTO orders VALUES (4, 40, '2020-01-04 12:00:00')")
    ask(three_days, "shop.orders", "recollect", 1, 2)
    outcome = three_days.run(day(5))
    assert outcome.done == 2 + 3  # the orders of two days, and the fourth day of all tables
    assert outcome.plan is not None
    assert outcome.plan.held_restatements["sales.revenue"].labels == {day(1), day(2)}
    assert not outcome.is_clean
    before = three_days.rows("SELECT timelabel, revenue FROM sales.revenue ORDER BY 1")
    assert before == [(label, revenue) for label, revenue in zip(labels(1, 2, 3, 4), (10, 20, 30, 40), strict=True)]
    assert three_days.run(day(5)).done == 0
    ask(three_days, "sales.revenue", "follow", 1, 2)
    outcome = three_days.run(day(5))
    assert outcome.done == 4, described(outcome)
    assert outcome.is_clean
    assert [revenue for (revenue,) in three_days.rows("SELECT revenue FROM sales.revenue ORDER BY timelabel")] == [
        250, 250, 30, 40
    ]  # fmt: skip


def test_a_restatement_within_its_limit_once_equal_labels_are_known_runs_by_itself(three_days: Tiny) -> None:
    three_days.declare(LIMITED)
    three_days.shop("UPDATE orders SET amount = 250 WHERE id = 2")
    ask(three_days, "shop.orders", "recollect", 1, 2, 3)
    outcome = three_days.run(day(4))
    assert outcome.done == 5, described(outcome)
    assert outcome.plan is not None
    assert outcome.plan.held_restatements == {}


def test_a_run_with_a_limit_makes_no_label_again_beyond_it(three_days: Tiny) -> None:
    three_days.shop("UPDATE orders SET amount = 250 WHERE id < 3")
    three_days.shop("INSERT INTO orders VALUES (4, 40, '2020-01-04 12:00:00')")
    ask(three_days, "shop.orders", "recollect", 1, 2)
    held = three_days.run(day(5), at_most=3)
    assert held.done == 5, described(held)
    assert held.plan is not None
    assert {name: it.total for name, it in held.plan.held_restatements.items()} == {
        "sales.revenue": 4, "sales.is_large": 4
    }  # fmt: skip
    assert three_days.run(day(5), at_most=4).done == 4


PUBLISHED = (
    FLOW
    + """
TRANSFORM sales.total (one BIGINT KEY, total BIGINT) AS SELECT 1 AS one, sum(amount) AS total FROM HISTORY(shop.orders);
TRANSFORM sales.largest (parity BIGINT KEY, amount BIGINT) MERGE
AS SELECT id % 2 AS parity, max(amount) AS amount FROM shop.orders GROUP BY id % 2;
PUBLISH sales.revenue TO out.revenue;
PUBLISH sales.revenue TO files.revenue OPTIONS (format 'csv');
PUBLISH sales.total TO out.total;
PUBLISH sales.largest TO out.largest MERGE;
"""
)


def test_a_restatement_is_published_under_its_label_or_as_the_newest_regular_state(tiny: Tiny) -> None:
    tiny.source("orders", ORDERS, [(n, n * 10, f"2020-01-0{n} 12:00:00") for n in (1, 2, 3)])
    tiny.declare(PUBLISHED)
    assert not tiny.run(day(2), day(4)).failed
    deliveries = "SELECT count(DISTINCT claim), count(DISTINCT label) FROM waterclock_deliveries WHERE publish = ?"
    assert tiny.delivered(deliveries.replace("?", "'out.revenue'")) == [(3, 3)]
    tiny.shop("UPDATE orders SET amount = 500 WHERE id = 2")
    ask(tiny, "shop.orders", "recollect", 2)
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    assert tiny.delivered("SELECT timelabel, revenue FROM revenue ORDER BY 1") == [
        (label, revenue) for label, revenue in zip(labels(1, 2, 3), (10, 500, 30), strict=True)
    ], "the old label's rows are replaced, and no newer one's"
    assert tiny.delivered("SELECT total FROM total") == [(540,)], "the newest state, not that of the old label"
    assert tiny.delivered("SELECT parity, amount FROM largest ORDER BY 1") == [(0, 500), (1, 30)]
    [old] = [path for path in (tiny.root / "files").rglob("*.csv") if labels(2)[0] in path.name]
    assert "500" in old.read_text()
    assert tiny.delivered(deliveries.replace("?", "'out.revenue'")) == [(4, 3)], (
        "one delivery more, of a claim of its own"
    )
    assert tiny.run(day(4)).done == 0


def test_a_restatement_that_changes_nothing_is_not_delivered_again(tiny: Tiny) -> None:
    tiny.source("orders", ORDERS, [(n, n * 10, f"2020-01-0{n} 12:00:00") for n in (1, 2, 3)])
    tiny.declare(PUBLISHED)
    assert not tiny.run(day(4)).failed
    before = tiny.delivered("SELECT claim, label FROM waterclock_deliveries ORDER BY 1, 2")
    ask(tiny, "shop.orders", "recollect", 1, 2)
    assert not tiny.run(day(4)).failed
    assert tiny.delivered("SELECT claim, label FROM waterclock_deliveries ORDER BY 1, 2") == before
