"""Reads of sources by ticks: what is reported, how long a tick waits, and when a source is read again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from tests.inline_reads import InlineAttempt
from tests.model.flows import collect, flow, transform
from waterclock.engine.continuous import table_reads
from waterclock.engine.continuous.table_reads import Outages, TableReads, find_checks
from waterclock.errors import WaterclockError
from waterclock.storage.commit.speed_tables import TableCheck, TableOutage
from waterclock.timelabel.duration import parse_duration

START = datetime(2020, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def refuse(why: str = "the broker does not answer") -> Callable[[], str]:
    def read() -> str:
        raise WaterclockError("E850", why)

    return read


@dataclass
class Ticks:
    """Ticks at times that the test sets. Reads in the background have ended before the next tick."""

    said: list[str] = field(default_factory=list)
    seconds: float = 0.0
    most: float = 60.0

    def __post_init__(self) -> None:
        self.reads: TableReads[str] = TableReads(self.said.append, most_seconds=self.most, clock=lambda: self.seconds)

    def read(self, seconds: float, read: Callable[[], str], name: str = "web.clicks") -> str | None:
        self.seconds = seconds
        self.reads.start_tick()
        found = self.reads.read(name, read, at(seconds))
        self.reads.end_tick()
        self.reads.close()
        return found


def test_each_outage_and_its_end_are_reported_once() -> None:
    ticks = Ticks()
    assert ticks.read(0, lambda: "rows") == "rows"
    for begin in (10, 100):  # a second outage has the same text
        assert ticks.read(begin, refuse()) is None
        assert ticks.read(begin + 1, refuse()) is None
        assert ticks.read(begin + 2, refuse("another reason")) is None
        assert {name: each.since for name, each in ticks.reads.outages.current.items()} == {"web.clicks": at(begin)}
        assert ticks.read(begin + 40, lambda: "new") is None  # it was read in the background
        assert ticks.reads.read_time("web.clicks") == at(0 if begin == 10 else 51)  # not at the one in the background
        assert ticks.read(begin + 41, lambda: "new") == "new"
        assert ticks.reads.outages.current == {}
    begun = "open windows of web.clicks are not up to date: the broker does not answer"
    assert ticks.said == [begun, "open windows of web.clicks are up to date again"] * 2


def test_during_an_outage_a_source_is_read_with_growing_pauses() -> None:
    ticks, tries = Ticks(), list[float]()

    def read() -> str:
        tries.append(ticks.seconds)
        return refuse()()

    for second in range(200):
        ticks.read(second, read)
    # the pause begins when the next tick finds that a read in the background has failed
    assert [after - before for before, after in pairwise(tries)] == [1, 3, 5, 9, 17, 31, 31, 31, 31, 31]


def test_a_source_that_does_not_answer_delays_one_tick_by_a_bounded_time() -> None:
    ticks, end, began = Ticks(most=1.0), threading.Event(), time.monotonic()
    names = ["a", "b", "c"]

    def hang() -> str:
        assert end.wait(60)
        return "rows"

    ticks.reads.start_tick()
    assert [ticks.reads.read(name, hang, at(0)) for name in names] == [None] * 3
    assert time.monotonic() - began < 30  # a second, and a second for each of the others
    assert ticks.said[0].endswith("not up to date: its source did not answer within 1 seconds")
    running = threading.active_count()
    for second in range(5):  # nothing waits, and no source is read twice at a time
        ticks.reads.start_tick()
        assert [ticks.reads.read(name, hang, at(second)) for name in names] == [None] * 3
    assert threading.active_count() == running
    end.set()
    ticks.reads.close()
    assert [ticks.read(10, lambda: "new", name) for name in names] == ["new"] * 3
    assert ticks.reads.outages.current == {}


def test_a_query_that_does_not_end_has_a_longer_time_than_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_reads, "MOST_QUERY_SECONDS", 1.5)
    ticks, end = Ticks(most=0.1), threading.Event()
    ticks.reads.start_tick()
    assert ticks.reads.read("web.sums", lambda: str(end.wait(60)), at(0), is_query=True) is None
    assert ticks.said == ["open windows of web.sums are not up to date: its query did not end within 2 seconds"]
    end.set()
    ticks.reads.close()
    assert ticks.read(10, lambda: "new", "web.sums") == "new"


def test_a_tick_waits_for_a_slow_source_that_answers() -> None:
    ticks, slow = Ticks(most=1.0), threading.Event()

    def read() -> str:
        slow.wait(1.5)
        return "rows"

    ticks.reads.start_tick()
    assert ticks.reads.read("web.clicks", read, at(0)) is None
    ticks.reads.close()
    assert ticks.read(1, read) == "rows"  # it waits for three seconds now
    assert len(ticks.said) == 2


def test_while_spark_is_not_started_a_tick_waits_longer() -> None:
    ticks, started = Ticks(most=0.0), threading.Event()

    def read() -> str:
        started.wait(1.2)
        return "rows"

    ticks.reads.start_tick(is_cold=True)
    assert ticks.reads.read("web.clicks", read, at(0)) == "rows"


def test_any_exception_of_a_read_is_an_outage() -> None:
    for raised in (PermissionError(13, "Permission denied", "landing/new"), MemoryError(), SystemExit(1)):
        ticks = Ticks()

        def read(raised: BaseException = raised) -> str:
            raise raised

        assert ticks.read(0, read) is None
        assert len(ticks.said) == 1


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_answers_is_reported_as_the_rule_says(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick has rows only if the source answered it; begins and ends of outages alternate, and the times are true."""
    monkeypatch.setattr(table_reads, "Attempt", InlineAttempt)
    random, ticks = Random(seed), Ticks()
    answers, truth, last = True, list[str](), None
    for second in range(0, 3000, 3):
        if random.random() < 0.05:
            answers = not answers
        found = ticks.read(second, partial("rows {}".format, second) if answers else refuse())
        if found is not None:
            assert answers
            assert found == f"rows {second}"
            last = second
        if found is None and not (truth and truth[-1] == "begin"):
            truth.append("begin")
            assert not answers
        elif found is not None and truth and truth[-1] == "begin":
            truth.append("end")
        assert (found is None) == ("web.clicks" in ticks.reads.outages.current)
        assert ticks.reads.read_time("web.clicks") == (None if last is None else at(last))
    assert ["begin" if "not up to date" in each else "end" for each in ticks.said] == truth
    assert len(truth) > 10


def test_an_outage_keeps_its_begin_and_has_its_newest_reason() -> None:
    said: list[str] = []
    outages = Outages(said.append)
    outages.end("web.clicks")
    outages.begin("", "no query", at(0))
    outages.begin("", "no disk", at(5))
    assert [(each.since, each.why) for each in outages.current.values()] == [(at(0), "no disk")]
    outages.end("")
    assert said == ["open windows are not up to date: no query", "open windows are up to date again"]


D = parse_duration("10 SECONDS")
FLOW = flow(
    collect("a", continuous=D), collect("b", continuous=D), collect("other"),
    transform("c", reads=["a"], continuous=D), transform("d", reads=["b", "c"], continuous=D),
)  # fmt: skip


def checks(times: dict[str, float | None], known: dict[str, TableCheck]) -> dict[str, tuple[Any, list[Any]]]:
    """Return the checks after a tick at 100 seconds. The collects in `times` have had an outage since 50 seconds."""
    outages = {name: TableOutage(name, at(50), "no answer") for name in times}
    read = {name: None if second is None else at(second) for name, second in times.items()}
    found = find_checks(FLOW, outages, read, {name: known.get(name, TableCheck()) for name in times}, at(100))
    assert all(it.why == "no answer" for each in found.values() for it in each.outages)
    return {name: (each.at, [(it.table, it.since) for it in each.outages]) for name, each in found.items()}


def test_a_table_was_read_when_the_first_of_its_sources_stopped_to_answer() -> None:
    now, a, b = at(100), ("a", at(50)), ("b", at(50))
    assert checks({}, {}) == dict.fromkeys("abcd", (now, []))
    assert checks({"a": 40}, {}) == {"a": (at(40), [a]), "b": (now, []), "c": (at(40), [a]), "d": (at(40), [a])}
    both = checks({"a": 40, "b": 45}, {})
    assert (both["b"], both["c"], both["d"]) == ((at(45), [b]), (at(40), [a]), (at(40), [a, b]))
    assert checks({"a": 40, "b": None}, {})["d"] == (None, [a, b])


def test_an_outage_that_an_earlier_run_recorded_goes_on() -> None:
    before = TableCheck(at(20), (TableOutage("a", at(30), "down"),))
    assert checks({"a": None}, {"a": before})["c"] == (at(20), [("a", at(30))])
    assert checks({"a": 40}, {"a": before})["c"] == (at(40), [("a", at(30))])
    assert checks({"a": 40}, {"a": TableCheck(at(45))})["c"] == (at(45), [("a", at(50))])  # another runner read it
