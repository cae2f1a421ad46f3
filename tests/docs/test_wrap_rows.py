"""The page on raw and computed values: its commands print the output that it shows."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.docs.console import ROOT, commands_of, failures, session
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project

PAGE = (ROOT / "docs" / "howto" / "wrap-rows.md").read_text(encoding="utf-8")
TOML = """[project]
name = "web"
[env.dev]
publish = true
connections.landing = { path = "data/new" }
connections.out = { path = "out" }
connections.shop = { path = "shop.db", create = true }
"""


def put_project(folder: Path) -> None:
    """Create the project of the page: its flow, and a landed file."""
    landing = folder / "data" / "new" / "web" / "visits"
    landing.mkdir(parents=True)
    (landing / "web_visits_2026_11_16_23_59_59.csv").write_text("visitor,city\nAda, Bonn\nEva,ulm\n", encoding="utf-8")
    (folder / "flows").mkdir()
    (folder / "waterclock.toml").write_text(TOML, encoding="utf-8")
    flow = re.search(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert flow is not None
    (folder / "flows" / "web.dpl").write_text(flow[1], encoding="utf-8")


def test_the_flow_of_the_page_is_valid(tmp_path: Path) -> None:
    put_project(tmp_path)
    layouts = re.findall(r"^\|.*?`(SELECT [^`]*)`", PAGE, re.MULTILINE)
    rule = re.search(r"`(EXPECT \(.*?\))`", PAGE)
    assert rule is not None
    flow = tmp_path / "flows" / "web.dpl"
    text = flow.read_text(encoding="utf-8").replace("web.clean PARTITIONED", f"web.clean PARTITIONED {rule[1]}")
    more = [f"TRANSFORM web.layout_{number} PARTITIONED AS {query};" for number, query in enumerate(layouts)]
    flow.write_text("\n".join([text, *more]), encoding="utf-8")
    project = load_project(tmp_path, capabilities=capabilities())
    assert set(project.flow.tables) == {
        "web.visits", "web.clean", "out.clean", "shop.clean", "web.layout_0", "web.layout_1", "web.layout_2",
    }  # fmt: skip


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_the_commands_of_the_page_print_its_documented_output(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    put_project(folder)
    with session(tmp_path, is_warm=True) as shell:
        shell.run("cd /tmp/mine")
        wrong = failures(commands_of(PAGE), shell)
    assert not wrong, "\n\n".join(wrong)
    with closing(sqlite3.connect(folder / "shop.db")) as shop:
        found = shop.execute("SELECT visitor, city, metadata_file, metadata_line FROM clean ORDER BY 1").fetchall()
    file = "web_visits_2026_11_16_23_59_59.csv"
    assert found == [("ada", "BONN", file, 2), ("eva", "ULM", file, 3)]
