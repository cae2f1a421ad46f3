"""The page on rules of the project: `check` prints the output that it shows, without Spark."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.console import ROOT
from tests.unit.cli.conftest import ask

PAGE = (ROOT / "docs" / "howto" / "rules-of-the-project.md").read_text(encoding="utf-8")
TOML = """[project]
name = "shop"
[env.dev]
storage = ".dev"
connections.shop = { path = "shop.db" }
connections.crm = { path = "crm.db", create = true }
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_commands_of_the_page_print_its_documented_output(tmp_path: Path) -> None:
    for folder in ("flows", "rules"):
        (tmp_path / folder).mkdir()
    (tmp_path / "waterclock.toml").write_text(TOML, encoding="utf-8")
    [flow] = blocks("sql")
    (tmp_path / "flows" / "orders.dpl").write_text(flow, encoding="utf-8")
    names = re.findall(r"^`rules/(.+?)`", PAGE, re.MULTILINE)
    *rules, of_ledger = blocks("sqlite")
    for name, rule in zip(names, rules, strict=True):
        (tmp_path / "rules" / name).write_text(rule, encoding="utf-8")
    (tmp_path / "rules" / "ledger.sql").write_text(of_ledger, encoding="utf-8")
    [console] = blocks("console")
    found = ask("check", "--project", str(tmp_path))
    assert found.exit_code == 1
    assert found.output.strip() == console.removeprefix("$ waterclock check\n").strip()
