"""The page on narrow tables: its commands print the output that it shows, and a drop affects no other table."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.docs.console import ROOT, commands_of, failures, session
from tests.tiny import Tiny, day
from waterclock.engine.maintenance.maintain import find_maintenance, maintain_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PAGE = (ROOT / "docs" / "howto" / "split-a-wide-table.md").read_text(encoding="utf-8")
FLOW = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
TOML = """[project]
name = "web"
[env.dev]
connections.landing = { path = "data/new" }
"""
VISITS = ((16, "bob@example.com", "fr"), (17, "ada@example.com", "en"), (18, "eva@example.com", "de"))


@pytest.mark.usefixtures("spark")
def test_the_commands_of_the_page_print_its_documented_output(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    landing = folder / "data" / "new" / "web" / "visits"
    landing.mkdir(parents=True)
    for number, (of_day, email, language) in enumerate(VISITS):
        rows = (
            "id,at,page,email,request",
            f"{2 * number + 1},2026-11-{of_day} 08:00:00,/start,{email},lang={language}",
            f"{2 * number + 2},2026-11-{of_day} 09:00:00,/end,,lang=fr",
        )
        (landing / f"web_visits_2026_11_{of_day}_23_59_59.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "flows").mkdir()
    (folder / "waterclock.toml").write_text(TOML, encoding="utf-8")
    (folder / "flows" / "web.dpl").write_text(FLOW, encoding="utf-8")
    with session(tmp_path, is_warm=True) as shell:
        shell.run("cd /tmp/mine")
        wrong = failures(commands_of(PAGE), shell)
    assert not wrong, "\n\n".join(wrong)


def test_a_drop_in_a_narrow_table_touches_no_other_table(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    flow = FLOW.replace("CREATE CONNECTION landing TYPE files;", "").replace("landing.web.visits", "shop.visits")
    tiny.declare(flow.replace("START '2026-11-16' BY ARRIVAL TIME", "BY DATA TIME at"))
    tiny.source("visits", "id INT, at TEXT, page TEXT, email TEXT, request TEXT")
    for of_day in (1, 2, 3):
        at = f"2020-01-{of_day:02d} 08:00:00"
        tiny.shop(f"INSERT INTO visits VALUES ({of_day}, '{at}', '/start', 'ada{of_day}@example.com', 'lang=de')")
    assert not tiny.run(day(4)).failed
    pages = contents(tiny, "pages")
    before = len(contents(tiny, "contacts"))
    for days in (60, 120):  # the first drops the windows, the second removes their files
        later = datetime.now(UTC) + timedelta(days=days)
        with tiny.opened() as work:
            for each in find_maintenance(work, ("web.contacts", "web.requests"), later):
                maintain_table(work, each, later)
                assert not each.failed
    assert contents(tiny, "pages") == pages
    assert len(contents(tiny, "contacts")) < before
    assert tiny.rows("SELECT id, page, email, request FROM web.whole ORDER BY id") == [
        (1, "/start", None, None),
        (2, "/start", "ada2@example.com", None),
        (3, "/start", "ada3@example.com", "lang=de"),
    ]


def contents(tiny: Tiny, table: str) -> dict[Path, bytes]:
    folders = [folder for folder in (tiny.root / tiny.storage).rglob(table) if (folder / "_delta_log").is_dir()]
    assert len(folders) == 1
    return {file: file.read_bytes() for file in folders[0].rglob("*.parquet")}
