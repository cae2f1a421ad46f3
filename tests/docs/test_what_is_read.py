"""The page on rules of what is read: at a till its commands print what it says."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from tests.docs.console import ROOT, commands_of, differences, session
from tests.docs.test_bad_rows import TOML

PAGE = (ROOT / "docs" / "howto" / "ask-what-is-read.md").read_text(encoding="utf-8")
SALES = [  # what the page tells of: one amount that breaks the rule, one land that is missing and one that is not known
    (1, "10.00", "DE", 16), (2, "5.50", "DE", 16), (3, "-4.00", "DE", 16), (4, "8.00", "FR", 16), (5, "1.00", None, 16),
    (6, "2.00", "XX", 16), (7, "3.00", "DE", 17), (8, "4.00", "FR", 17),
]  # fmt: skip


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_the_page_prints_what_it_says(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "flows").mkdir(parents=True)
    (folder / "waterclock.toml").write_text(TOML, encoding="utf-8")
    [flow] = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (folder / "flows" / "tills.dpl").write_text(flow, encoding="utf-8")
    with sqlite3.connect(folder / "tills.db") as till:
        till.execute("CREATE TABLE sales (id INTEGER, amount TEXT, land TEXT, at TEXT)")
        rows = [(id_, amount, land, f"2026-11-{day} 10:00:00") for id_, amount, land, day in SALES]
        till.executemany("INSERT INTO sales VALUES (?, ?, ?, ?)", rows)
    till.close()
    wrong = []
    with session(tmp_path, is_warm=True) as shell:
        shell.run("cd /tmp/mine")
        for command in commands_of(PAGE):
            printed = shell.run(command.text)
            if missing := differences(command.printed, printed):
                wrong.append("\n".join([f"$ {command.text}", *(f"- {line}" for line in missing), *printed]))
    assert not wrong, "\n\n".join(wrong)
