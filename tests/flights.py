"""Copies the committed flights example into a test's folder, without output of `./bin/demo` in the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from examples.flights import make_data
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.engine.ledger_opening import ledger_url
from waterclock.ledger.ledger import Ledger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# the status and the digest of each batch, by table and label
Digests = dict[tuple[str, str], tuple[str, str]]
# env prod in folders of this machine
FOLDERS = """
[env.prod]
storage = ".waterclock-prod"
publish = true
connections.landing = { path = "data/new" }
connections.ops = { path = "data/ops.sqlite" }
connections.reports = { path = "data/reports-prod.sqlite", create = true }
connections.out = { path = "data/out-prod" }
"""
EXAMPLE = Path(__file__).parents[1] / "examples" / "flights"
COMMITTED = ("*.py", "*.toml", "*.md", ".gitignore", "flows/*.dpl", "flows/*.py", "specs/*.feature")


def committed() -> list[Path]:
    """Return the example's own files, relative to its folder, without Git: an unpacked source distribution has none."""
    return sorted(path.relative_to(EXAMPLE) for pattern in COMMITTED for path in EXAMPLE.glob(pattern))


def put_flights(folder: Path) -> Path:
    """Copy the example's own files into a folder, which is created if it does not exist."""
    for path in committed():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(EXAMPLE / path, folder / path)
    return folder


def prepared(root: Path, settings: str, *, days: int = 1) -> Path:
    """Copy the example into a folder, with some days of data and the settings of env prod."""
    folder = put_flights(root)
    make_data.put_days(folder / "data", make_data.FIRST_DAY, days)
    with (folder / "waterclock.toml").open("a", encoding="utf-8") as file:
        file.write(settings)
    return folder


def over(days: int) -> str:
    """Return the end of the last of the days in New York."""
    return f"2013-01-{1 + days:02d}T05:00Z"


def run(folder: Path, days: int) -> subprocess.Popen[str]:
    """Start a run of env prod in a separate process, at the end of the days."""
    return subprocess.Popen(
        [sys.executable, "-m", "waterclock", "run", "--now", over(days), "--env", "prod", "--project", str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"COLUMNS": "160", "NO_COLOR": "1"},
    )


def digests(folder: Path) -> Digests:
    """Return the status and the digest of each batch of env prod, by table and label."""
    project = load_project(folder, env="prod", capabilities=capabilities())
    with Ledger.open(ledger_url(project)) as ledger:
        return {(row["table"], row["timelabel"]): (row["status"], row["digest"]) for row in ledger.past.rows("batches")}


def troubles(folder: Path) -> dict[tuple[str, str], str]:
    """Return the error of each failed batch of env prod."""
    project = load_project(folder, env="prod", capabilities=capabilities())
    with Ledger.open(ledger_url(project)) as ledger:
        return {(row["table"], row["timelabel"]): row["error"] for row in ledger.past.rows("batches") if row["error"]}


def run_here(folder: Path, spark: SparkSession, days: int) -> Digests:
    """Run env prod on the Spark of this process, and return the digests."""
    from waterclock.engine.run_opening import apply_flow, open_workplace
    from waterclock.engine.runner import Runner
    from waterclock.engine.spark.session import Sessions
    from waterclock.timelabel.zone import parse_instant

    project = load_project(folder, env="prod", capabilities=capabilities())
    now = parse_instant(over(days), "UTC")
    with open_workplace(project, sessions=Sessions.from_session(spark)) as work:
        apply_flow(work, now)
        outcome = Runner(work).run_once(now)
    assert [str(report.error) for report in outcome.failed] == []
    return digests(folder)
