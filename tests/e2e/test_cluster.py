"""The flights example on a Spark cluster, configured only by its project file, gives the digests of the local Spark."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster, cluster, connect_server
from tests.flights import FOLDERS, Digests, digests, prepared, run

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.mark.soak
@pytest.mark.parametrize("days", [1, 2])
def test_a_worker_that_is_lost_in_the_middle_changes_nothing(
    there: Cluster, tmp_path: Path, at_home: Callable[[int], tuple[Path, Digests]], days: int
) -> None:
    """Tables of all kinds, with Python functions, TEMPORAL, FLAT and MERGE, have the same digests as locally."""
    away = prepared(tmp_path, FOLDERS + there.settings(), days=days)
    _, home = at_home(days)
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


@pytest.mark.parametrize("days", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_a_restart_of_the_spark_connect_server_during_a_run_changes_no_result(
    tmp_path: Path, at_home: Callable[[int], tuple[Path, Digests]], days: int
) -> None:
    """Tables over Spark Connect have the same digests as locally; a restart ends sessions, but fails no batch."""
    _, home = at_home(days)
    (tmp_path / "server").mkdir()
    with connect_server(tmp_path / "server") as server:
        away = prepared(tmp_path / "away", FOLDERS + server.settings(), days=days)
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
    """Return the digests of done batches; empty before the first run."""
    if not (folder / ".waterclock-prod" / "ledger.db").exists():
        return {}
    return {batch: found for batch, found in digests(folder).items() if found[0] == "done"}


@pytest.mark.soak
def test_the_cluster_is_tried_before_a_run(there: Cluster, tmp_path: Path) -> None:
    folder = prepared(tmp_path, FOLDERS + there.settings())
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
    assert there.master in spark["description"]
