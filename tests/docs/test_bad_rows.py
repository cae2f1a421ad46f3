"""The pages on bad rows and held batches: their commands print, one after the other, the output that the pages show."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from tests.docs.console import ROOT, commands_of, failures, session

HOWTO = ROOT / "docs" / "howto"
ASIDE = (HOWTO / "quarantine-bad-rows.md").read_text(encoding="utf-8")
HELD = (HOWTO / "hold-and-release.md").read_text(encoding="utf-8")
TOML = """[project]
name = "tills"
[env.dev]
connections.tills = { path = "tills.db" }
"""
DAY_BEFORE = [  # the page's example: one row without an id, two amounts that break the rule, an unknown country
    (1, "10.00", "DE", 9), (2, "5.50", "FR", 10), (3, "4.00", "DE", 11), (4, "n/a", "FR", 12), (None, "1.00", "DE", 13),
    (6, "2.00", "XX", 14), (7, "-3.00", "DE", 15), (8, "8.00", "FR", 16), (9, "9.00", "DE", 17), (10, "1.25", "FR", 18),
]  # fmt: skip
DAY = [(11, "-4.00", "DE", 9), (12, "3.00", "FR", 10), (13, "-2.00", "DE", 11), (14, "6.00", "DE", 12),
       (15, "-1.00", "FR", 13)]  # fmt: skip


def put_till(folder: Path) -> None:
    """Create the project of the pages: their flow, and a till's database with two days of sales."""
    folder.mkdir()
    (folder / "waterclock.toml").write_text(TOML, encoding="utf-8")
    flow = re.findall(r"^```sql\n(.*?)^```$", ASIDE, re.MULTILINE | re.DOTALL)[0]
    (folder / "flows").mkdir()
    (folder / "flows" / "tills.dpl").write_text(flow, encoding="utf-8")
    with sqlite3.connect(folder / "tills.db") as till:
        till.execute("CREATE TABLE sales (id INTEGER, amount TEXT, land TEXT, at TEXT)")
        rows = [
            (number, amount, land, f"2026-11-{day} {hour:02}:00:00")
            for day, of_day in ((16, DAY_BEFORE), (17, DAY))
            for number, amount, land, hour in of_day
        ]
        till.executemany("INSERT INTO sales VALUES (?, ?, ?, ?)", rows)
    till.close()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_the_commands_of_the_pages_print_their_documented_output(tmp_path: Path) -> None:
    put_till(tmp_path / "mine")
    run, audit, query, *replayed = commands_of(ASIDE)
    with session(tmp_path, is_warm=True) as shell:
        shell.run("cd /tmp/mine")
        wrong = failures([run, audit, query, *commands_of(HELD)], shell)
        shell.run("sed -i 's/amount > 0 AS positive/amount != 0 AS positive/' flows/tills.dpl")
        wrong += failures(replayed, shell)
    assert not wrong, "\n\n".join(wrong)
