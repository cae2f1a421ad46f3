"""Logs that sources retain for collects BY CHANGES: recorded by runs, shown by status, plan, show and alerts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.listening import Heard, listening
from tests.unit.cli.conftest import Shop
from tests.unit.cli.test_alerts import Clock, Telling, webhook
from waterclock.batches.log_retention import LogSafety, RetainedLog, limit_of
from waterclock.connectors.postgres.connector import PostgresCollector
from waterclock.engine.maintenance import log_measurements
from waterclock.engine.maintenance.log_measurements import is_new, watch_logs
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.errors import WaterclockError
from waterclock.ledger.read.source_events import KEPT, SourceEvent
from waterclock.operations.project_opening import open_project

GB = 10**9
FLOW = """
CREATE CONNECTION ops TYPE postgres;
COLLECT ops_copy.orders (id KEY, *) FROM ops.orders {options}EVERY 5 MINUTES START '2024-11-18' BY CHANGES MERGE;
"""


class Source:
    """A fake server with the retained logs by name, and the requests it received."""

    def __init__(self) -> None:
        self.keeps: dict[str, RetainedLog] = {}
        self.asked: list[list[str]] = []
        self.is_away = False

    def find_retained_logs(self, unit: object, names: Sequence[str]) -> Mapping[str, RetainedLog]:
        del unit
        self.asked.append(list(names))
        if self.is_away:
            raise WaterclockError("E810", "the database does not answer")
        return {name: self.keeps.get(name, RetainedLog(LogSafety.GONE)) for name in names}


class Followed:
    """A shop that follows a table of a server."""

    def __init__(self, shop: Shop, source: Source) -> None:
        self.shop, self.source, self.clock = shop, source, Clock()
        self.declare()

    def declare(self, options: str = "", flow: str = FLOW) -> None:
        (self.shop.folder / "flows" / "9_ops.dpl").write_text(flow.format(options=options), encoding="utf-8")
        file = self.shop.folder / "waterclock.toml"
        said = file.read_text(encoding="utf-8")
        if "connections.ops" not in said:
            url = 'connections.ops = { url = "postgresql://nobody@127.0.0.1:1/none" }\n'
            file.write_text(said.replace("[env.dev]\n", f"[env.dev]\n{url}", 1), encoding="utf-8")

    def begins_with(self, name: str, kept: RetainedLog) -> None:
        """Record that the source retains a log for the table, under a name."""
        data = {"name": name, "connection": "ops", "unit": "orders"}
        self.shop.ledger.past.add_event(KEPT, who="ann", table="ops_copy.orders", data=data)
        self.source.keeps[name] = kept

    def run(self) -> None:
        """Check the retained logs as a run does at its end."""
        with open_workplace(open_project(self.shop.folder, None)) as work:
            apply_flow(work, work.real_now())
            for _ in range(2):  # the check runs at most once a minute
                watch_logs(work)

    def told(self, command: str = "status") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.shop.json(command)["kept_at_sources"]
        return found


@pytest.fixture
def followed(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Followed:
    source = Source()
    monkeypatch.setattr(PostgresCollector, "find_retained_logs", source.find_retained_logs)
    return Followed(shop, source)


def test_status_plan_and_show_report_the_log_seen_by_a_run_without_querying_the_source(followed: Followed) -> None:
    assert followed.told() == []
    followed.begins_with("waterclock_one", RetainedLog(LogSafety.SAFE, 30_000_000, 20_000, None))
    followed.run()
    assert followed.source.asked == [["waterclock_one"]]
    (told,) = followed.told()
    assert (told["table"], told["connection"], told["name"]) == ("ops_copy.orders", "ops", "waterclock_one")
    assert (told["condition"], told["held"], told["behind"], told["limit"]) == ("safe", 30_000_000, 20_000, 10 * GB)
    assert told["at"]
    assert not told["is_troubled"]
    assert followed.told("plan") == [told]
    assert followed.shop.json("show", "ops_copy.orders", "--rows", "0")["kept_at_source"] == told
    assert followed.shop.json("show", "shop.orders", "--rows", "0")["kept_at_source"] is None
    assert "1 log is followed, of which 30.0 MB at most are held back (seen" in followed.shop.ask("status").stdout
    said = followed.shop.ask("show", "ops_copy.orders", "--rows", "0").stdout
    assert "ops: waterclock_one holds back 30.0 MB of the log, 20.0 kB not collected (seen" in said
    assert len(followed.source.asked) == 1


def test_a_log_that_is_too_large_or_lost_is_reported_with_a_fix(followed: Followed) -> None:
    followed.begins_with("waterclock_one", RetainedLog(LogSafety.SAFE, 11 * GB, 10 * GB, None))
    followed.run()
    said = followed.shop.ask("status", width=300).stdout
    assert "waterclock_one holds back 11.0 GB of the log, 10.0 GB not collected, more than 10.0 GB (seen" in said
    assert "`waterclock plan ops_copy.orders`), or raise its log_limit" in said
    followed.declare("OPTIONS (log_limit 20) ")
    assert not followed.told()[0]["is_troubled"]
    for stands, words in (
        (LogSafety.LOSING, "and the server may remove it at any time"),
        (LogSafety.LOST, "has lost its log"),
        (LogSafety.GONE, "is gone"),
    ):
        followed.source.keeps["waterclock_one"] = RetainedLog(stands, 5, 5, 8)
        followed.run()
        assert words in followed.shop.ask("plan", width=300).stdout
        assert followed.told()[0]["is_troubled"]


def test_a_new_snapshots_log_name_replaces_the_old_one(followed: Followed) -> None:
    followed.begins_with("waterclock_one", RetainedLog(LogSafety.LOST))
    followed.run()
    followed.begins_with("waterclock_two", RetainedLog(LogSafety.SAFE, 7, 3, 100))
    (told,) = followed.told()
    assert (told["name"], told["at"], told["is_troubled"]) == ("waterclock_two", None, False)
    followed.run()
    (told,) = followed.told()
    assert (told["name"], told["held"], told["limit"]) == ("waterclock_two", 7, 50)


def test_a_source_that_does_not_answer_changes_nothing(followed: Followed) -> None:
    followed.begins_with("waterclock_one", RetainedLog(LogSafety.SAFE, 7, 3, 100))
    followed.run()
    before = followed.told()
    followed.source.is_away = True
    followed.run()
    assert followed.told() == before


def test_a_run_succeeds_if_the_ledger_cannot_record_the_log_measurement(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed.begins_with("waterclock_one", RetainedLog(LogSafety.SAFE, 7, 3, 100))

    def locked(*_: object, **__: object) -> None:
        raise WaterclockError("E415", "the ledger is locked", transient=True)

    monkeypatch.setattr(log_measurements, "is_new", locked)
    followed.run()
    assert followed.told()[0]["at"] is None


def test_a_log_retained_for_a_removed_table_is_reported_with_the_command_that_drops_it(followed: Followed) -> None:
    followed.run()  # registers the table in the ledger
    followed.begins_with("waterclock_one", RetainedLog(LogSafety.SAFE, 7, 3, None))
    followed.declare(flow="CREATE CONNECTION ops TYPE postgres;\n")
    (told,) = followed.told()
    assert (told["name"], told["is_needed"]) == ("waterclock_one", False)
    said = followed.shop.ask("status", width=300).stdout
    assert (
        "ops_copy.orders: ops: waterclock_one holds back 0 B of the log, and no table needs it; `waterclock maintain`"
        in said
    )
    assert followed.shop.json("status", "shop.*")["kept_at_sources"] == []


@pytest.fixture
def hook() -> Iterator[Heard]:
    with listening() as heard:
        yield heard


def test_a_growing_log_sends_an_alert_and_a_resolution(followed: Followed, hook: Heard) -> None:
    telling = Telling(followed.shop)
    telling.say(webhook(hook))
    followed.begins_with("waterclock_one", RetainedLog(LogSafety.SAFE, 11 * GB, 10 * GB, None))
    followed.run()
    telling.look()
    followed.source.keeps["waterclock_one"] = RetainedLog(LogSafety.LOST)
    followed.run()
    telling.look(30)
    followed.source.keeps["waterclock_one"] = RetainedLog(LogSafety.SAFE, 5, 5, None)
    followed.run()
    telling.look(30)
    telling.ledger.close()
    lines = [line for line in telling_lines(hook) if "log" in line]
    assert lines[0].startswith("ops_copy.orders holds back a log: ops: waterclock_one holds back 11.0 GB of the log")
    assert "ops_copy.orders loses its log: ops: waterclock_one has lost its log" in lines
    assert any(line.startswith("resolved: ops_copy.orders loses its log") for line in lines)
    assert any(line.startswith("resolved: ops_copy.orders holds back a log") for line in lines)


def telling_lines(hook: Heard) -> list[str]:
    """Return the first line of each alert."""
    return [
        alert["annotations"]["description"].splitlines()[0] for message in hook.bodies for alert in message["alerts"]
    ]


@pytest.mark.parametrize(
    ("before", "after", "minutes", "is_noted"),
    [
        (None, RetainedLog(LogSafety.SAFE), 0, True),
        (RetainedLog(LogSafety.SAFE, 100), RetainedLog(LogSafety.SAFE, 900), 5, False),
        (RetainedLog(LogSafety.SAFE, 100), RetainedLog(LogSafety.SAFE, 100), 61, True),
        (RetainedLog(LogSafety.SAFE, 100), RetainedLog(LogSafety.LOSING, 100), 1, True),
        (RetainedLog(LogSafety.SAFE, 1 << 30), RetainedLog(LogSafety.SAFE, 3 << 30), 1, True),
        (RetainedLog(LogSafety.SAFE, 9 * GB), RetainedLog(LogSafety.SAFE, 11 * GB), 1, True),
        (RetainedLog(LogSafety.SAFE, 11 * GB), RetainedLog(LogSafety.SAFE, 12 * GB), 1, False),
        (RetainedLog(LogSafety.SAFE, 11 * GB), RetainedLog(LogSafety.SAFE, 2 * GB), 1, True),
    ],
)
def test_a_log_measurement_is_recorded_only_if_it_differs_enough_or_is_old(
    before: RetainedLog | None, after: RetainedLog, minutes: int, is_noted: bool
) -> None:
    now = Clock().now
    seen = None if before is None else SourceEvent(now, before.to_entry("one"))
    assert is_new(None, "one", seen, after, now + timedelta(minutes=minutes)) is is_noted
    if seen is not None:
        assert is_new(None, "two", replace(seen), after, now + timedelta(minutes=minutes))


def test_the_log_limit_is_at_most_half_of_the_servers_log_retention() -> None:
    assert (limit_of(None, None), limit_of(None, 4 * GB), limit_of(None, 90 * GB)) == (10 * GB, 2 * GB, 10 * GB)
