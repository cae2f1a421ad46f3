"""Actions that code past both checks can still take in the JVM of queries, tried in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from waterclock.permissions.confinement import landlock_version

pytestmark = pytest.mark.spark
CANARY = "canary-2046"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("confined")
    (folder / "tables").mkdir()
    (folder / "tables" / "a.txt").write_text("to be read", encoding="utf-8")
    (folder / "tables" / "a.dtd").write_text('<!ENTITY e "of a foreign document">', encoding="utf-8")
    (folder / "secret.txt").write_text(CANARY, encoding="utf-8")
    (folder / "secret.txt").chmod(0o600)
    arguments = [str(folder / "work"), str(folder / "tables"), str(folder / "secret.txt")]
    done = subprocess.run(
        [sys.executable, "-m", "tests.security.queries.confined", *arguments],
        env={**os.environ, "WATERCLOCK_CANARY": CANARY},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    told: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return told


def test_confined_queries_can_read_files_call_python_and_shuffle(found: dict[str, str]) -> None:
    assert (found["readable"], found["python"], found["shuffle"]) == ("['to be read']", "['A']", "[7]")


def test_the_environment_holds_no_secret(found: dict[str, str]) -> None:
    assert (found["own environment"], found["environment of a command"]) == ("['null']", "['got']")


def test_python_imports_and_unpickles_nothing_that_the_jvm_can_write(found: dict[str, str]) -> None:
    assert (found["path"], found["log"], found["accumulators"]) == ("[]", "True", "None")


def test_xml_brings_no_foreign_document(found: dict[str, str]) -> None:
    assert found["xpath"].startswith("refused")


@pytest.mark.skipif(not landlock_version(), reason="needs Linux 5.13 or later, with Landlock")
def test_files_processes_and_signals_elsewhere_are_out_of_reach(found: dict[str, str]) -> None:
    assert CANARY not in str(found)
    assert "ermission denied" in found["secret by a command"]
    assert "sent" not in found["signal"]
    assert found["made"] == "[]"
    assert found["mode after"] == "0o600True"
    assert not Path("/tmp/made-by-a-query").exists()
