"""A flow that changes while a runner uses it. No Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.tiny import CONNECTIONS, Heard, day
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.engine.batch import retry
from waterclock.engine.flow_reloading import Reloading
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_listener import GroupReport
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.engine.runner import Runner
from waterclock.engine.spark.user_functions import load_function
from waterclock.errors import WaterclockError
from waterclock.ledger.read.signatures import signature_of
from waterclock.ledger.write.rebuilt_tables import MovedTable
from waterclock.planner.plan import Group

COLLECT = (
    "COLLECT web.clicks PARTITIONED (id BIGINT) FROM land.acme.clicks EVERY DAY START '2020-01-01' BY ARRIVAL TIME;"
)
MORE = "TRANSFORM web.counts AS SELECT count(*) AS n FROM web.clicks;"
TOML = """
[project]
name = "tiny"
[env.dev]
storage = ".waterclock"
connections.shop = { path = "shop.sqlite" }
connections.out = { path = "out.sqlite", create = true }
connections.land = { path = "landing/new" }
connections.files = { path = "files" }
"""


@dataclass
class Site:
    """A project that a runner uses."""

    root: Path
    work: RunContext
    said: list[str] = field(default_factory=list)
    times: int = 0

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.write_text(text)
        self.times += 1
        os.utime(path, (1_000_000_000 + self.times, 1_000_000_000 + self.times))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(TOML)
    (tmp_path / "flows" / "flow.dpl").write_text(CONNECTIONS + COLLECT)
    with open_workplace(load_project(tmp_path, capabilities=capabilities())) as work:
        apply_flow(work, day(5))
        yield Site(tmp_path, work)


def test_a_flow_that_was_not_touched_is_kept(site: Site) -> None:
    assert not Reloading(site.work, site.said.append).is_new()
    assert site.said == []


def test_a_changed_flow_is_applied_and_worked_from(site: Site) -> None:
    reloading = Reloading(site.work, site.said.append)
    site.write("flows/flow.dpl", CONNECTIONS + COLLECT + MORE)
    assert reloading.is_new()
    assert set(site.work.flow.tables) == {"web.clicks", "web.counts"}
    applied = site.work.ledger.declared.applied_flow()
    assert applied is not None
    assert applied.fingerprint == site.work.flow.fingerprint
    assert not reloading.is_new()
    assert site.said == ["the changed flow is applied"]


def test_the_past_of_a_table_that_a_change_adds_is_read(site: Site) -> None:
    reloading = Reloading(site.work, site.said.append)
    site.write("flows/flow.dpl", CONNECTIONS + COLLECT + MORE)
    assert reloading.is_new()
    table = site.work.flow.tables["web.counts"]
    site.work.ledger.decisions.skip("web.counts", [table.cadence.window_of(day(1))], who="ann", why="")
    assert Runner(site.work).snapshot().of("web.counts").covered.covers_instant(day(1))


def test_a_flow_that_cannot_be_applied_leaves_the_past_of_the_flow_before(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise WaterclockError("E435", "no", where="flow.dpl", why="so", fix="wait")

    monkeypatch.setattr("waterclock.engine.flow_reloading.apply_flow", refuse)
    reloading, links = Reloading(site.work, site.said.append), site.work.links
    site.write("flows/flow.dpl", CONNECTIONS + COLLECT + MORE)
    assert not reloading.is_new()
    assert site.work.links is links


ALERTS = """
alerts = true
[alerts.targets.desk]
webhook = "https://desk.example/hook"
[alerts.rules.all]
to = ["desk"]
"""


def test_settings_of_alerts_that_change_alone_are_applied(site: Site) -> None:
    reloading = Reloading(site.work, site.said.append)
    for text, is_on in ((TOML + ALERTS, True), (TOML, False)):
        site.write("waterclock.toml", text)
        assert reloading.is_new()
        assert site.work.project.alerts.is_on is is_on
        assert not reloading.is_new()
    assert site.said == ["the changed settings are applied"] * 2


def test_a_comment_is_no_change_of_settings(site: Site) -> None:
    reloading = Reloading(site.work, site.said.append)
    site.write("waterclock.toml", TOML + "# a comment\n")
    site.write("flows/flow.dpl", CONNECTIONS + COLLECT + " -- a comment")
    assert not reloading.is_new()
    assert site.said == []


def test_a_new_file_is_a_change(site: Site) -> None:
    reloading = Reloading(site.work, site.said.append)
    site.write("flows/more.dpl", MORE)
    assert reloading.is_new()
    assert "web.counts" in site.work.flow.tables


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("flows/flow.dpl", "TRANSFORM web.counts AS SELECT 1 FROM nowhere.at;", "the runner keeps the previous one"),
        ("flows/code.py", "import nowhere\n", "the runner keeps the previous one"),
        ("waterclock.toml", TOML.replace('".waterclock"', '"elsewhere"'), "storage, ledger, publish or spark changed"),
    ],
)
def test_an_invalid_change_is_reported_once_and_the_previous_flow_stays_in_use(
    site: Site, name: str, text: str, told: str
) -> None:
    reloading, before = Reloading(site.work, site.said.append), site.work.project
    site.write(name, text)
    assert not reloading.is_new()
    assert not reloading.is_new()
    assert site.work.project is before
    assert len(site.said) == 1
    assert told in site.said[0]


def test_a_flow_is_taken_up_though_only_a_rebuild_can_follow_one_of_its_tables(site: Site) -> None:
    ledger, table = site.work.ledger, site.work.flow.tables["web.clicks"]
    ledger.decisions.skip("web.clicks", [table.cadence.window_of(day(1))], who="ann", why="")
    reloading = Reloading(site.work, site.said.append)
    site.write("flows/flow.dpl", CONNECTIONS + COLLECT.replace("EVERY DAY", "EVERY HOUR"))
    assert reloading.is_new()
    assert not reloading.is_new()
    new = site.work.flow
    assert str(new.tables["web.clicks"].cadence.period) == "HOUR"
    assert list(ledger.declared.refused_tables(new)) == ["web.clicks"]
    signature = signature_of(new.tables["web.clicks"])
    ledger.maintenance.begin_rebuilding("t", runner="another", who="ann", lease_seconds=60)
    ledger.maintenance.begin_moving("t")
    moved = MovedTable(
        "web.clicks", signature, "", None, ledger.maintenance.take_claim_number(), 0, None, is_recut=True
    )
    ledger.maintenance.record_set("t", [moved], who="ann", flow=new.fingerprint)
    assert ledger.declared.refused_tables(new) == {}
    assert site.said == ["the changed flow is applied"]


CODE = """
import waterclock as wc
from helpers import factor

@wc.function("scaled", parameters="n BIGINT", returns="BIGINT")
def scaled(n: int) -> int:
    return n * {times} * factor()
"""


def test_changed_python_code_is_reloaded_with_the_modules_it_imports(site: Site) -> None:
    site.write("helpers.py", "def factor():\n    return 10\n")
    site.write("flows/code.py", CODE.format(times=2))
    reloading = Reloading(site.work, site.said.append)
    site.write("flows/flow.dpl", CONNECTIONS + COLLECT + "TRANSFORM web.n AS SELECT scaled(id) AS n FROM web.clicks;")
    assert reloading.is_new()

    def scaled() -> int:
        function = site.work.flow.functions["scaled"].python
        assert function is not None
        found: int = load_function(site.root, function)(1)
        return found

    assert scaled() == 20
    site.write("flows/code.py", CODE.format(times=3))
    assert reloading.is_new()
    assert scaled() == 30
    site.write("helpers.py", "def factor():\n    return 100\n")
    assert reloading.is_new()
    assert scaled() == 300
    assert str(site.root) not in sys.path


def test_a_repaired_flow_is_loaded(site: Site) -> None:
    reloading = Reloading(site.work, site.said.append)
    site.write("flows/flow.dpl", "nonsense")
    assert not reloading.is_new()
    site.write("flows/flow.dpl", CONNECTIONS + COLLECT + MORE)
    assert reloading.is_new()


def test_a_runner_whose_flow_is_not_the_applied_one_claims_no_batches_and_reports_it_once(site: Site) -> None:
    heard = Heard()
    site.work.listener = heard
    newer = replace(site.work.flow, fingerprint="another's")
    site.work.ledger.declared.apply(newer, who="ben", now=day(5), runner="elsewhere")
    runner = Runner(site.work)
    for _ in range(2):
        outcome = runner.run_once(day(5))
        assert (outcome.done, outcome.failed) == (0, [])
        assert outcome.plan is not None
    assert len(heard.said_) == 1
    assert heard.said_[0].startswith("another flow was applied at ")
    assert site.work.ledger.claims.open() == []


@dataclass
class Renaming(Heard):
    """Has another runner rename the tables once the observed runner has planned."""

    rename: Callable[[], None] = lambda: None

    def on_group_start(self, group: Any) -> None:
        del group
        self.rename()


@pytest.mark.parametrize("waits", [True, False])
def test_a_rename_while_a_runner_has_the_old_flow_fails_no_batch_and_is_reported_once(
    site: Site, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planned tables have other names when the runner claims their batches."""
    collect = "COLLECT web.{} PARTITIONED (id BIGINT, at TIMESTAMP) FROM shop.{} EVERY DAY BY DATA TIME at{};"
    start = " START '2020-01-01'"
    reloading = Reloading(site.work, site.said.append)
    site.write("flows/flow.dpl", CONNECTIONS + "".join(collect.format(it, it, start) for it in "abc"))
    assert reloading.is_new()
    site.write(
        "flows/flow.dpl",
        CONNECTIONS + "".join(collect.format(f"new_{it}", it, f"{start} WAS web.{it}") for it in "abc"),
    )

    def rename() -> None:
        with open_workplace(load_project(site.root, capabilities=capabilities())) as other:
            apply_flow(other, day(5))

    def fails_before_its_claim(work: RunContext, group: Group, now: datetime) -> GroupReport:
        del now
        with pytest.raises(WaterclockError, match="knows no table") as raised:
            work.ledger.reads.table(group.table)
        return GroupReport(group, None, error=raised.value)

    monkeypatch.setattr(retry, "run_group", fails_before_its_claim)
    monkeypatch.setattr(type(site.work.sessions), "root", lambda _: None)
    site.work.listener = heard = Renaming(rename=rename)
    runner = Runner(site.work, waits=waits)
    for _ in range(2):
        outcome = runner.run_once(day(5))
        assert (outcome.done, outcome.failed, outcome.is_outdated) == (0, [], True)
    assert all(report.is_repeat for report in heard.finished_)
    assert len(heard.said_) == 1
    assert "this runner has an older flow and claims nothing" in heard.said_[0]
