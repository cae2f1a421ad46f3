from __future__ import annotations

import importlib
from datetime import date, timedelta
from pathlib import Path
from types import ModuleType

import pytest

from examples.flights import make_data

EXAMPLE = Path(__file__).parents[3] / "examples" / "flights"

Calls = list[tuple[str, ...]]


@pytest.fixture
def calls() -> Calls:
    return []


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch, calls: Calls) -> ModuleType:
    """Return the demo with a command line that only records its calls, and days without files."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    module = importlib.import_module("demo")

    def noted(command: str, *arguments: str, project: Path) -> int:
        assert (project / "waterclock.toml").is_file()
        calls.append((command, *arguments))
        return 0

    def laid_out(target: Path, first: date, count: int) -> make_data.Layout:
        days = [first + timedelta(days=offset) for offset in range(count)]
        target.mkdir(exist_ok=True)
        make_data._remember(target, [*make_data.days_put(target), *days])
        return make_data.Layout(tuple(days), count, 24 * count, 0)

    monkeypatch.setattr(module, "waterclock", noted)
    monkeypatch.setattr(module.make_data, "put_days", laid_out)
    return module


def test_it_steps_through_the_days_that_it_laid_out(demo: ModuleType, calls: Calls, tmp_path: Path) -> None:
    demo.main(["--days", "2", "--in", str(tmp_path)])

    assert calls[0] == ("run", "--now", "2013-01-01T05:00Z", "--until", "2013-01-03T05:00Z")
    assert calls[1] == ("status", "--now", "2013-01-03T05:00Z")
    assert [command for command, *_ in calls[2:]] == ["query", "query", "query"]


def test_a_second_demo_run_continues_with_the_next_days(demo: ModuleType, calls: Calls, tmp_path: Path) -> None:
    demo.main(["--days", "1", "--in", str(tmp_path)])
    demo.main(["--days", "1", "--in", str(tmp_path)])

    assert [call for call in calls if call[0] == "run"] == [
        ("run", "--now", "2013-01-01T05:00Z", "--until", "2013-01-02T05:00Z"),
        ("run", "--now", "2013-01-02T05:00Z", "--until", "2013-01-03T05:00Z"),
    ]


def test_fresh_begins_again(demo: ModuleType, calls: Calls, tmp_path: Path) -> None:
    demo.main(["--days", "1", "--in", str(tmp_path)])
    (tmp_path / ".waterclock").mkdir()
    demo.main(["--days", "1", "--fresh", "--in", str(tmp_path)])

    assert not (tmp_path / ".waterclock").exists()
    assert [call[2] for call in calls if call[0] == "run"] == ["2013-01-01T05:00Z"] * 2


def test_without_new_days_the_demo_runs_the_due_batches_of_the_last_day(
    demo: ModuleType, calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demo.main(["--days", "1", "--in", str(tmp_path)])
    demo.main(["--days", "0", "--in", str(tmp_path)])

    assert "No new day: none was asked for" in capsys.readouterr().out
    assert [call[4] for call in calls if call[0] == "run"] == ["2013-01-02T05:00Z"] * 2


def test_the_last_day_of_the_year_is_followed_by_none(
    demo: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "put.json").write_text('["2013-12-31"]')

    assert demo.lay_out(tmp_path, 5) == ()
    assert "the year is over" in capsys.readouterr().out


def test_a_run_that_fails_ends_the_demo_with_its_code(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(demo, "waterclock", lambda *_, **__: 1)

    with pytest.raises(SystemExit) as end:
        demo.main(["--days", "1", "--in", str(tmp_path)])
    assert end.value.code == 1


def test_the_suggested_commands_name_the_last_day(
    demo: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demo.main(["--days", "2", "--in", str(tmp_path)])

    said = capsys.readouterr().out
    assert f"./bin/waterclock audit marts.delays@20130102050000 --project {tmp_path}" in said
    assert f"./bin/demo --in {tmp_path}" in said


def test_remaining_batches_are_made_without_new_days(
    demo: ModuleType, calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(demo, "waterclock", lambda *_, **__: 130)
        with pytest.raises(SystemExit, match="130"):
            demo.main(["--days", "2", "--in", str(tmp_path)])
    assert "--days 0` makes the remaining batches of these days" in capsys.readouterr().out
    demo.main(["--days", "0", "--in", str(tmp_path)])
    assert calls[0] == ("run", "--now", "2013-01-02T05:00Z", "--until", "2013-01-03T05:00Z")
