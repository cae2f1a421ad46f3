from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.unit.cli.conftest import ask
from waterclock.engine.spark import class_archive
from waterclock.engine.spark.class_archive import archive_file, archive_options, write_archive
from waterclock.engine.spark.jars import delta_jars
from waterclock.errors import WaterclockError


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of the archive in a temporary cache; the file does not exist."""
    monkeypatch.setenv("WATERCLOCK_JARS", str(delta_jars()[0].parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return archive_file()


def test_the_archive_is_in_the_users_cache_under_a_name_from_its_contents(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert archive.parent.name == "waterclock"
    assert archive_file() == archive
    monkeypatch.setattr(class_archive, "version", lambda _name: "4.99")
    assert archive_file() != archive


def test_it_is_taken_where_it_is_there(archive: Path) -> None:
    assert archive_options({}) == ()
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"x")
    assert f"-XX:SharedArchiveFile={archive}" in archive_options({})


@pytest.mark.parametrize("name", ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"])
@pytest.mark.parametrize("option", ["-XX:SharedArchiveFile=/x", "-Xmx1g -XX:ArchiveClassesAtExit=/x"])
def test_an_archive_option_set_by_the_user_is_not_overridden(archive: Path, name: str, option: str) -> None:
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"x")
    assert archive_options({name: option}) == ()


def test_an_archive_that_java_cannot_write_is_reported_and_leaves_no_files(archive: Path) -> None:
    with pytest.raises(WaterclockError) as refused:
        write_archive(archive, "-XX:NoSuchOption")
    assert (refused.value.code, refused.value.where) == ("E707", str(archive))
    assert list(archive.parent.iterdir()) == []


def test_its_folder_may_have_blanks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, str] = {}

    def run(command: list[str], *, env: dict[str, str], **_: object) -> subprocess.CompletedProcess[str]:
        given.update(env)
        return subprocess.CompletedProcess(command, 1, "", "ended")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(WaterclockError, match="ended"):
        write_archive(tmp_path / "Flüsse und x" / "classes.jsa")
    (option,) = [it for it in shlex.split(given["JAVA_TOOL_OPTIONS"]) if it.startswith("-XX:ArchiveClassesAtExit=")]
    assert option.endswith("classes.jsa")


def test_an_archive_that_is_there_is_not_written_again(archive: Path) -> None:
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"x" * 5_000_000)
    told = json.loads(ask("warm", "--json").stdout)
    assert {name: told[name] for name in ("archive", "bytes", "is_new")} == {
        "archive": str(archive),
        "bytes": 5_000_000,
        "is_new": False,
    }
    assert "exists already" in ask("warm").stdout


def test_a_cache_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WaterclockError) as refused:
        write_archive(tmp_path / "file" / "waterclock" / "x.jsa")
    assert (refused.value.code, refused.value.why) == ("E707", "Not a directory")


def test_one_that_another_user_can_change_is_not_used(archive: Path) -> None:
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"x")
    archive.chmod(0o666)
    assert archive_options({}) == ()
