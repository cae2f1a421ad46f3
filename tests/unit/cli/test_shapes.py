"""Output of commands about tables of other projects, and about SHARED views. No Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.other_project import OtherProject
from waterclock.cli.app import app

LINKED = """
CREATE CONNECTION upstream TYPE waterclock;
COLLECT here.orders PARTITIONED FROM upstream.shop.{table} EVERY {every} START '2013-01-01' {by};
TRANSFORM marts.orders PARTITIONED EVERY DAY AS SELECT * FROM here.orders;
"""
BY = "BY DATA TIME timelabel"
SHARED = """
CREATE CONNECTION till TYPE sqlite;
COLLECT raw.a PARTITIONED FROM till.a EVERY DAY START '2013-01-01' BY DATA TIME at;
CREATE VIEW w.items SHARED AS SELECT * FROM raw.a;
TRANSFORM m.one PARTITIONED AS SELECT id FROM w.items;
TRANSFORM m.two EVERY DAY MERGE ON (id) AS SELECT id FROM w.items;
TRANSFORM m.three PARTITIONED EVERY MONTH AS SELECT id FROM w.items;
"""


def declare(folder: Path, dpl: str) -> Path:
    (folder / "here" / "flows").mkdir(parents=True, exist_ok=True)
    (folder / "here" / "flows" / "a.dpl").write_text(dpl)
    toml = '[project]\nname = "here"\n[env.dev]\nconnections.upstream = { path = "../other" }\n'
    toml = toml if "upstream" in dpl else toml.replace("upstream", "till").replace("../other", "till.sqlite")
    (folder / "here" / "waterclock.toml").write_text(toml)
    return folder / "here"


def ask(folder: Path, *said: str) -> Result:
    return CliRunner().invoke(app, [*said, "--project", str(folder)], env={"COLUMNS": "100", "NO_COLOR": "1"})


@pytest.fixture
def other(tmp_path: Path) -> OtherProject:
    made = OtherProject(tmp_path)
    made.land(datetime(2013, 1, 1, tzinfo=UTC), [{"id": "a", "note": "n"}])
    return made


@pytest.mark.parametrize(
    ("table", "every", "by", "told"),
    [
        ("orders", "30 MINUTES", BY, ["E835 windows of here.orders do not fit those of upstream.shop.orders", "HOUR"]),
        ("order", "DAY", BY, ["E834 the other project has no table shop.order", "did you mean shop.orders?"]),
        (
            "newest",
            "DAY",
            BY,
            ["E834 upstream.shop.newest cannot be read in this way", "leave BY DATA TIME timelabel out"],
        ),
    ],
)
@pytest.mark.usefixtures("other")
def test_check_rejects_unreadable_tables_of_a_linked_project(
    tmp_path: Path, table: str, every: str, by: str, told: list[str]
) -> None:
    found = ask(declare(tmp_path, LINKED.format(table=table, every=every, by=by)), "check")
    assert found.exit_code == 1
    assert all(each in found.output for each in [*told, "flows/a.dpl:3"]), found.output


@pytest.mark.usefixtures("other")
def test_plan_status_and_lineage_name_the_upstream_table(tmp_path: Path) -> None:
    folder = declare(tmp_path, LINKED.format(table="orders", every="DAY", by=BY))
    assert ask(folder, "check").exit_code == 0
    [batch, *_] = json.loads(ask(folder, "plan", "--json", "--now", "2013-01-02").output)["batches"]
    assert batch["causes"] == [
        {
            "table": "upstream.shop.orders",
            "label": "20130101010000",
            "status": "waiting",
            "detail": "which is not made there yet",
        }
    ]
    assert "1 due" not in ask(folder, "status", "--now", "2013-01-02").output.splitlines()[0]
    told = json.loads(ask(folder, "lineage", "marts.orders", "--json").output)
    assert told["collected"] == {"here.orders": "upstream.shop.orders"}
    assert "collects upstream.shop.orders, of another project" in ask(folder, "lineage", "here.orders").output


def test_plan_and_lineage_show_shared_views_with_their_readers(tmp_path: Path) -> None:
    folder = declare(tmp_path, SHARED)
    found = ask(folder, "plan", "--now", "2013-02-02").output
    assert "w.items is SHARED: read once per label for m.one, m.two\n" in found
    told = json.loads(ask(folder, "plan", "--json", "--now", "2013-02-02").output)
    assert told["shared"] == {"w.items": ["m.one", "m.two"]}
    assert "reads w.items, SHARED with m.one, m.three" in ask(folder, "lineage", "m.two").output
    told = json.loads(ask(folder, "lineage", "m.one", "--json").output)
    assert told["shared"] == {"w.items": ["m.one", "m.two", "m.three"]}
