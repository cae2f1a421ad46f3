"""The page on starting over: its commands print the output that it shows."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.docs.console import ROOT, commands_of, failures, session

PAGE = (ROOT / "docs" / "howto" / "start-over.md").read_text(encoding="utf-8")
TOML = '[project]\nname = "mine"\n[env.dev]\nconnections.crm = { path = "crm.db" }\n'


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_the_commands_of_the_page_print_its_documented_output(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "flows").mkdir(parents=True)
    (folder / "waterclock.toml").write_text(TOML, encoding="utf-8")
    before, after = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    with closing(sqlite3.connect(folder / "crm.db")) as crm, crm:
        crm.execute("CREATE TABLE customers (id INTEGER, city TEXT, at TEXT)")
        crm.execute("CREATE TABLE orders (id INTEGER, customer INTEGER)")
        crm.execute("INSERT INTO customers VALUES (1, 'Wien', '2026-11-01 09:00:00')")
        crm.execute("INSERT INTO orders VALUES (7, 1)")
    flow = folder / "flows" / "crm.dpl"
    flow.write_text(before, encoding="utf-8")
    with session(tmp_path, is_warm=True) as shell:
        shell.run("cd /tmp/mine")
        shell.run("waterclock run --now 2026-11-04")
        flow.write_text(after, encoding="utf-8")
        wrong = failures(commands_of(PAGE), shell)
        assert "Wien" in "\n".join(shell.run('waterclock query "SELECT city FROM crm.customers"'))
        assert "E405" not in "\n".join(shell.run("waterclock plan --now 2026-11-05"))
    assert not wrong, "\n\n".join(wrong)
