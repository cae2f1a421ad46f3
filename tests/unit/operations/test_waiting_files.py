"""Output of `plan` and `status` about events that wait for their windows."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.receiving import project_with_door
from waterclock.cli.app import main
from waterclock.connectors.receiver.events import events_of
from waterclock.connectors.receiver.segment_writing import SegmentWriter

AT = datetime(2026, 11, 23, 11, 57, 3, tzinfo=UTC)
_WITH_TOKEN = """\
[project]
name = "shop"

[env.dev]
connections.door = { path = "data/door", token = { secret = "door/token" } }
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WATERCLOCK_SECRET_DOOR_TOKEN", "s3cret")
    return project_with_door(tmp_path / "shop", settings=_WITH_TOKEN)


def write(project: Path) -> SegmentWriter:
    writer = SegmentWriter(project / "data/door/events", lambda at: at.replace(minute=59, second=0), lambda: AT)
    writer.append([events_of(b'{"id":1}').body(None, None, has_raw=False)])
    return writer


@pytest.mark.parametrize("command", ["plan", "status"])
def test_received_files_are_reported_as_text(project: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--project", str(project)]) == 0
    assert "received" not in capsys.readouterr().out
    writer = write(project)
    assert main([command, "--project", str(project)]) == 0
    told = "web.events: 1 file of 68 B received since 2026-11-23 11:57Z, and still written"
    assert told in capsys.readouterr().out.splitlines()
    writer.end()
    assert main([command, "--project", str(project)]) == 0
    assert told.removesuffix(", and still written") in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("command", ["plan", "status"])
def test_received_files_are_reported_in_json(project: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    write(project).end()
    assert main([command, "--json", "--project", str(project)]) == 0
    said = json.loads(capsys.readouterr().out)
    expected = {"files": 1, "bytes": 68, "since": "2026-11-23T11:57:00Z", "is_open": False}
    assert said["received"] == {"web.events": expected}
    assert sorted(path.name.split("-")[0] for path in (project / "data/door/events").iterdir()) == ["closed"]
