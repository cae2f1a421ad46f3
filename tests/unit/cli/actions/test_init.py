from __future__ import annotations

import csv
import errno
import json
import os
import sqlite3
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests.unit.cli.conftest import TODAY, ask
from waterclock.cli.actions.init import EMPTY_FLOW, next_commands, start_empty, start_project
from waterclock.operations.project_opening import open_project


def test_the_project_is_sound_whatever_its_folder_is_called(tmp_path: Path) -> None:
    for name, expected in (("shop", "shop"), ("my shop", "my_shop"), ("2024 sales!", "project_2024_sales")):
        start_project(tmp_path / name, TODAY)
        assert open_project(tmp_path / name, None).flow.project == expected


@pytest.mark.parametrize("day", [date(2024, 1, 2), date(2024, 3, 1), date(2024, 11, 20)])
def test_its_days_are_the_three_before_today(tmp_path: Path, day: date) -> None:
    start_project(tmp_path, day)
    days = {f"{day - timedelta(days=back)}" for back in (1, 2, 3)}
    with closing(sqlite3.connect(tmp_path / "data" / "shop.sqlite")) as shop:
        assert {at[:10] for (at,) in shop.execute("SELECT ordered_at FROM orders")} == days
    files = sorted((tmp_path / "data" / "new" / "web" / "visits").iterdir())
    assert len(files) == 3
    for file in files:
        with file.open() as lines:
            stamps = {row["visited_at"][:10] for row in csv.DictReader(lines)}
        assert stamps == {file.name[11:21].replace("_", "-")}
        assert stamps < days


def test_init_prints_the_next_two_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = ask("init", str(tmp_path / "shop"))
    assert found.exit_code == 0
    assert f"waterclock run --project {tmp_path / 'shop'}" in found.stdout.replace("\n", "")
    monkeypatch.chdir(tmp_path)
    assert next_commands(Path(), "run", "status") == ("waterclock run", "waterclock status")
    assert next_commands(Path("my shop"), "run", "status") == (
        "waterclock run --project 'my shop'",
        "waterclock status --project 'my shop'",
    )


def test_it_is_json_too(tmp_path: Path) -> None:
    told = json.loads(ask("init", str(tmp_path / "shop"), "--json").stdout)
    assert "waterclock.toml" in told["files"]
    assert all((tmp_path / "shop" / file).exists() for file in told["files"])
    assert len(told["next"]) == 2


@pytest.mark.parametrize("there", ["waterclock.toml", "flows/2_transform.dpl", "data/shop.sqlite"])
def test_it_never_writes_over_anything(tmp_path: Path, there: str) -> None:
    (tmp_path / there).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / there).write_text("mine")
    found = ask("init", str(tmp_path))
    assert found.exit_code == 1
    assert f"E901 {there} exists already" in found.stderr
    assert (tmp_path / there).read_text() == "mine"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / there]


def test_an_ignore_file_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine")
    assert ask("init", str(tmp_path)).exit_code == 0
    assert (tmp_path / ".gitignore").read_text() == "mine"


def test_init_excludes_run_files_and_secrets_from_version_control(tmp_path: Path) -> None:
    assert ask("init", str(tmp_path)).exit_code == 0
    assert (tmp_path / ".gitignore").read_text() == ".waterclock/\n.branches/\nsecrets/\n"


def test_an_empty_project_is_sound_and_declares_nothing(tmp_path: Path) -> None:
    told = json.loads(ask("init", str(tmp_path / "mine"), "--empty", "--json").stdout)
    assert sorted(told["files"]) == [".gitignore", "flows/flow.dpl", "waterclock.toml"]
    assert told["next"] == [f"waterclock check --project {tmp_path / 'mine'}"]
    assert open_project(tmp_path / "mine", None).flow.tables == {}


def test_the_statements_of_an_empty_project_are_right_without_their_dashes(tmp_path: Path) -> None:
    start_empty(tmp_path, TODAY)
    flow = "\n".join(
        line.removeprefix("-- ")
        for line in EMPTY_FLOW.splitlines()
        if line.startswith(("-- CREATE", "-- COLLECT", "--   ", "-- TRANSFORM"))
    )
    settings = (tmp_path / "waterclock.toml").read_text().replace("# connections", "connections")
    (tmp_path / "waterclock.toml").write_text(settings)
    (tmp_path / "flows" / "flow.dpl").write_text(flow)
    assert set(open_project(tmp_path, None).flow.tables) == {"web.visits", "shop.orders", "web.per_day"}


@pytest.mark.parametrize("arguments", [(), ("--empty",)])
@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_project_is_refused_where_a_file_is(tmp_path: Path, arguments: tuple[str, ...], below: str) -> None:
    (tmp_path / "notes").write_text("mine")
    found = ask("init", str(tmp_path / "notes" / below), *arguments)
    assert found.exit_code == 1
    assert "E901 notes is a file" in found.stderr
    assert (tmp_path / "notes").read_text() == "mine"


@pytest.mark.parametrize("arguments", [(), ("--empty",)])
def test_an_unwritable_folder_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "x")

    monkeypatch.setattr(Path, "write_text", refuse)
    found = ask("init", str(tmp_path / "x"), *arguments)
    assert found.exit_code == 1
    assert "E905 the project cannot be written" in found.stderr
    assert "why  Permission denied" in found.stderr


def test_an_empty_project_is_refused_where_one_is(tmp_path: Path) -> None:
    start_project(tmp_path, TODAY)
    assert "E901 waterclock.toml exists already" in ask("init", str(tmp_path), "--empty").stderr
