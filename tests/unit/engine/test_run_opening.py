"""Facts recorded when a run starts. No Spark."""

from __future__ import annotations

import gzip
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.tiny import CONNECTIONS, day
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.engine.runner import Runner
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.store.schema import schemas

ARRIVING = "COLLECT web.clicks PARTITIONED (id BIGINT) FROM land.acme.clicks EVERY 1 MINUTE BY ARRIVAL TIME;"
LOOKED_AT = "COLLECT web.plans (id BIGINT) FROM land.acme.plans EVERY 1 MINUTE;"
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
MINUTE = timedelta(minutes=1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a project without a default START."""
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(TOML)
    return tmp_path


def due_at(root: Path, now: datetime) -> list[str]:
    """Start a run at `now` as a new process does, and return the due labels."""
    with open_workplace(load_project(root, capabilities=capabilities())) as work:
        apply_flow(work, now)
        return [batch.window.label for batch in Runner(work).plan(now).batches]


@pytest.mark.parametrize("statement", [ARRIVING, LOOKED_AT], ids=["arrivals", "snapshot"])
def test_a_collect_without_start_is_due_at_the_first_plan_and_at_each_later_one(root: Path, statement: str) -> None:
    (root / "flows" / "flow.dpl").write_text(CONNECTIONS + statement)
    first = day(5) + timedelta(seconds=20)

    assert due_at(root, first) == ["20200104235900"]
    later = due_at(root, first + 2 * MINUTE)

    arrived = ["20200104235900", "20200105000000", "20200105000100"]
    assert later == (arrived if statement is ARRIVING else arrived[-1:])
    with Ledger.open(f"sqlite:///{root / '.waterclock' / 'ledger.db'}") as ledger:
        (name,) = [record.name for record in ledger.reads.tables()]
        assert ledger.reads.table(name).start == day(5) - MINUTE
        assert [row["kind"] for row in ledger.past.rows("events")].count("start set") == 1


def test_files_that_arrived_before_the_first_run_are_collected_by_it(root: Path) -> None:
    (root / "flows" / "flow.dpl").write_text(CONNECTIONS + ARRIVING)
    landing = root / "landing" / "new" / "acme" / "clicks"
    landing.mkdir(parents=True)
    for stamp in ("2020_01_03_07_00_05", "2020_01_04_23_50_30"):
        (landing / f"acme_clicks_{stamp}.csv.gz").write_bytes(gzip.compress(b"id\n1\n", mtime=0))

    labels = due_at(root, day(5) + timedelta(seconds=20))
    assert labels[0] == "20200104234900"  # the source delivered all of it, and nothing later
    assert labels[-1] == "20200104235900"
    assert due_at(root, day(5) + MINUTE)[0] == "20200104234900"


def test_a_source_that_cannot_be_read_yet_stops_no_run(root: Path) -> None:
    (root / "flows" / "flow.dpl").write_text(CONNECTIONS + ARRIVING)
    (root / "landing").write_text("no folder")
    assert due_at(root, day(5)) == ["20200104235900"]


def test_a_missing_start_of_a_flow_applied_by_an_older_release_is_recorded(root: Path) -> None:
    (root / "flows" / "flow.dpl").write_text(CONNECTIONS + ARRIVING)
    project = load_project(root, capabilities=capabilities())
    with open_workplace(project) as work:
        work.ledger.declared.apply(work.flow, who="ann", now=day(5), runner="before")  # applied, and no START set
        apply_flow(work, day(6))
        assert work.ledger.reads.table("web.clicks").start == day(6) - MINUTE


def test_each_version_of_a_statement_is_recorded_when_a_run_first_applies_it(root: Path) -> None:
    for minutes in ("1 MINUTE", "1 MINUTE", "5 MINUTES"):
        (root / "flows" / "flow.dpl").write_text(f"{CONNECTIONS}\n{LOOKED_AT}\n{ARRIVING.replace('1 MINUTE', minutes)}")
        with open_workplace(load_project(root, capabilities=capabilities())) as work:
            apply_flow(work, day(5))
    with Ledger.open(f"sqlite:///{root / '.waterclock' / 'ledger.db'}") as ledger:
        texts = {name: [each.statement for each in ledger.past.codes(name)] for name in ("web.clicks", "web.plans")}
    assert texts == {"web.clicks": [ARRIVING.replace("1 MINUTE", "5 MINUTES"), ARRIVING], "web.plans": [LOOKED_AT]}


def test_recorded_schemas_move_to_the_new_name_of_a_renamed_table(root: Path) -> None:
    (root / "flows" / "flow.dpl").write_text(CONNECTIONS + ARRIVING)
    with open_workplace(load_project(root, capabilities=capabilities())) as work:
        apply_flow(work, day(5))
        version = {"table_name": "web.clicks", "side": "table", "version": 1, "label": day(4), "claim": 1, "at": day(5)}
        with work.ledger.declared.database.write() as write:
            write.execute(sa.insert(schemas), {**version, "columns": {"id": "BIGINT"}})
        assert len(work.schemas_of("web.clicks")) == 1
        (root / "flows" / "flow.dpl").write_text(
            CONNECTIONS + ARRIVING.replace("web.clicks PARTITIONED (id BIGINT)", "web.hits PARTITIONED (id BIGINT)")
            .replace("BY ARRIVAL TIME;", "BY ARRIVAL TIME WAS web.clicks;")
        )  # fmt: skip
        work.project = load_project(root, capabilities=capabilities())
        apply_flow(work, day(5))
        assert (len(work.schemas_of("web.hits")), work.schemas_of("web.clicks")) == (1, ())
