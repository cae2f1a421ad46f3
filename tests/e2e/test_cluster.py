"""The flights example on a Spark cluster, by its project file alone: the digests are those of this process's Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from examples.flights import make_data
from tests.cluster import Cluster, cluster, connect_server
from tests.flights import put_flights
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.engine.ledger_opening import ledger_url
from waterclock.ledger.ledger import Ledger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

AT_CLUSTER = """
[env.prod]
storage = ".waterclock-prod"
publish = true
connections.landing = { path = "data/new" }
connections.ops = { path = "data/ops.sqlite" }
connections.reports = { path = "data/reports-prod.sqlite", create = true }
connections.out = { path = "data/out-prod" }
"""


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


def prepared(root: Path, settings: str = "", *, days: int = 1) -> Path:
    folder = put_flights(root)
    make_data.put_days(folder / "data", make_data.FIRST_DAY, days)
    with (folder / "waterclock.toml").open("a", encoding="utf-8") as file:
        file.write(AT_CLUSTER + settings)
    return folder


def over(days: int) -> str:
    """When the last of the days is over in New York."""
    return f"2013-01-{1 + days:02d}T05:00Z"


def run(folder: Path, days: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "waterclock", "run", "--now", over(days), "--env", "prod", "--project", str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"COLUMNS": "160", "NO_COLOR": "1"},
    )


def digests(folder: Path) -> dict[tuple[str, str], tuple[str, str]]:
    project = load_project(folder, env="prod", capabilities=capabilities())
    with Ledger.open(ledger_url(project)) as ledger:
        return {(row["table"], row["timelabel"]): (row["status"], row["digest"]) for row in ledger.past.rows("batches")}


@pytest.mark.parametrize("days", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_a_worker_that_is_lost_in_the_middle_changes_nothing(
    there: Cluster, tmp_path: Path, spark: SparkSession, days: int
) -> None:
    """All kinds of tables, Python functions, TEMPORAL, FLAT and MERGE among them, come to what they come to locally."""
    at_home, away = prepared(tmp_path / "home", days=days), prepared(tmp_path / "away", there.settings(), days=days)
    home = _run_here(at_home, spark, days)
    process = run(away, days)
    lost: list[int] = []

    def lose_one() -> None:
        while process.poll() is None and not lost:
            if len(there.executors()) == 2 and _has_begun(away):
                time.sleep(4)
                lost.append(there.executors()[0])
                there.kill_executor()
            time.sleep(0.2)

    killer = threading.Thread(target=lose_one)
    killer.start()
    said, _ = process.communicate(timeout=600)
    killer.join()
    assert process.returncode == 0, said
    assert lost
    found = digests(away)
    assert {status for status, _ in found.values()} == {"done"}
    assert found == home


def _has_begun(folder: Path) -> bool:
    return (folder / ".waterclock-prod" / "tables").exists()


def _run_here(folder: Path, spark: SparkSession, days: int) -> dict[tuple[str, str], tuple[str, str]]:
    from waterclock.engine.opening import apply_flow, open_workplace
    from waterclock.engine.runner import Runner
    from waterclock.engine.spark.session import Sessions
    from waterclock.timelabel.zone import parse_instant

    project = load_project(folder, env="prod", capabilities=capabilities())
    now = parse_instant(over(days), "UTC")
    with open_workplace(project, sessions=Sessions.of(spark)) as work:
        apply_flow(work, now)
        outcome = Runner(work).run_once(now)
    assert not outcome.failed
    return digests(folder)


@pytest.mark.parametrize("days", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_a_connect_server_that_comes_back_in_the_middle_changes_nothing(
    tmp_path: Path, spark: SparkSession, days: int
) -> None:
    """All that goes over Spark Connect comes to what it comes to locally; a restart takes sessions, and no batch."""
    (tmp_path / "server").mkdir()
    with connect_server(tmp_path / "server") as server:
        at_home, away = (
            prepared(tmp_path / "home", days=days),
            prepared(tmp_path / "away", server.settings(), days=days),
        )
        home = _run_here(at_home, spark, days)
        process = run(away, days)
        restarted: list[bool] = []

        def restart() -> None:
            while process.poll() is None and not restarted:
                if len(digests_so_far(away)) > 3:
                    server.kill()
                    server.start()
                    restarted.append(True)
                time.sleep(0.2)

        restarting = threading.Thread(target=restart)
        restarting.start()
        said, _ = process.communicate(timeout=600)
        restarting.join()
        assert process.returncode == 0, said
        assert restarted
        assert digests(away) == home


def digests_so_far(folder: Path) -> dict[tuple[str, str], tuple[str, str]]:
    """Return what is done, also where nothing was begun yet."""
    if not (folder / ".waterclock-prod" / "ledger.db").exists():
        return {}
    return {batch: found for batch, found in digests(folder).items() if found[0] == "done"}


def test_the_cluster_is_tried_before_a_run(there: Cluster, tmp_path: Path) -> None:
    folder = prepared(tmp_path, there.settings())
    words = [
        sys.executable,
        "-m",
        "waterclock",
        "check",
        "--connect",
        "--json",
        "--env",
        "prod",
        "--project",
        str(folder),
    ]
    told: dict[str, Any] = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    spark = told["connections"][-1]
    assert (spark["kind"], spark["ok"]) == ("spark", True)
    assert there.master in spark["said"]
