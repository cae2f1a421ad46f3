"""The page on rules of inputs: with a till's database, its commands print the output shown."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from tests.docs.console import ROOT, commands_of, failures, session
from tests.docs.test_bad_rows import TOML

PAGE = (ROOT / "docs" / "howto" / "check-inputs.md").read_text(encoding="utf-8")
SALES = re.findall(r"^\| (\d+) \| (\S+) \| (\w*) ?\| (\d{4}-.*?) \|$", PAGE, re.MULTILINE)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_the_commands_of_the_page_print_its_documented_output(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "flows").mkdir(parents=True)
    (folder / "waterclock.toml").write_text(TOML, encoding="utf-8")
    [flow] = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (folder / "flows" / "tills.dpl").write_text(flow, encoding="utf-8")
    with sqlite3.connect(folder / "tills.db") as till:
        till.execute("CREATE TABLE sales (id INTEGER, amount TEXT, land TEXT, at TEXT)")
        assert len(SALES) == 8
        rows = [(id_, amount, land or None, f"{at}:00") for id_, amount, land, at in SALES]
        till.executemany("INSERT INTO sales VALUES (?, ?, ?, ?)", rows)
    till.close()
    with session(tmp_path, is_warm=True) as shell:
        shell.run("cd /tmp/mine")
        wrong = failures(commands_of(PAGE), shell)
    assert not wrong, "\n\n".join(wrong)
