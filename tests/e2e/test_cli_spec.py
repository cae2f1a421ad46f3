"""The rules of the flights, as `waterclock spec` runs them in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "flights"

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def spec(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "waterclock", "spec", *arguments, "--project", str(project)],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"COLUMNS": "160", "NO_COLOR": "1"},
    )


@pytest.fixture
def flights(tmp_path: Path) -> Path:
    project = tmp_path / "flights"
    ours = [*EXAMPLE.glob("*.toml"), *EXAMPLE.glob("flows/*"), *EXAMPLE.glob("specs/*.feature")]
    for path in ours:
        (project / path.relative_to(EXAMPLE)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, project / path.relative_to(EXAMPLE))
    return project


def test_the_rules_of_the_flights_hold_without_their_data(flights: Path, tmp_path: Path) -> None:
    page = tmp_path / "spec.html"
    before = sorted(path.name for path in flights.iterdir())
    done = spec(flights, "--json", "--html", str(page))

    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["ok"]
    assert told["passed"] == len(told["scenarios"]) >= 9
    assert {table for each in told["scenarios"] for table in each["tables"]} >= {"clean.flights", "marts.delays"}
    assert sorted(path.name for path in flights.iterdir()) == before
    text = page.read_text(encoding="utf-8")
    assert "A flight that did not leave counts for nothing" in text
    assert "count_if(f.dep_delay &gt; :late_minutes) AS late" in text


def test_a_rule_that_does_not_hold_and_one_that_cannot_be_read_end_with_one(flights: Path) -> None:
    wrong = flights / "specs" / "wrong.feature"
    wrong.write_text(
        "Feature: f\n  Scenario: s\n    Given the table clean.flights\n      | tailnum | dep_time |\n"
        "      | N1 | 900 |\n    When marts.hours_flown runs\n    Then marts.hours_flown is\n"
        "      | tailnum | flights |\n      | N1 | 2 |\n",
        encoding="utf-8",
    )
    failed = spec(flights, "specs/wrong.feature")

    assert failed.returncode == 1
    assert "rows differ: 1 changed" in failed.stdout
    assert "expected 2, got 1" in failed.stdout

    wrong.write_text(wrong.read_text(encoding="utf-8").replace("flights |", "flihgts |"), encoding="utf-8")
    unread = spec(flights)

    assert unread.returncode == 1
    assert "E354 marts.hours_flown has no column flihgts" in unread.stderr
    assert "specs/wrong.feature:8:19" in unread.stderr
    assert "did you mean flights?" in unread.stderr
    assert unread.stdout == ""
