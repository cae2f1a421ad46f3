"""The page on trying a change in a branch: its commands print the output shown, and those of its CI file run."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.docs.console import ROOT, commands_of, failures, session

PAGE = (ROOT / "docs" / "howto" / "try-a-change.md").read_text(encoding="utf-8")
ORDERS = [(1, 12.0, "2026-11-01 09:00:00"), (2, 24.0, "2026-11-01 10:00:00"), (3, 120.0, "2026-11-02 09:00:00"),
          (4, 36.0, "2026-11-02 10:00:00"), (5, 60.0, "2026-11-03 09:00:00")]  # fmt: skip


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_the_commands_of_the_page_print_its_documented_output(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "flows").mkdir(parents=True)
    [toml] = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    before, after = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (folder / "waterclock.toml").write_text(f'[project]\nname = "mine"\n{toml}', encoding="utf-8")
    with closing(sqlite3.connect(folder / "shop.db")) as shop, shop:
        shop.execute("CREATE TABLE orders (id INTEGER, amount REAL, at TEXT)")
        shop.executemany("INSERT INTO orders VALUES (?, ?, ?)", ORDERS)
    flow = folder / "flows" / "orders.dpl"
    flow.write_text(before, encoding="utf-8")
    with session(tmp_path, is_warm=True) as shell:
        shell.run("cd /tmp/mine")
        shell.run("waterclock run --env prod --now 2026-11-04")
        flow.write_text(after, encoding="utf-8")
        wrong = failures(commands_of(PAGE), shell)
        # the change is in production now, so a branch of it makes nothing
        for name, steps in (("pr-1", steps_at_github()), ("mr-1", steps_at_gitlab())):
            assert len(steps) == 5
            printed = [shell.run(step.replace("$BRANCH", name)) for step in steps]
            assert printed[1][-1] == "no table differs from prod: there is nothing to make"
            assert printed[-1] == (f"deleted: {name}",)
            rows = folder / "rows.md"
            assert "marts.net" in rows.read_text(encoding="utf-8")
            rows.unlink()
            assert not (folder / ".branches").exists()
    assert not wrong, "\n\n".join(wrong)


def steps_at_github() -> list[str]:
    """Return the commands of Waterclock in the workflow, in their order."""
    return re.findall(r"^ +(?:- )?run: (waterclock .*)$", _read_file(0), re.MULTILINE)


def steps_at_gitlab() -> list[str]:
    """Return the commands of Waterclock in the job, in their order."""
    return re.findall(r"^    - (waterclock .*)$", _read_file(1), re.MULTILINE)


def _read_file(number: int) -> str:
    found: str = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[number]
    return found
