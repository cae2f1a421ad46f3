"""Rows that break a rule are quarantined, dropped or reported as the batch is written; the batch may be held."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import Tiny, day, described, labels
from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER, RECOMPUTE
from waterclock.cli.actions.release import release_batches
from waterclock.engine.batch.lifecycle import run_group
from waterclock.engine.batch.releasing import group_to_release
from waterclock.engine.run_settings import RunSettings
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.operations.project_opening import open_read_only
from waterclock.operations.replaying import find_replayable_labels
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.timelabel.label import instant_of, label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLLECT = """
COLLECT shop.orders PARTITIONED
  (id BIGINT NOT NULL ELSE DROP, amount INT ELSE QUARANTINE, kind STRING, at TIMESTAMP)
  FROM shop.orders EVERY DAY BY DATA TIME at
  EXPECT amount > 0 AS positive ELSE QUARANTINE, kind IN ('a', 'b') AS known ELSE WARN;
"""
ROWS = [
    (1, "10", "a", "2020-01-01 10:00:00"),
    (2, "-1", "a", "2020-01-01 11:00:00"),
    (3, "x", "c", "2020-01-01 12:00:00"),
    (None, "-5", "a", "2020-01-01 13:00:00"),
    (5, "7", "c", "2020-01-01 14:00:00"),
    (6, "9", "b", "2020-01-02 10:00:00"),
    (7, None, "b", "2020-01-03 10:00:00"),
]


def made(tiny: Tiny, table: str) -> dict[str, dict[str, Any]]:
    """Return the measures of each label's newest revision."""
    with tiny.ledger() as ledger:
        found = {}
        for label in tiny.done(table):
            audit = ledger.past.audit(table, instant_of(label))
            assert audit.current is not None
            assert audit.current.revision is not None
            found[label] = dict(audit.current.revision.measures)
        return found


def manifests(tiny: Tiny, table: str) -> list[Manifest]:
    """Return the manifests of a table's current slices."""
    with tiny.opened() as work:
        folder = work.lake.folder(table)
        return [read_manifest(folder, it.slice_path) for it in work.ledger.reads.slices(table, BEGINNING, FOREVER)]


@pytest.mark.parametrize("together", [True, False], ids=["in one job", "one by one"])
def test_rows_are_parted_in_the_write_of_their_batch(tmp_path: Path, spark: SparkSession, together: bool) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("orders", "id INTEGER, amount TEXT, kind TEXT, at TEXT", ROWS)
    tiny.declare(COLLECT)
    for now in [day(4)] if together else [day(2), day(3), day(4)]:
        outcome = tiny.run(now)
        assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT id, amount, kind FROM shop.orders ORDER BY id") == [(1, 10, "a"), (5, 7, "c"), (6, 9, "b")]
    found = made(tiny, "shop.orders")
    first = found[labels(1)[0]]
    assert (first["in"], first["quarantined"], first["dropped"]) == (5, 2, 1)
    assert first["broken"] == {"id": 1, "amount INT": 1, "positive": 3, "known": 2}
    assert first["first"] == {"id": 1, "amount INT": 1, "positive": 1}
    assert found[labels(2)[0]]["quarantined"] == 0
    assert found[labels(3)[0]]["first"] == {"positive": 1}  # NULL > 0 is not TRUE
    sealed = manifests(tiny, "shop.orders")
    assert [(it.rows, it.aside_rows) for it in sealed] == [(2, 2), (1, 0), (0, 1)]
    assert all("_waterclock" not in file.stats for it in sealed for file in it.files)
    assert json.loads(sealed[0].aside_schema)["fields"][1]["type"] == "string"


def quarantine(tiny: Tiny, table: str) -> list[tuple[Any, ...]]:
    """Return the quarantined rows of a table: label, original row, broken rules."""
    rows = tiny.rows(f"SELECT timelabel, row, broken FROM {table}_quarantine ORDER BY timelabel, row")
    return [(label, json.loads(row), list(broken)) for label, row, broken in rows]


def replayed(tiny: Tiny, table: str) -> list[str]:
    """Request a replay as the command does, and return the requested labels."""
    with open_read_only(tiny.root, None, None) as at:
        found = find_replayable_labels(at, table, None)
        assert at.ledger is not None
        for name, of_table in found.items():
            at.ledger.decisions.request_restate(name, of_table, RECOMPUTE, who="ann")
        return [label_of(label) for of_table in found.values() for label in of_table]


def test_quarantined_rows_can_be_queried_and_are_replayed_after_a_fixed_rule(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("orders", "id INTEGER, amount TEXT, kind TEXT, at TEXT", ROWS)
    tiny.declare(COLLECT + "TRANSFORM shop.sums PARTITIONED AS SELECT sum(amount) AS total FROM shop.orders;")
    assert not tiny.run(day(4)).failed
    raw = {"kind": "a", "at": "2020-01-01T11:00:00.000000Z"}
    assert quarantine(tiny, "shop.orders") == [
        (labels(1)[0], {"id": 2, "amount": "-1", **raw}, ["positive"]),
        (
            labels(1)[0],
            {"id": 3, "amount": "x", "kind": "c", "at": "2020-01-01T12:00:00.000000Z"},
            ["amount INT", "positive", "known"],
        ),
        (labels(3)[0], {"id": 7, "amount": None, "kind": "b", "at": "2020-01-03T10:00:00.000000Z"}, ["positive"]),
    ]
    assert tiny.rows("SELECT total FROM shop.sums ORDER BY timelabel") == [(17,), (9,), (None,)]
    assert replayed(tiny, "shop.orders") == []  # they were checked with the current rules
    tiny.declare(
        COLLECT.replace("amount > 0 AS positive", "amount != 0 AS positive")
        + "TRANSFORM shop.sums PARTITIONED AS SELECT sum(amount) AS total FROM shop.orders;"
    )
    assert not tiny.run(day(4)).failed  # changed rules alone cause no recomputation
    assert len(quarantine(tiny, "shop.orders")) == 3
    runs = tiny.runs_of("shop.orders")
    assert replayed(tiny, "shop.orders") == labels(1, 3)
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    assert tiny.runs_of("shop.orders") == runs + 2
    assert tiny.rows("SELECT id, amount, kind FROM shop.orders WHERE timelabel < '20200102' ORDER BY id") == [
        (1, 10, "a"),
        (2, -1, "a"),
        (5, 7, "c"),
    ]
    assert [row["id"] for _, row, _ in quarantine(tiny, "shop.orders")] == [3, 7]
    # tables that read it are recomputed
    assert tiny.rows("SELECT total FROM shop.sums ORDER BY timelabel") == [(16,), (9,), (None,)]
    assert replayed(tiny, "shop.orders") == []
    assert tiny.rows("SELECT count(*) FROM shop.orders_quarantine") == [(2,)]


HELD = """
COLLECT shop.orders PARTITIONED (id BIGINT, amount INT, at TIMESTAMP) FROM shop.orders EVERY DAY BY DATA TIME at
  EXPECT amount > 0 AS positive ELSE QUARANTINE AT MOST 1 ELSE HOLD, count(*) > 0 AS some ELSE HOLD;
TRANSFORM shop.sums AS SELECT sum(amount) AS total FROM shop.orders;
"""


def test_a_held_batch_is_invisible_until_it_is_released(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    rows = [(1, 5, "2020-01-01 10:00:00"), (2, -1, "2020-01-01 11:00:00"), (3, -2, "2020-01-01 12:00:00")]
    tiny.source(
        "orders",
        "id INTEGER, amount INTEGER, at TEXT",
        [*rows, (4, -4, "2020-01-02 09:00:00"), (5, 6, "2020-01-02 10:00:00")],
    )
    tiny.declare(HELD)
    outcome = tiny.run(day(4))
    assert {key: status for key, status in tiny.batches().items() if status == "held"} == {
        ("shop.orders", labels(1)[0]): "held",
        ("shop.orders", labels(3)[0]): "held",
    }
    assert tiny.rows("SELECT id FROM shop.orders") == [(5,)]
    assert [row["id"] for _, row, _ in quarantine(tiny, "shop.orders")] == [4]
    assert ("shop.sums", labels(3)[0]) not in tiny.batches()
    said = [report.error.code for report in outcome.failed if report.error]
    assert said == ["E755", "E755"]
    assert (
        release_batches(tmp_path, None, f"shop.orders@{labels(1)[0]}", "known returns", None, yes=True, is_json=False)
        == 0
    )
    assert tiny.rows("SELECT id FROM shop.orders ORDER BY id") == [(1,), (5,)]
    assert [row["id"] for _, row, _ in quarantine(tiny, "shop.orders")] == [2, 3, 4]
    assert made(tiny, "shop.orders")[labels(1)[0]]["released"] == {"by": RunSettings().who, "why": "known returns"}
    with pytest.raises(WaterclockError, match="E440"):
        release_batches(tmp_path, None, f"shop.orders@{labels(1)[0]}", "again", None, yes=True, is_json=False)
    tiny.shop("INSERT INTO orders VALUES (7, 3, '2020-01-03 10:00:00')")
    with tiny.ledger() as ledger:
        ledger.decisions.retry("shop.orders", [day(3)], who="ann")
    assert not tiny.run(day(4)).failed
    assert tiny.rows("SELECT total FROM shop.sums") == [(3,)]


@pytest.mark.soak
def test_a_released_batch_has_the_parents_of_its_own_time(tmp_path: Path, spark: SparkSession) -> None:
    """Test FLAT together with a release: none of the first 240 random lives contains both."""
    tiny = Tiny(tmp_path, spark)
    lands = [("lyon", "F", "2020-01-01 00:00:00"), ("lyon", "B", "2020-01-02 06:00:00")]
    tiny.source("lands", "city TEXT, land TEXT, at TEXT", lands)
    sales = [(1, "lyon", "2020-01-01 10:00:00"), (2, "lyon", "2020-01-01 11:00:00"), (3, "lyon", "2020-01-02 07:00:00")]
    tiny.source("sales", "sale INTEGER, city TEXT, at TEXT", sales)
    tiny.declare("""
        COLLECT raw.lands (city KEY, land, at TIMESTAMP) FROM shop.lands EVERY DAY BY DATA TIME at TEMPORAL AT at;
        COLLECT raw.sales PARTITIONED (sale BIGINT, city STRING REFERENCES raw.lands AT at, at TIMESTAMP)
          FROM shop.sales EVERY DAY BY DATA TIME at;
        TRANSFORM marts.sales PARTITIONED EXPECT count(*) < 2 AS few ELSE HOLD AS SELECT * FROM FLAT(raw.sales);
    """)
    for number in (2, 3):
        tiny.run(day(number))
    rows = "SELECT sale, land FROM marts.sales ORDER BY sale"
    assert tiny.rows(rows) == [(3, "B")]
    held = f"marts.sales@{labels(1)[0]}"
    assert release_batches(tmp_path, None, held, "known", None, yes=True, is_json=False) == 0
    assert tiny.rows(rows) == [(1, "F"), (2, "F"), (3, "B")]
    assert tiny.run(day(3)).done == 0


def test_each_window_of_a_lookback_is_checked_on_its_own_and_held_alone(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    rows = [(1, 5, "2020-01-01 10:00:00"), (2, 6, "2020-01-02 10:00:00")]
    tiny.source("orders", "id INTEGER, amount INTEGER, at TEXT", rows)
    tiny.declare("""
    COLLECT shop.orders PARTITIONED (id BIGINT, amount INT, at TIMESTAMP) FROM shop.orders EVERY DAY BY DATA TIME at
      LOOKBACK 1 DAY EXPECT sum(amount) < 10 AS few ELSE HOLD, max(amount) < 100 AS sane ELSE FAIL;
    """)
    assert not tiny.run(day(2)).failed
    tiny.shop("INSERT INTO orders VALUES (3, 50, '2020-01-01 11:00:00')")
    tiny.shop("UPDATE orders SET amount = 200 WHERE id = 2")
    said = [report.error.what for report in tiny.run(day(3)).failed if report.error]
    # refused, although the rule on past windows would hold it first
    assert [each for each in said if "sane" in each], said
    assert tiny.batches() == {("shop.orders", labels(1)[0]): "done", ("shop.orders", labels(2)[0]): "failed"}
    tiny.shop("UPDATE orders SET amount = 6 WHERE id = 2")
    with tiny.ledger() as ledger:
        ledger.decisions.retry("shop.orders", [day(2)], who="ann")
    tiny.run(day(3))
    # only the past window is held, and keeps its rows until it is released
    assert tiny.batches() == {("shop.orders", labels(1)[0]): "held", ("shop.orders", labels(2)[0]): "done"}
    assert tiny.rows("SELECT id FROM shop.orders ORDER BY id") == [(1,), (2,)]
    assert release_batches(tmp_path, None, "shop.orders", "known", None, yes=True, is_json=False) == 0
    assert tiny.rows("SELECT id FROM shop.orders ORDER BY id") == [(1,), (2,), (3,)]


def test_a_release_whose_runner_is_lost_once_it_has_committed_keeps_who_why_and_warnings(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("orders", "id INTEGER, amount TEXT, kind TEXT, at TEXT", ROWS[:5])
    tiny.declare(COLLECT.replace("positive ELSE QUARANTINE", "positive ELSE QUARANTINE AT MOST 1 ELSE HOLD"))
    [report] = tiny.run(day(2)).failed
    assert report.error is not None
    assert report.error.code == "E755"

    def lost(point: str) -> None:
        if point == "committed":
            raise OSError("its machine was lost")

    with tiny.opened() as work:
        table = work.flow.tables["shop.orders"]
        group = group_to_release(work, table, day(1), day(2), "known returns")
        with inject_faults(lost):
            assert run_group(work, group, day(2)).error is None
    measures = made(tiny, "shop.orders")[labels(1)[0]]
    assert measures["released"] == {"by": "a test", "why": "known returns"}
    assert measures["recovered"] is True
    assert (measures["quarantined"], measures["dropped"]) == (2, 1)
    assert any(said.startswith("positive: ") for said in measures["warnings"])
    with tiny.ledger() as ledger:
        [told] = [row for row in ledger.past.rows("events") if row["kind"] == "released"]
    assert (told["who"], json.loads(told["data"])["why"]) == ("a test", "known returns")


def test_a_requested_release_is_carried_out_by_the_next_run(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("orders", "id INTEGER, amount INTEGER, at TEXT", [(1, 5, "2020-01-01 10:00:00")])
    flow = """
    COLLECT shop.orders PARTITIONED (id BIGINT, amount INT, at TIMESTAMP) FROM shop.orders
      EVERY DAY BY DATA TIME at EXPECT count(*) > {} AS some ELSE HOLD;
    TRANSFORM shop.doubled PARTITIONED EXPECT count(*) > 1 AS some ELSE HOLD
    AS SELECT id, amount * 2 AS amount FROM shop.orders;
    """
    tiny.declare(flow.format(1))
    tiny.run(day(3))
    held = {("shop.orders", label): "held" for label in labels(1, 2)}
    assert tiny.batches() == held
    with tiny.ledger() as ledger, pytest.raises(WaterclockError, match="E413"):
        ledger.decisions.request_release("shop.doubled", [day(1)], who="ann", why="x")
    with tiny.ledger() as ledger:
        assert ledger.decisions.request_release("shop.orders", [day(1), day(2)], who="ann", why="known") == (
            day(1),
            day(2),
        )
        assert ledger.decisions.withdraw("shop.orders", [day(2)], who="ann") == (day(2),)
    outcome = tiny.run(day(3))
    said = [(report.group.table, report.error.code) for report in outcome.failed if report.error]
    assert said == [("shop.doubled", "E755")]  # the batch it blocked is made, and held by its own rule
    assert tiny.rows("SELECT id FROM shop.orders") == [(1,)]
    assert made(tiny, "shop.orders")[labels(1)[0]]["released"] == {"by": "ann", "why": "known"}
    assert tiny.batches()["shop.orders", labels(2)[0]] == "held"

    # its inputs changed meanwhile: it cannot be released, stays held, and is no longer requested
    tiny.shop("UPDATE orders SET amount = 6")
    tiny.declare(flow.format(0))
    with tiny.ledger() as ledger:
        ledger.decisions.request_release("shop.doubled", [day(1)], who="ann", why="known")
        ledger.decisions.request_restate("shop.orders", [day(1)], "recollect", who="ann")
    outcome = tiny.run(day(3))
    assert "E756" in {report.error.code for report in outcome.failed if report.error}, described(outcome)
    assert tiny.batches()["shop.doubled", labels(1)[0]] == "held"
    with tiny.ledger() as ledger:
        kinds = [event.kind for event in ledger.past.audit("shop.doubled", day(1)).events]
        assert ledger.past.audit("shop.doubled", day(1)).cell.requested is None
    assert kinds[-1] == "release refused"


def test_a_rule_without_a_result_is_reported_with_its_position(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("orders", "id INTEGER, amount INTEGER, at TEXT", [(1, 0, "2020-01-01 10:00:00")])
    flow = """
COLLECT shop.orders PARTITIONED (id BIGINT, amount INT, at TIMESTAMP) FROM shop.orders EVERY DAY BY DATA TIME at
  EXPECT 10 / amount > 1 AS inverse ELSE {};
"""
    for action in ("QUARANTINE", "FAIL"):
        tiny.declare(flow.format(action))
        with tiny.ledger() as ledger:
            ledger.decisions.retry("shop.orders", [day(1)], who="ann") if action == "FAIL" else None
        [report] = tiny.run(day(2)).failed
        assert report.error is not None
        assert (report.error.code, report.error.where) == ("E757", "flows/flow.dpl:6:10")
        assert "10 / amount" in report.error.what
        assert "try_divide" in (report.error.fix or "")
    tiny.declare(flow.format("QUARANTINE").replace("10 / amount", "try_divide(10, amount)"))
    with tiny.ledger() as ledger:
        ledger.decisions.retry("shop.orders", [day(1)], who="ann")
    assert not tiny.run(day(2)).failed
    assert [row["amount"] for _, row, _ in quarantine(tiny, "shop.orders")] == [0]


def test_a_rule_of_the_table_sees_it_as_it_would_be(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    rows = [(1, 5, "2020-01-01 10:00:00"), (2, 5, "2020-01-02 10:00:00"), (1, 6, "2020-01-03 10:00:00")]
    tiny.source("orders", "id INTEGER, amount INTEGER, at TEXT", rows)
    tiny.declare("""
COLLECT shop.orders PARTITIONED (id BIGINT, amount INT, at TIMESTAMP) FROM shop.orders EVERY DAY BY DATA TIME at
  EXPECT count(DISTINCT id) = count(*) AS each_once OVER TABLE ELSE HOLD;
""")
    [report] = tiny.run(day(4)).failed
    assert report.error is not None
    assert "each_once: the table would not be (count(DISTINCT id) = count(*))" in report.error.what
    assert tiny.done("shop.orders") == labels(1, 2)
    tiny.shop("UPDATE orders SET id = 3 WHERE amount = 6")
    with tiny.ledger() as ledger:
        ledger.decisions.retry("shop.orders", [day(3)], who="ann")
        ledger.decisions.request_restate("shop.orders", [day(1)], "recompute", who="ann")
    assert not tiny.run(day(4)).failed  # a recomputed label is not counted twice
