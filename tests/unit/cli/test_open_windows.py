"""Output of commands about windows with open books."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from tests.model.open_windows import EVE, HOUR, SLOT, Life, flow_in
from tests.unit.cli.conftest import ask
from waterclock.engine.ledger_opening import ledger_url
from waterclock.operations.project_opening import open_project

NOW = "2020-01-02T18:00Z"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a project with its first day closed at 2020-01-02 12:00, and half days up to that of 2020-01-02 00:00."""
    flow = flow_in(tmp_path)
    life = Life(flow, Random(0), url=ledger_url(open_project(tmp_path, None)), failing=0)
    came = [1, 7, 13, 19, 30, 31, 32]  # hours of rows, one in each slice
    for number in range(7):
        life.source[EVE + number * SLOT] = ((EVE + came[number] * HOUR, number),)
    life.now = EVE + 7 * SLOT
    life.work()
    life.ledger.close()
    return tmp_path


def test_status_shows_the_number_of_open_windows_and_their_as_of_time(folder: Path) -> None:
    said = ask("status", "--project", str(folder), "--now", NOW, width=200).stdout
    assert (
        "web.daily: 1 window open from 20200102000000 on; web.daily_view shows them as of 2020-01-02 18:00Z"
    ) in said, said
    told = json.loads(ask("status", "--project", str(folder), "--now", NOW, "--json").stdout)
    shown = {"windows": 2, "first": "20200102000000", "shown": "2020-01-02T18:00:00Z"}
    shown |= dict.fromkeys(("tick", "rows", "age", "waits", "log")) | {"labels": [], "outages": []}
    assert told["open_windows"]["web.half"] == shown


def test_show_displays_a_tables_close_condition_and_its_open_windows(folder: Path) -> None:
    said = ask("show", "web.daily", "--rows", "0", "--project", str(folder), width=200).stdout
    assert "when max(at) >= WINDOW_END() OR closed_by_hand()" in said
    assert "windows open from 20200102000000 on" in said
    said = ask("show", "web.spd_daily", "--rows", "0", "--project", str(folder), width=200).stdout
    assert "open windows of  web.daily" in said
    assert "window_label" in said


def test_lineage_of_a_speed_table_contains_the_inputs_of_its_table(folder: Path) -> None:
    told = json.loads(ask("lineage", "web.spd_daily", "--project", str(folder), "--json").stdout)
    assert "web.u" in json.dumps(told)


def test_plan_shows_the_reason_a_speed_table_batch_is_waiting(folder: Path) -> None:
    told = json.loads(ask("plan", "--project", str(folder), "--now", "2020-01-03T06:00Z", "--json").stdout)
    reasons = {batch["table"]: batch["reason"] for batch in told["batches"]}
    assert reasons["web.spd_daily"].startswith("waits for "), reasons
