"""A revert in the engine: an earlier sealed slice becomes the newest revision of its label, and readers follow."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import Tiny, day, described
from waterclock.batches.earlier_revisions import TAKEN_BACK, EarlierRevision
from waterclock.cli.actions.revert import commit_reverts
from waterclock.engine.batch.reverting import RevertedLabel
from waterclock.engine.run_opening import apply_flow
from waterclock.errors import WaterclockError
from waterclock.operations.project_opening import open_read_only
from waterclock.operations.reverting import RevertPlan, RevertRequest, plan_revert
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT shop.orders PARTITIONED (id BIGINT KEY, amount BIGINT, at TIMESTAMP) FROM shop.orders EVERY DAY BY DATA TIME at
  EXPECT amount < 1000 AS small ELSE QUARANTINE, count(*) < 6 AS few ELSE HOLD;
COLLECT shop.customers (customer KEY, name, gone BIGINT, at TIMESTAMP) FROM shop.customers
  EVERY DAY BY DATA TIME at MERGE ORDER BY at DELETE WHEN gone = 1;
COLLECT shop.versions (customer KEY, name, gone BIGINT, at TIMESTAMP) FROM shop.customers
  EVERY DAY BY DATA TIME at TEMPORAL AT at DELETE WHEN gone = 1;
COLLECT shop.prices (item KEY, price BIGINT) FROM shop.prices EVERY DAY;
TRANSFORM clean.orders PARTITIONED (id KEY, *) AS SELECT id, amount FROM shop.orders;
TRANSFORM marts.total (amount BIGINT, days BIGINT)
  AS SELECT t.amount + p.amount AS amount, p.days + 1 AS days
  FROM (SELECT coalesce(sum(amount), 0) AS amount FROM clean.orders) t
  CROSS JOIN (SELECT coalesce(max(amount), 0) AS amount, coalesce(max(days), 0) AS days FROM PREVIOUS(marts.total)) p;
TRANSFORM marts.named (name KEY, *) MERGE ORDER BY customers
  AS SELECT name, count(*) AS customers FROM shop.customers GROUP BY name;
PUBLISH clean.orders TO out.orders;
"""
TABLES = ("shop.orders", "shop.customers", "shop.versions", "shop.prices", "clean.orders", "marts.total", "marts.named")
ORDERS = [(n, n + 1, f"2020-01-{1 + n // 3:02d} {8 + n % 3:02d}:00:00") for n in range(12)]
OTHER = [(n, 100 if n == 4 else 5000 if n == 7 else amount, at) for n, amount, at in ORDERS]
CUSTOMERS = [
    ("c1", "ann", 0, "2020-01-01 09:00:00"),
    ("c2", "bob", 0, "2020-01-01 10:00:00"),
    ("c1", "anna", 0, "2020-01-02 09:00:00"),
    ("c2", "bob", 1, "2020-01-03 09:00:00"),
    ("c3", "cid", 0, "2020-01-04 10:00:00"),
]
OTHER_CUSTOMERS = [
    ("c1", "ANNA", 1, at) if name == "anna" else (it, name, gone, at) for it, name, gone, at in CUSTOMERS
]
LAST = day(5)


def start(root: Path, spark: SparkSession) -> Tiny:
    tiny = Tiny(root, spark)
    fill(tiny, ORDERS, CUSTOMERS)
    tiny.source("prices", "item TEXT, price INTEGER", [("pen", 3)])
    tiny.declare(FLOW)
    for number in range(2, 6):
        run(tiny, number)
    return tiny


def fill(tiny: Tiny, orders: Sequence[tuple[Any, ...]], customers: Sequence[tuple[Any, ...]]) -> None:
    tiny.source("orders", "id INTEGER, amount INTEGER, at TEXT", orders)
    tiny.source("customers", "customer TEXT, name TEXT, gone INTEGER, at TEXT", customers)


def run(tiny: Tiny, number: int = 5) -> Any:
    outcome = tiny.run(day(number))
    assert not outcome.failed, described(outcome)
    return outcome


def recollect(tiny: Tiny, table: str, *numbers: int) -> None:
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate(table, [day(number) for number in numbers], "recollect", who="a test")
    run(tiny)


def revisions(tiny: Tiny, table: str, number: int) -> tuple[EarlierRevision, ...]:
    with tiny.ledger() as ledger:
        return ledger.reads.earlier_revisions(table, [day(number)])[day(number)]


def at(revision: EarlierRevision) -> str:
    return f"{revision.recorded_at:%Y-%m-%dT%H:%M:%S.%fZ}"


def plan(tiny: Tiny, which: str, to: int | str | None = None, known_at: str | None = None) -> RevertPlan:
    with open_read_only(tiny.root, None, "2020-01-05") as opened:
        return plan_revert(opened, RevertRequest(which, to, known_at))


def revert(tiny: Tiny, which: str, to: int | str | None = None, known_at: str | None = None) -> RevertPlan:
    found = plan(tiny, which, to, known_at)
    with tiny.opened() as work:
        commit_reverts(work, found, "it was right", LAST)
    return found


def taken_back(tiny: Tiny, table: str, number: int) -> int | None:
    """Return the revision that a label's current one restores, or None if it was computed."""
    found = revisions(tiny, table, number)[-1].measures.get(TAKEN_BACK)
    return None if found is None else found["revision"]


def state(tiny: Tiny) -> dict[str, Any]:
    seen: dict[str, Any] = {table: sorted(tiny.rows(f"SELECT * FROM {table}"), key=repr) for table in TABLES}
    seen["aside"] = sorted(tiny.rows("SELECT timelabel, row FROM shop.orders_quarantine"), key=repr)
    seen["out.orders"] = sorted(tiny.delivered("SELECT * FROM orders"), key=repr)
    return seen | {"digests": dict(tiny.digests()), "open claims": tiny.open_claims()}


@dataclass
class Jobs:
    count: int = 0


@contextmanager
def counted_jobs(spark: SparkSession) -> Iterator[Jobs]:
    """Count the Spark jobs that are started within the block, in any session."""
    tracker = spark.sparkContext._jsc.sc().statusStore()
    jobs, before = Jobs(), tracker.jobsList(None).size()
    yield jobs
    jobs.count = tracker.jobsList(None).size() - before


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Tiny:
    """Return four days of all tables; tests copy it and never change it."""
    return start(tmp_path_factory.mktemp("done"), spark)


def test_a_reverted_label_and_all_that_reads_it_are_as_before_it_was_restated(done: Tiny, tmp_path: Path) -> None:
    tiny = done.copied(tmp_path / "tiny")
    before = state(tiny)
    fill(tiny, OTHER, OTHER_CUSTOMERS)
    recollect(tiny, "shop.orders", 2, 3)
    restated = state(tiny)
    assert restated["shop.orders"] != before["shop.orders"]
    assert restated["aside"] != before["aside"] == []
    first = revisions(tiny, "shop.orders", 3)[0]
    with counted_jobs(tiny.spark) as jobs:
        found = revert(tiny, "shop.orders@2020-01-02..2020-01-03", known_at=at(first))
    assert jobs.count == 0
    assert [each.label for each in found.changes] == [day(2), day(3)]
    assert found.predicted.adopted == {"clean.orders": (day(2), day(3)), "marts.total": (day(2), day(3), day(4))}
    assert found.predicted.computed == {"out.orders": (day(2), day(3))}
    with counted_jobs(tiny.spark) as jobs:
        outcome = tiny.run(LAST, only=["clean.orders", "marts.total"])
    assert not outcome.failed, described(outcome)
    assert (outcome.done, jobs.count) == (5, 0)
    assert taken_back(tiny, "clean.orders", 2) == revisions(tiny, "clean.orders", 2)[0].claim
    assert taken_back(tiny, "marts.total", 4) == revisions(tiny, "marts.total", 4)[0].claim
    run(tiny)
    assert state(tiny) == before
    assert run(tiny).done == 0

    # a revert is reverted by the same command
    again = revisions(tiny, "shop.orders", 3)
    assert [each.is_current for each in again] == [False, False, True]
    revert(tiny, "shop.orders@2020-01-02..2020-01-03", to=again[1].claim)
    run(tiny)
    assert state(tiny) == restated


@pytest.mark.parametrize("table", ["shop.customers", "shop.versions", "shop.prices"])
def test_a_revert_of_a_state_and_of_a_snapshot_restores_its_state(done: Tiny, tmp_path: Path, table: str) -> None:
    tiny, number = done.copied(tmp_path / "tiny"), 4 if table == "shop.prices" else 2
    before = state(tiny)
    fill(tiny, ORDERS, OTHER_CUSTOMERS)
    tiny.source("prices", "item TEXT, price INTEGER", [("pen", 4)])
    recollect(tiny, table, number)
    assert state(tiny)[table] != before[table]
    revert(tiny, f"{table}@2020-01-0{number}", to=revisions(tiny, table, number)[0].claim)
    run(tiny)
    assert state(tiny) == before


def test_the_audit_trail_names_both_revisions_who_and_why(done: Tiny, tmp_path: Path) -> None:
    tiny = done.copied(tmp_path / "tiny")
    fill(tiny, OTHER, CUSTOMERS)
    recollect(tiny, "shop.orders", 2)
    old, new = revisions(tiny, "shop.orders", 2)
    revert(tiny, "shop.orders@2020-01-02", to=old.claim)
    with tiny.ledger() as ledger:
        audit = ledger.past.audit("shop.orders", day(2))
    [event] = [each for each in audit.events if each.kind == "reverted"]
    current = audit.current
    assert current is not None
    assert current.revision is not None
    assert event.who == "a test"
    assert dict(event.data) == {"why": "it was right", "to": old.claim, "from": new.claim, "claim": current.claim}
    assert current.revision.digest == old.digest
    assert current.revision.slice_path != old.slice_path
    assert current.revision.measures["reverted"] == {
        "to": old.claim, "from": new.claim, "by": "a test", "why": "it was right"
    }  # fmt: skip


def test_a_transform_is_not_reverted_to_rows_of_other_inputs(done: Tiny, tmp_path: Path) -> None:
    tiny = done.copied(tmp_path / "tiny")
    fill(tiny, OTHER, CUSTOMERS)
    recollect(tiny, "shop.orders", 2)
    old = revisions(tiny, "clean.orders", 2)[0]
    with pytest.raises(WaterclockError) as refused:
        plan(tiny, "clean.orders@2020-01-02", to=old.claim)
    assert refused.value.code == "E759"
    assert refused.value.why == f"shop.orders has other rows than revision {old.claim} read"


def test_a_transform_is_reverted_to_rows_of_older_code(done: Tiny, tmp_path: Path) -> None:
    tiny = done.copied(tmp_path / "tiny")
    before = state(tiny)
    tiny.declare(
        FLOW.replace("AS SELECT id, amount FROM shop.orders", "AS SELECT id, amount * 2 AS amount FROM shop.orders")
    )
    with tiny.opened() as work:
        apply_flow(work, LAST)
        work.ledger.decisions.request_restate("clean.orders", [day(n) for n in range(1, 5)], "recompute", who="a test")
    run(tiny)
    assert state(tiny)["marts.total"] != before["marts.total"]
    old = revisions(tiny, "clean.orders", 4)[0]
    found = revert(tiny, "clean.orders@2020-01-01..2020-01-04", known_at=at(old))
    assert found.notes[0].startswith(f"{len(found.changes)} of {len(found.changes)} revisions were made by older code")
    run(tiny)
    with tiny.ledger() as ledger:
        assert ledger.past.audit("clean.orders", day(2)).current.code == old.code  # type: ignore[union-attr]


def test_labels_of_a_table_that_reads_itself_are_reverted_in_their_order(done: Tiny, tmp_path: Path) -> None:
    tiny = done.copied(tmp_path / "tiny")
    before = state(tiny)
    text = FLOW.replace("p.days + 1 AS days", "p.days + 2 AS days")
    tiny.declare(text)
    with tiny.opened() as work:
        apply_flow(work, LAST)
        work.ledger.decisions.request_restate("marts.total", [day(n) for n in range(1, 5)], "recompute", who="a test")
    run(tiny)
    assert state(tiny)["marts.total"] != before["marts.total"]
    old = revisions(tiny, "marts.total", 4)[0]
    found = revert(tiny, "marts.total@2020-01-01..2020-01-04", known_at=at(old))
    assert [label_of(each.label) for each in found.changes] == [label_of(day(n)) for n in range(1, 5)]
    assert state(tiny) == before


def test_a_revert_to_a_missing_or_damaged_slice_is_refused_and_changes_nothing(done: Tiny, tmp_path: Path) -> None:
    tiny = done.copied(tmp_path / "tiny")
    fill(tiny, OTHER, CUSTOMERS)
    recollect(tiny, "shop.orders", 2)
    fill(tiny, ORDERS, CUSTOMERS)
    recollect(tiny, "shop.orders", 2)
    old, other, _ = revisions(tiny, "shop.orders", 2)
    before = state(tiny)
    with tiny.opened() as work:
        folder = Path(work.lake.folder("shop.orders"))
    file = next((folder / old.slice_path).glob("*.parquet"))
    whole = file.read_bytes()
    file.write_bytes(whole[:40] + bytes(len(whole) - 80) + whole[-40:])
    with pytest.raises(WaterclockError) as refused:
        revert(tiny, "shop.orders@2020-01-02", to=old.claim)
    assert refused.value.code == "E605"
    assert str(other.claim) in str(refused.value.fix)
    (folder / old.slice_path / "_manifest.json").unlink()
    with pytest.raises(WaterclockError) as gone:
        plan(tiny, "shop.orders@2020-01-02", to=old.claim)
    assert gone.value.code == "E759"
    assert "KEEP VERSIONS" in str(gone.value.why)
    assert state(tiny) == before


def test_a_label_that_was_made_again_meanwhile_is_not_reverted(done: Tiny, tmp_path: Path) -> None:
    tiny = done.copied(tmp_path / "tiny")
    fill(tiny, OTHER, CUSTOMERS)
    recollect(tiny, "shop.orders", 2)
    found = plan(tiny, "shop.orders@2020-01-02", to=revisions(tiny, "shop.orders", 2)[0].claim)
    recollect(tiny, "shop.orders", 2)
    with tiny.opened() as work, pytest.raises(WaterclockError) as refused:
        commit_reverts(work, found, "it was right", LAST)
    assert (refused.value.code, refused.value.why) == ("E759", "it was made again meanwhile")
    assert isinstance(found.changes[0], RevertedLabel)


def test_a_publish_and_a_table_without_labels_are_refused(done: Tiny) -> None:
    with pytest.raises(WaterclockError, match="E759"):
        plan(done, "out.orders@2020-01-02", to=1)
    with pytest.raises(WaterclockError, match="E513"):
        plan(done, "shop.orders", to=1)
    with pytest.raises(WaterclockError, match="E516"):
        plan(done, "shop.orders@2020-01-02", to=1)
    current = revisions(done, "shop.orders", 2)[0]
    assert plan(done, "shop.orders@2020-01-02", to=current.claim).unchanged == (day(2),)


def test_rows_that_come_back_from_the_source_are_not_computed_again_by_readers(done: Tiny, tmp_path: Path) -> None:
    tiny = done.copied(tmp_path / "tiny")
    before = state(tiny)
    fill(tiny, OTHER, OTHER_CUSTOMERS)
    recollect(tiny, "shop.orders", 2)
    recollect(tiny, "shop.customers", 2)
    assert taken_back(tiny, "clean.orders", 2) is None
    fill(tiny, ORDERS, CUSTOMERS)
    recollect(tiny, "shop.orders", 2)
    recollect(tiny, "shop.customers", 2)
    assert state(tiny) == before
    assert taken_back(tiny, "shop.orders", 2) is None  # a source may always have other rows
    assert [taken_back(tiny, name, 2) for name in ("clean.orders", "marts.total", "marts.named")] == [
        revisions(tiny, name, 2)[0].claim for name in ("clean.orders", "marts.total", "marts.named")
    ]
    assert any("taken back from earlier revisions" in said for said in tiny.heard.said_)


def test_after_a_revert_readers_with_damaged_slices_or_requests_are_computed(done: Tiny, tmp_path: Path) -> None:
    tiny = done.copied(tmp_path / "tiny")
    before = state(tiny)
    fill(tiny, OTHER, CUSTOMERS)
    recollect(tiny, "shop.orders", 2, 3)
    with tiny.opened() as work:
        folder = Path(work.lake.folder("clean.orders"))
    file = next((folder / revisions(tiny, "clean.orders", 2)[0].slice_path).glob("*.parquet"))
    whole = file.read_bytes()
    file.write_bytes(whole[:40] + bytes(len(whole) - 80) + whole[-40:])
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("clean.orders", [day(3)], "recompute", who="a test")
    revert(tiny, "shop.orders@2020-01-02..2020-01-03", to="previous")
    run(tiny)
    assert [taken_back(tiny, "clean.orders", number) for number in (2, 3)] == [None, None]
    assert state(tiny) == before


def test_a_label_whose_new_rows_are_held_is_reverted_and_no_longer_held(done: Tiny, tmp_path: Path) -> None:
    tiny = done.copied(tmp_path / "tiny")
    before = state(tiny)
    fill(tiny, OTHER, CUSTOMERS)
    recollect(tiny, "shop.orders", 2)
    fill(tiny, [*OTHER, *((n, n, "2020-01-02 20:00:00") for n in range(100, 104))], CUSTOMERS)
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("shop.orders", [day(2)], "recollect", who="a test")
    assert tiny.run(LAST).failed
    with tiny.ledger() as ledger:
        assert set(ledger.reads.held_labels("shop.orders")) == {day(2)}
    revert(tiny, "shop.orders@2020-01-02", to="previous")
    with tiny.ledger() as ledger:
        assert ledger.reads.held_labels("shop.orders") == {}
    run(tiny)
    assert state(tiny) == before
