"""The rules of the flights example, run by `waterclock spec`.

Reports of failing rules, and specifications that start their own Spark, are tested with the page on specifications
(`tests/docs/test_specify_by_example.py`).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.flights import put_flights
from waterclock.cli.app import app

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("spark")]


@pytest.fixture
def flights(tmp_path: Path) -> Path:
    return put_flights(tmp_path / "flights")


@pytest.mark.soak
def test_the_rules_of_the_flights_hold_without_their_data(flights: Path, tmp_path: Path) -> None:
    page = tmp_path / "spec.html"
    before = sorted(path.name for path in flights.iterdir())
    done = CliRunner().invoke(app, ["spec", "--json", "--html", str(page), "--project", str(flights)])

    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["ok"]
    assert told["passed"] == len(told["scenarios"]) >= 9
    assert {table for each in told["scenarios"] for table in each["tables"]} >= {"clean.flights", "marts.delays"}
    assert sorted(path.name for path in flights.iterdir()) == before
    text = page.read_text(encoding="utf-8")
    assert "A flight that did not leave counts for nothing" in text
    assert "count_if(f.dep_delay &gt; :late_minutes) AS late" in text
