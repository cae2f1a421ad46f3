"""The page on reverting labels: its commands print the output that it shows."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.docs.console import ROOT, commands_of, failures, session

PAGE = (ROOT / "docs" / "howto" / "revert-a-label.md").read_text(encoding="utf-8")
ORDERS = [(1, 12.0, "2026-11-01 09:00:00"), (2, 24.0, "2026-11-01 10:00:00"), (3, 120.0, "2026-11-02 09:00:00"),
          (4, 36.0, "2026-11-02 10:00:00"), (5, 60.0, "2026-11-03 09:00:00")]  # fmt: skip


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_the_commands_of_the_page_print_its_documented_output(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "flows").mkdir(parents=True)
    [toml] = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    [flow] = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (folder / "waterclock.toml").write_text(f'[project]\nname = "mine"\n{toml}', encoding="utf-8")
    (folder / "flows" / "orders.dpl").write_text(flow, encoding="utf-8")
    with closing(sqlite3.connect(folder / "shop.db")) as shop, shop:
        shop.execute("CREATE TABLE orders (id INTEGER, amount REAL, at TEXT)")
        shop.executemany("INSERT INTO orders VALUES (?, ?, ?)", ORDERS)
    with session(tmp_path, is_warm=True) as shell:
        shell.run("cd /tmp/mine")
        shell.run("waterclock run --now 2026-11-04")
        wrong = failures(commands_of(PAGE), shell)
    assert not wrong, "\n\n".join(wrong)
