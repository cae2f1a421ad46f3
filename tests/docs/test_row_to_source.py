"""The page on tracing a row of a transform to its line in a file: its commands print the output that it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.console import ROOT, commands_of, failures, session

PAGE = (ROOT / "docs" / "howto" / "collect-files.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Record the source file of each row")[2].partition("\n## ")[0]
TOML = """[project]
name = "web"
[env.dev]
connections.landing = { path = "data/new" }
"""
FILES = {"12_00_00": "visitor,page\nada,/\neva,/order\n", "23_59_59": "visitor,page\nida,/order\neva,/\n"}


def put_visits(folder: Path) -> None:
    """Create the project of the page: its flow, and two landed files of a day."""
    landing = folder / "data" / "new" / "web" / "visits"
    landing.mkdir(parents=True)
    for stamp, text in FILES.items():
        (landing / f"web_visits_2026_11_16_{stamp}.csv").write_text(text, encoding="utf-8")
    (folder / "waterclock.toml").write_text(TOML, encoding="utf-8")
    (folder / "flows").mkdir()
    flow = re.findall(r"^```sql\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)[0]
    (folder / "flows" / "web.dpl").write_text(f"CREATE CONNECTION landing TYPE files;\n{flow}", encoding="utf-8")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_the_commands_of_the_page_trace_a_row_to_its_source_line(tmp_path: Path) -> None:
    put_visits(tmp_path / "mine")
    with session(tmp_path, is_warm=True) as shell:
        shell.run("cd /tmp/mine")
        wrong = failures(commands_of(SECTION), shell)
    assert not wrong, "\n\n".join(wrong)
