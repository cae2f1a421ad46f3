"""Each step of the peer in bench/branch ends: with its cost, with its error message, or at its time limit."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"
ANSWER = '{"wall": 2.0, "cpu": 1.5, "rows": [7, 0, 0], "versions": "SQLMesh 1, DuckDB 2"}'


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(BENCH)
    yield importlib.import_module("branch_peers")
    sys.modules.pop("branch_peers", None)


def project(peers: Any, folder: Path, body: str, *, seconds: float = 30) -> Any:
    """Create a project whose interpreter is a shell script; its first step, `load`, succeeds."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n[ $3 = load ] || {{ {body}; }}\necho '{ANSWER}'\n")
    python.chmod(0o700)
    (folder / "source").touch()
    return peers.SqlMesh(str(python), folder / "project", folder / "source", 7, seconds)


def test_a_step_returns_its_cost_and_rows(peers: Any, tmp_path: Path) -> None:
    mesh = project(peers, tmp_path, "echo some lines")
    cost, rows = mesh.step("compare", "mart.amounts")
    assert (cost.wall, cost.cpu, rows, mesh.versions) == (2.0, 1.5, [7, 0, 0], "SQLMesh 1, DuckDB 2")


def test_a_step_that_fails_shows_its_message(peers: Any, tmp_path: Path) -> None:
    mesh = project(peers, tmp_path, "echo no such model; exit 3")
    with pytest.raises(SystemExit, match=r"exit code 3: compare mart\.amounts\nno such model"):
        mesh.step("compare", "mart.amounts")


def test_a_step_that_does_not_end_is_killed_with_its_own_processes(peers: Any, tmp_path: Path) -> None:
    late = tmp_path / "late"
    mesh = project(peers, tmp_path, f"(sleep 1.5; touch {late}) & wait", seconds=0.5)
    begun = time.monotonic()
    with pytest.raises(SystemExit, match="SQLMesh did not end in 0 s: make"):
        mesh.step("make")
    assert time.monotonic() - begun < 1.5
    time.sleep(2)
    assert not late.exists()


def test_an_interpreter_without_sqlmesh_is_refused(peers: Any) -> None:
    with pytest.raises(SystemExit, match="cannot import SQLMesh"):
        peers.find_interpreter(sys.executable)
