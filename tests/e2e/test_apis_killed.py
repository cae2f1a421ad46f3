"""A process that collects from an API and delivers to one is killed in both: the next one continues there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.apis import Space

pytestmark = [pytest.mark.spark, pytest.mark.soak]
TOML = """
[project]
name = "killed"
[env.dev]
publish = true
connections.api = {{ url = "{url}", auth = {{ token = {{ secret = "api/token" }} }}, timeout = 20 }}
"""
FLOW = """
CREATE CONNECTION api TYPE rest;
COLLECT raw.calls PARTITIONED (id KEY, at TIMESTAMP NOT NULL) FROM api.calls
  OPTIONS (path 'cursor', rows 'data', paging 'cursor', page_size 2, since 'since', until 'until')
  EVERY DAY START '2020-01-01' BY DATA TIME at;
PUBLISH raw.calls TO api.told OPTIONS (path 'take/rows', chunk 2) APPEND ORDER BY at;
"""
SECRET = "t0ken-of-the-soak"


def run(root: Path) -> subprocess.Popen[bytes]:
    environ = {**os.environ, "WATERCLOCK_SECRET_API_TOKEN": SECRET}
    command = [sys.executable, "-m", "waterclock", "run", "--now", "2020-01-02T00:00:00Z"]
    return subprocess.Popen(command, cwd=root, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def kill_when(process: subprocess.Popen[bytes], is_there: Callable[[], bool]) -> None:
    for _ in range(1200):
        assert process.poll() is None, process.communicate()[0].decode()
        if is_there():
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_a_kill_in_a_page_and_one_in_a_delivery_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    space = Space()
    rows = [{"id": str(at), "at": f"2020-01-01T{at:02}:00:00Z"} for at in range(12)]
    space.set(rows=rows, credential=f"bearer:{SECRET}", faults=[None, *["slow"] * 5], pause=0.6)
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(TOML.format(url=space.url))
    (tmp_path / "flows" / "flow.dpl").write_text(FLOW)

    def pages() -> list[dict[str, Any]]:
        return [one for one in space.asked if one["path"] == "cursor"]

    def kept() -> list[str]:
        return [row["id"] for row in space.told()["kept"]]

    kill_when(run(tmp_path), lambda: len(pages()) >= 3)
    asked = len(pages())
    space.set(faults=[])
    kill_when(run(tmp_path), lambda: len(kept()) >= 4)
    assert len(kept()) < 12
    cursors = [one["params"].get("cursor", "c0") for one in pages()]
    assert len(cursors) > asked
    assert len(cursors) - len(set(cursors)) <= 1, "except for the page that was in flight"
    last = run(tmp_path)
    said = last.communicate()[0].decode()
    assert last.returncode == 0, said
    assert kept() == [str(at) for at in range(12)]
    assert len(pages()) == len(cursors)
    assert SECRET not in said
    for folder, _, names in os.walk(tmp_path):
        for name in names:
            assert SECRET.encode() not in Path(folder, name).read_bytes(), name
