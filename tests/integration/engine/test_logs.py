"""Labels have fixed ranges of a log, each starting where the previous one ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.engine.maintenance.test_ledger_rebuild import lose, rebuilt
from tests.logs import Log, registered
from tests.tiny import TOML, Tiny, day, described, labels
from waterclock.batches.ledger_snapshot import RECOMPUTE
from waterclock.cli.views.audit import _source_pairs
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
CREATE CONNECTION log TYPE memory;
COLLECT raw.events PARTITIONED (*) FROM log.events EVERY DAY START '2020-01-01' BY ARRIVAL TIME;
"""
ALL = "SELECT timelabel, part, at, note FROM raw.events ORDER BY part, at"


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    log = Log()
    with registered(monkeypatch, memory=log):
        yield log


@pytest.fixture
def tiny(tmp_path: Path, spark: SparkSession, log: Log) -> Tiny:
    del log
    tiny = Tiny(tmp_path, spark, toml=TOML + "connections.log = {{}}\n")
    tiny.declare(FLOW)
    return tiny


def test_each_label_starts_at_the_offset_where_the_previous_one_ended(tiny: Tiny, log: Log) -> None:
    log.append("0", "a", "b")
    assert not tiny.run(day(2)).failed
    log.append("0", "c")
    log.append("1", "x")
    assert not tiny.run(day(3)).failed
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    first, second, third = labels(1, 2, 3)
    assert tiny.done("raw.events") == [first, second, third], "without new entries the label is empty"
    assert tiny.rows(ALL) == [(first, "0", 0, "a"), (first, "0", 1, "b"), (second, "0", 2, "c"), (second, "1", 0, "x")]

    with tiny.ledger() as ledger:
        made = ledger.past.audit("raw.events", day(2)).current
    assert made is not None
    assert made.revision is not None
    assert _source_pairs("items", made.revision.source["items"]) == [("source", "log 1, 0: 2 to 3, 1: 0 to 1")]

    # missed windows: the oldest one contains all new entries, so a new part starts with it
    log.append("2", "new")
    assert not tiny.run(day(7)).failed
    assert tiny.rows("SELECT timelabel, part, note FROM raw.events WHERE part = '2'") == [(labels(4)[0], "2", "new")]
    assert tiny.done("raw.events") == labels(1, 2, 3, 4, 5, 6)

    # done labels are made again from the same ranges, and an empty label stays empty
    log.append("0", "later")
    log.read.clear()
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("raw.events", [day(2), day(3)], RECOMPUTE, who="ann")
    assert not tiny.run(day(7)).failed
    assert log.read == [("0", 2, 3), ("1", 0, 1)]
    assert not tiny.rows("SELECT * FROM raw.events WHERE note = 'later'")
    assert log.let_go == ["positions 000000000001", "positions 000000000002", "positions 000000000003"]


@pytest.mark.parametrize("point", ["claimed", "sealed", "audited", "committed"])
def test_whoever_tries_a_label_again_reads_the_same_range(tiny: Tiny, log: Log, point: str) -> None:
    log.append("0", "a")
    assert not tiny.run(day(2)).failed
    log.append("0", "b")
    struck: list[str] = []

    def strike(at: str) -> None:
        if at == point and not struck:
            struck.append(at)
            log.append("0", "came after the claim")
            raise WaterclockError("E799", "the machine went away")

    with inject_faults(strike):
        tiny.run(day(3))
    assert struck
    with tiny.ledger() as ledger:
        if tiny.done("raw.events") == labels(1):
            ledger.decisions.retry("raw.events", [day(2)], who="ann")
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    first, second, third = labels(1, 2, 3)
    assert tiny.rows("SELECT timelabel, at FROM raw.events ORDER BY at") == [(first, 0), (second, 1), (third, 2)]


def test_windows_before_those_that_are_done_take_nothing(tiny: Tiny, log: Log) -> None:
    tiny.declare(FLOW.replace("2020-01-01", "2020-01-03"))
    log.append("0", "a")
    assert not tiny.run(day(4)).failed
    log.append("0", "b")
    tiny.declare(FLOW)
    outcome = tiny.run(day(5))
    assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT timelabel, note FROM raw.events ORDER BY at") == [(labels(3)[0], "a"), (labels(4)[0], "b")]


def test_the_range_of_a_skipped_label_is_read_once_its_ledger_was_made_again(tiny: Tiny, log: Log) -> None:
    """The rebuilt ledger knows only the ranges before and after it, not its range or that it was skipped."""
    tiny.declare(FLOW.replace("ARRIVAL TIME", "ARRIVAL TIME EXPECT max(note) <> 'odd' AS even ELSE HOLD"))
    for number, note in enumerate(("a", "odd"), 2):
        log.append("0", note)
        tiny.run(day(number))
    with tiny.ledger() as ledger:
        ledger.decisions.skip("raw.events", [Window(day(2), day(3))], who="ann", why="odd")
    log.append("0", "c")
    assert not tiny.run(day(4)).failed
    first, second, third = labels(1, 2, 3)
    both = [(first, "a"), (third, "c")]
    assert tiny.rows("SELECT timelabel, note FROM raw.events ORDER BY at") == both
    lose(tiny)
    rebuilt(tiny)
    tiny.declare(FLOW)
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    assert sorted(tiny.rows("SELECT timelabel, note FROM raw.events")) == sorted([*both, (second, "odd")])


def test_a_range_that_leaves_something_out_is_refused_with_its_numbers(tiny: Tiny, log: Log) -> None:
    log.append("0", "a", "b", "c")
    assert not tiny.run(day(2)).failed
    del log.parts["0"]
    log.append("1", "x")
    outcome = tiny.run(day(3))
    assert [report.error.code for report in outcome.failed if report.error] == ["E851"]
    assert "part 0 was read up to 3, and no longer exists" in described(outcome)
    log.append("0", "a", "b", "c", "d")
    with tiny.ledger() as ledger:
        ledger.decisions.retry("raw.events", [day(2)], who="ann")
    assert not tiny.run(day(3)).failed
    assert tiny.rows("SELECT part, note FROM raw.events WHERE timelabel = '20200102000000' ORDER BY part") == [
        ("0", "d"),
        ("1", "x"),
    ]
