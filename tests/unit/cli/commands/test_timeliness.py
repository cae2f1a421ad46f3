"""Output of `status`, `plan` and `show` about deadlines and delays of tables."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.stocks import Stocks, make
from tests.unit.cli.conftest import ask
from waterclock.alerts.checking import RunFindings, check_alerts

FLOW = """\
CREATE CONNECTION shop TYPE files OPTIONS (path 'landing');
COLLECT web.clicks PARTITIONED (id BIGINT, at TIMESTAMP)
  FROM shop.clicks EVERY 6 HOURS START '2026-11-01' BY DATA TIME at;
TRANSFORM web.daily PARTITIONED EVERY DAY DEADLINE 4 HOURS RUNTIME 20 MINUTES AS SELECT id FROM web.clicks;
TRANSFORM web.weekly PARTITIONED EVERY DAY DEADLINE 1 DAY AS SELECT id FROM PAST(web.daily, '3 days');
"""
BROKEN = "E731 id is no number: x"
MISSED = (
    "web.daily @ 2026-11-10 missed the deadline: to be done by 2026-11-11 04:00Z; web.clicks @ 2026-11-10 18:00 failed"
)


@dataclass
class Web:
    """A project in which everything is done, except the batches blocked by a broken file."""

    stocks: Stocks

    def ask(self, *arguments: str, now: str = "2026-11-11T05:00Z", width: int = 160) -> Any:
        timed = () if arguments[0] == "show" else ("--now", now)
        return ask(*arguments, "--project", str(self.stocks.folder), *timed, width=width)

    def json(self, *arguments: str, now: str = "2026-11-11T05:00Z") -> Any:
        return json.loads(self.ask(*arguments, "--json", now=now).stdout)


def day(number: int, hour: int = 0) -> datetime:
    return datetime(2026, 11, number, hour, tzinfo=UTC)


@pytest.fixture
def web(tmp_path: Path) -> Web:
    stocks = make(tmp_path / "web", FLOW, "[project]\nname = 'web'\n")
    (stocks.folder / "landing").mkdir()
    stocks.fails = {("web.clicks", day(10, 18)): BROKEN}
    for number in range(4, 12):
        stocks.now = day(number, 1)
        stocks.fill()
    return Web(stocks)


def test_a_missed_deadline_is_reported_with_the_failure_that_caused_it(web: Web) -> None:
    for command in ("status", "plan"):
        said = web.ask(command).stdout
        assert f"{MISSED}: E731 id is no number: x" in said
        assert "web.weekly" not in "".join(line for line in said.splitlines() if "deadline" in line)
    [due] = web.json("plan")["deadlines"]
    assert due == web.json("status", "web.daily")["deadlines"][0]
    assert {key: due[key] for key in ("table", "label", "by", "situation", "status", "fresh_to")} == {
        "table": "web.daily", "label": "20261110000000", "by": "2026-11-11T04:00:00Z", "situation": "missed",
        "status": "blocked", "fresh_to": "2026-11-10T00:00:00Z",
    }  # fmt: skip
    assert due["cause"]["table"] == "web.clicks"
    assert web.json("status", "web.clicks")["deadlines"] == []


def test_a_blocked_batch_is_near_its_deadline_after_half_of_its_time(web: Web) -> None:
    assert web.json("status", now="2026-11-11T01:30Z")["deadlines"] == []
    [due] = web.json("status", now="2026-11-11T02:00Z")["deadlines"]
    assert (due["table"], due["situation"]) == ("web.daily", "near")
    assert "web.daily @ 2026-11-10 near the deadline: to be done by" in web.ask("plan", now="2026-11-11T02:00Z").stdout


def test_windows_that_ended_before_a_table_started_miss_no_deadline(web: Web) -> None:
    with web.stocks.ledger() as ledger:
        assert ledger.past.began(["web.daily"]) == {"web.daily": day(4, 1)}
    told = web.json("status", now="2026-11-14T05:00Z")["deadlines"]
    assert [(due["table"], due["label"][:8]) for due in told if due["situation"] == "missed"] == [
        *(("web.daily", f"202611{number}") for number in (10, 11, 12, 13)),
        *(("web.weekly", f"202611{number}") for number in (10, 11, 12)),
    ]
    lines = [line for line in web.ask("status", now="2026-11-14T05:00Z").stdout.splitlines() if "deadline" in line]
    assert [line.split(" missed")[0][2:] for line in lines] == [
        "web.daily @ 2026-11-10",  # because of the failure
        "web.daily @ 2026-11-11 .. 2026-11-13 (3 windows)",  # because no runner is active
        "web.weekly @ 2026-11-10 .. 2026-11-12 (3 windows)",
    ]


def test_a_table_is_shown_with_its_deadline(web: Web) -> None:
    said = web.ask("show", "web.daily", "--rows", "0").stdout
    assert "deadline  4 hours after each window, taking up to 20 minutes" in said
    shown = web.json("show", "web.daily", "--rows", "0")
    assert (shown["deadline"], shown["runtime"]) == ("4 HOURS", "20 MINUTES")


def test_lag_is_reported_for_each_selected_table(web: Web) -> None:
    lag = {each["table"]: each for each in web.json("status", "--lag")["lag"]}
    assert list(lag) == ["web.clicks", "web.daily", "web.weekly"]
    daily = lag["web.daily"]
    assert (daily["labels"], daily["behind"], daily["rows_are_more"]) == (1, 29 * 3600, False)
    assert daily["inputs_to"] == lag["web.clicks"]["fresh_to"]
    assert daily["done_after"]["labels"] == 6
    assert 3600 < daily["done_after"]["p50"] <= daily["done_after"]["max"] < 3700
    assert daily["done_after"]["late"] == 0
    assert lag["web.clicks"]["inputs_to"] is None
    said = web.ask("status", "--lag", "web.daily").stdout
    assert [line.split()[:2] for line in said.splitlines() if line.startswith("web.")] == [["web.daily", "2026-11-10"]]
    assert "29 h" in said
    assert MISSED in said
    assert web.json("status")["lag"] is None


def test_on_a_narrow_terminal_nothing_of_lag_is_cut_off(web: Web) -> None:
    said = web.ask("status", "--lag", width=70).stdout
    assert "…" not in said
    heads = [line.split() for line in said.splitlines() if line.startswith("table")]
    assert heads[0] == ["table", "done", "to", "age", "inputs", "labels", "rows"]
    assert heads[1:] == [["table", "p50", "p95", "max", "late"]]


def test_lag_is_of_now(web: Web) -> None:
    for more in (("--by", "day"), ("--labels", "2026-11"), ("web.daily@2026-11",)):
        refused = web.ask("status", "--lag", *more)
        assert refused.exit_code == 1
        assert "E919 --lag measures all labels up to now" in refused.output


def test_a_silent_source_is_reported_only_at_its_collect(tmp_path: Path) -> None:
    flow = FLOW.replace("6 HOURS START '2026-11-01'", "DAY START '2026-09-01'")
    stocks = make(tmp_path / "web", flow, "[project]\nname = 'web'\n")
    (stocks.folder / "landing").mkdir()
    stocks.now, stocks.fails = day(8, 1), {}
    stocks.fill()
    web = Web(stocks)
    assert web.json("status")["silent"] == []
    with stocks.ledger() as ledger, ledger._database.write() as write:
        newer = f"label >= {int(day(5).timestamp()) * 1_000_000}"
        write.execute(sa.text(f"UPDATE batches SET rows = 0 WHERE {newer}"))
    assert web.json("status")["silent"] == [
        {"table": "web.clicks", "since": "20261105000000", "labels": 3, "expected": 3, "rows_to": "20261104000000"}
    ]
    said = (
        "web.clicks: no rows arrived from shop for 2026-11-05 .. 2026-11-07 (3 labels), "
        "although rows usually arrive then"
    )
    assert said in web.ask("status").stdout
    assert said in web.ask("status", "--lag").stdout
    assert web.json("status", "web.daily")["silent"] == []


def test_a_check_raises_and_resolves_deadline_alerts(tmp_path: Path) -> None:
    told = "[alerts.targets.desk]\nwebhook = 'http://127.0.0.1:9/hook'\n[env.dev]\nalerts = true\n"
    header = f"[project]\nname = 'web'\n{told}"
    stocks = make(tmp_path / "web", FLOW, header)
    (stocks.folder / "landing").mkdir()
    stocks.fails = {("web.clicks", day(10, 18)): BROKEN}
    for number in range(4, 12):
        stocks.now = day(number, 1)
        stocks.fill()
    project = stocks.project

    def kinds(now: datetime) -> list[str]:
        stocks.now = now
        with stocks.ledger() as ledger:
            check_alerts(project, ledger, lambda: ledger.reads.snapshot(project.flow), now, RunFindings())
            return sorted(alert.trouble.kind for alert in ledger.alerts.known() if alert.is_open)

    assert kinds(day(11, 1)) == ["failed"]
    assert kinds(day(11, 2)) == ["failed", "near"]
    assert kinds(day(11, 4)) == ["failed", "missed"]
    stocks.fails = {}
    with stocks.ledger() as ledger:
        ledger.decisions.retry("web.clicks", [day(10, 18)], who="ann")
    stocks.fill()
    assert kinds(stocks.now) == []
