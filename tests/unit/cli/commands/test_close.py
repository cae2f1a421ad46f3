"""Books are closed by hand; commands show up to when open windows were checked, and why they are open."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.stocks import Stocks, make
from tests.unit.cli.conftest import ask
from waterclock.batches.ledger_snapshot import AT_LAST, CONDITION, Closing
from waterclock.planner.planning import Planner

FLOW = """\
CREATE CONNECTION shop TYPE files OPTIONS (path 'landing');
COLLECT web.readings PARTITIONED (device STRING, id BIGINT, at TIMESTAMP, came TIMESTAMP)
  FROM shop.readings EVERY 6 HOURS START '2026-11-01' BY DATA TIME came;
TRANSFORM web.daily PARTITIONED EVERY DAY CLOSE WHEN watermark(at, device) >= WINDOW_END() OR closed_by_hand()
AS SELECT id FROM UNTIL(web.readings, '1 day') WHERE at >= WINDOW_START() AND at < WINDOW_END();
TRANSFORM web.capped PARTITIONED EVERY DAY CLOSE WHEN watermark(at, device) >= WINDOW_END() PARTIAL AFTER 12 HOURS
AS SELECT id FROM UNTIL(web.readings, '1 day') WHERE at >= WINDOW_START() AND at < WINDOW_END();
TRANSFORM web.whole PARTITIONED EVERY DAY AS SELECT id FROM web.readings;
"""
NOW = "2026-11-04T07:00"
OPEN = "open, not checked yet: waits for watermark(at, device) >= WINDOW_END() OR closed_by_hand()"


def day(number: int, hour: int = 0) -> datetime:
    """Return an instant of November 2026."""
    return datetime(2026, 11, number, hour, tzinfo=UTC)


@dataclass
class Books:
    """A project that has all readings until the third noon, and no closed books."""

    stocks: Stocks

    def ask(self, *arguments: str, now: str = NOW, width: int = 200) -> Any:
        timed = () if arguments[0] in {"audit", "show"} else ("--now", now)
        return ask(*arguments, "--project", str(self.stocks.folder), *timed, width=width)

    def json(self, *arguments: str) -> Any:
        return json.loads(self.ask(*arguments, "--json").stdout)

    def found(self, table: str, *found: tuple[datetime, Closing]) -> None:
        """Record the result of a check of the books."""
        flow = self.stocks.project.flow
        with self.stocks.ledger() as ledger:
            books = Planner(flow).books_of(ledger.reads.snapshot(flow), day(4, 7), table)
            told = [
                (label, Closing(it.tick, it.looked, it.reason, it.behind, books.condition_hash)) for label, it in found
            ]
            assert ledger.decisions.close_books(table, told, who="runner")


@pytest.fixture
def books(tmp_path: Path) -> Books:
    header = "[project]\nname = 'books'\n"
    stocks = make(tmp_path / "books", FLOW, header)
    (stocks.folder / "landing").mkdir()
    stocks.now, stocks.fails = day(4, 7), {}
    stocks.fill(until=day(4, 7))
    return Books(stocks)


def test_a_window_closed_by_hand_is_shown_with_user_and_reason_in_plan_and_audit(books: Books) -> None:
    plan = books.ask("plan", "web.daily").stdout
    assert OPEN in plan
    assert "waits for web.daily@20261101000000, whose books are open" in plan
    told = books.ask("close", "web.daily@2026-11-01", "--why", "b is broken")
    assert told.stdout == (
        "closed: web.daily@20261101000000 at 2026-11-04 06:00Z: b is broken\n"
        "the next run makes it from the slices that arrived before that\n"
    )
    plan = books.ask("plan", "web.daily").stdout
    assert "due, books closed at 2026-11-04 06:00 +00:00, by hand, by " in plan
    assert ": b is broken" in plan
    [ready] = [it for it in books.json("plan", "web.daily")["batches"] if it["status"] == "ready"]
    [read] = ready["reads"]
    assert (read["low"], read["high"]) == ("2026-11-01T00:00:00Z", "2026-11-04T06:00:00Z")
    assert (ready["closing"]["tick"], ready["closing"]["why"]) == ("2026-11-04T06:00:00Z", "b is broken")
    assert books.json("plan")["version"] == 1
    books.stocks.fill(until=day(4, 7))
    audit = books.ask("audit", "web.daily@2026-11-01").stdout
    assert "closed at 2026-11-04 06:00Z, by hand, by " in audit
    assert audit.count("b is broken") >= 2  # for its books, and for the event
    assert books.json("audit", "web.daily@2026-11-01")["closing"]["reason"] == "by hand"
    assert books.json("audit", "web.whole@2026-11-01")["closing"] is None


def test_json_of_close(books: Books) -> None:
    assert books.json("close", "web.daily@2026-11-01", "--why", "enough") == {
        "version": 1, "table": "web.daily", "label": "20261101000000", "tick": "2026-11-04T06:00:00Z", "why": "enough",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("which", "said"),
    [
        ("web.daily", "E266 web.daily names no window"),
        ("web.daily@2026-11-01..2026-11-02", "E266 web.daily@2026-11-01..2026-11-02 contains several windows"),
        ("web.daily@2026-11", "contains several windows"),
        ("web.daily@2026-11-02", "E266 the books of web.daily@20261101000000 are open"),
        ("web.daily@2026-11-04", "E266 web.daily@20261104000000 has not ended"),
        ("web.daily@2027-11-04", "it can be closed from 2027-11-05 00:00 +00:00 on"),
        ("web.daily@2026-10-04", "E266 web.daily@20261004000000 is before START"),
        ("web.capped@2026-11-01", "E266 windows of web.capped are not closed by hand"),
        ("web.whole@2026-11-01", "it has no CLOSE WHEN"),
        # not closed by hand: shows which of four closings it uses
        ("web.readings@2026-11-01", "E266 windows of web.readings are not closed by hand"),
        ("web.readings@2026-11-01T00:00", "windows of web.readings are not closed by hand"),
        ("web.dialy@2026-11-01", "E511"),
        ("web.daily@tomorrow", "E512"),
    ],
)
def test_closing_a_window_that_cannot_be_closed_is_refused(books: Books, which: str, said: str) -> None:
    done = books.ask("close", which, "--why", "x")
    assert done.exit_code == 1
    assert said in done.stderr
    assert books.json("status", "web.daily")["open"]["web.daily"]["label"] == "20261101000000"


def test_a_reason_is_needed(books: Books) -> None:
    assert "E903" in books.ask("close", "web.daily@2026-11-01", "--why", " ").stderr
    assert books.ask("close", "web.daily@2026-11-01").exit_code == 2


def test_closing_a_closed_window_again_is_refused_and_keeps_the_first_reason(books: Books) -> None:
    books.ask("close", "web.daily@2026-11-01", "--why", "x")
    assert "the books of web.daily@20261101000000 are closed" in (
        books.ask("close", "web.daily@2026-11-01", "--why", "y").stderr
    )
    books.stocks.fill(until=day(4, 7))
    said = books.ask("close", "web.daily@2026-11-01", "--why", "z").stderr
    assert "are closed" in said
    assert "fix  `waterclock recompute web.daily@20261101000000` adds the rows that arrived too late for it" in said
    assert books.json("audit", "web.daily@2026-11-01")["closing"]["why"] == "x"


def test_a_window_closes_at_the_last_boundary_at_which_its_inputs_are_settled(books: Books) -> None:
    with books.stocks.ledger() as ledger:
        ledger.decisions.request_restate("web.readings", [day(3, 12)], "recollect", who="ann")
        assert "at 2026-11-03 12:00Z" in books.ask("close", "web.daily@2026-11-01", "--why", "x").stdout
        ledger.decisions.request_restate("web.readings", [day(2, 12)], "recollect", who="ann")
    refused = books.ask("close", "web.daily@2026-11-02", "--why", "x").stderr
    assert "E266 not all inputs of web.daily@20261102000000 are settled" in refused
    assert "`waterclock plan web.readings` shows what is missing" in refused


@pytest.mark.slow
def test_of_two_concurrent_closes_of_a_window_one_wins_and_the_other_is_refused(books: Books) -> None:
    command = (sys.executable, "-m", "waterclock", "close", "web.daily@2026-11-01", "--now", NOW, "--json")
    both = [
        subprocess.Popen(
            [*command, "--project", str(books.stocks.folder), "--why", name],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for name in ("x", "y")
    ]
    said = [each.communicate() for each in both]
    assert sorted(each.returncode for each in both) == [0, 1]
    [won] = [json.loads(out) for (out, _), each in zip(said, both, strict=True) if each.returncode == 0]
    assert any(b"E266" in text for texts in said for text in texts), said
    with books.stocks.ledger() as ledger:
        assert ledger.reads.closings("web.daily")[day(1)].why == won["why"]


def test_status_and_show_report_an_open_windows_condition_and_how_to_close_it(books: Books) -> None:
    books.found("web.daily", (day(1), Closing(looked=day(4, 6), behind='{"device":"b"}')))
    said = books.ask("status", "web.daily").stdout
    waits = "waits for watermark(at, device) >= WINDOW_END() OR closed_by_hand(); furthest behind: device b"
    line = f"web.daily@20261101000000 open, checked up to 2026-11-04 06:00 +00:00: {waits}, and 2 windows after it"
    assert line in said
    assert "if that does not happen, `waterclock close web.daily@20261101000000 --why ...` closes it" in said
    assert "PARTIAL AFTER 1 DAY closes each window a day after its end at the latest" in said
    assert books.json("status")["open"]["web.daily"] == {
        "label": "20261101000000", "windows": 3, "reason": line.partition(" ")[2].rpartition(", and")[0],
        "looked": "2026-11-04T06:00:00Z", "behind": '{"device":"b"}', "is_stuck": True,
    }  # fmt: skip
    assert "closes    when watermark(at, device) >= WINDOW_END() OR closed_by_hand()" in (
        books.ask("show", "web.daily", "--rows", "0").stdout
    )
    assert "was not made" in books.ask("audit", "web.daily@2026-11-01").stderr


def test_a_window_that_partial_after_will_close_is_not_reported_as_stuck(books: Books) -> None:
    books.found("web.capped", (day(1), Closing(day(2, 12), reason=AT_LAST)), (day(2), Closing(looked=day(3, 6))))
    said = books.ask("status", "web.capped").stdout
    assert "closes at 2026-11-03 12:00 +00:00 at the latest" in said
    assert "if that does not happen" not in said
    books.stocks.fill(until=day(4, 7))
    assert "closed at 2026-11-02 12:00Z, by PARTIAL AFTER, its condition did not hold" in (
        books.ask("audit", "web.capped@2026-11-01").stdout
    )
    books.found("web.daily", (day(1), Closing(day(2, 6), reason=CONDITION)))
    books.stocks.fill(until=day(4, 7))
    assert "closed at 2026-11-02 06:00Z, its condition held" in books.ask("audit", "web.daily@2026-11-01").stdout


def test_a_changed_close_condition_is_checked_again_and_closed_books_stay_closed(books: Books) -> None:
    books.found(
        "web.daily", (day(1), Closing(day(3), reason=CONDITION)), (day(2), Closing(looked=day(4, 6), behind="b"))
    )
    flow = books.stocks.folder / "flows" / "shop.dpl"
    flow.write_text(flow.read_text().replace("watermark(at, device) >=", "max(at) >="))
    with books.stocks.ledger() as ledger:
        anew = books.stocks.project.flow
        found = Planner(anew).books_of(ledger.reads.snapshot(anew), day(4, 7), "web.daily")
    assert found.is_closed(found.table.cadence.window_of(day(1)))
    assert [pair.boundary for pair in found.pairs()][:2] == [day(3), day(3) + timedelta(hours=6)]


def test_a_skipped_window_is_opened_by_a_retry(books: Books) -> None:
    books.ask("skip", "web.daily", "2026-11-01", "--why", "x", "--yes")
    said = books.ask("close", "web.daily@2026-11-01", "--why", "y").stderr
    assert "if it was skipped, `waterclock retry web.daily@20261101000000` opens it" in said
