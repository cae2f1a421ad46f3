"""Each JVM has its own scratch folder; those of ended processes are removed, and no others."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from waterclock.engine.runner_name import runner_name
from waterclock.engine.spark.scratch_folder import make_scratch_folder


def _name_of_ended_process() -> str:
    code = "from waterclock.engine.runner_name import runner_name; print(runner_name())"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_folders_of_killed_processes_are_removed_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    first = make_scratch_folder(tmp_path)
    (first / "blockmgr-1").mkdir()
    left = tmp_path / "tmp" / _name_of_ended_process().replace(":", "_")
    (left / "blockmgr-2").mkdir(parents=True)
    elsewhere = tmp_path / "tmp" / "other_host_12_0123456789ab"
    other = tmp_path / "tmp" / "spark-0d5f"
    for folder in (elsewhere, other):
        folder.mkdir()
    second = make_scratch_folder(tmp_path)
    assert first != second
    assert sorted((tmp_path / "tmp").iterdir()) == sorted([first, second, elsewhere, other])
    assert (first / "blockmgr-1").is_dir()
    assert second.stat().st_mode & 0o077 == 0


def test_a_link_in_place_of_a_folder_removes_nothing_behind_it(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    (tmp_path / "tmp").mkdir(mode=0o700)
    (tmp_path / "tmp" / _name_of_ended_process().replace(":", "_")).symlink_to(kept)
    make_scratch_folder(tmp_path)
    assert (kept / "file").exists()


def test_a_path_with_a_comma_cannot_be_a_folder_of_spark(tmp_path: Path) -> None:
    assert make_scratch_folder(tmp_path / "a,b") == Path(tempfile.gettempdir())


def test_a_name_is_that_of_a_runner(tmp_path: Path) -> None:
    assert make_scratch_folder(tmp_path).name.rpartition("_")[0] == runner_name().rpartition(":")[0].replace(":", "_")
