"""The page on personal data: its commands print the output shown, and its decisions are checked."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.docs.console import ROOT, commands_of, failures, session
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import check_project

PAGE = (ROOT / "docs" / "howto" / "find-personal-data.md").read_text(encoding="utf-8")
TOML = (
    '[project]\nname = "mine"\n[env.dev]\nconnections.crm = { path = "crm.db" }\nconnections.out = { path = "out" }\n'
)
VALUES = ("ann@example.org", "bob@example.org", "DE89370400440532013000", "GB82WEST12345698765432", "1984-05-06")


def flow() -> str:
    found = re.search(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def laid_out(folder: Path, more: str = "") -> Path:
    (folder / "flows").mkdir(parents=True)
    (folder / "waterclock.toml").write_text(TOML, encoding="utf-8")
    (folder / "flows" / "crm.dpl").write_text(flow() + more, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("line", "is_refused"), [(line, "E381" in line) for line in PAGE.split("\n") if "TO out" in line]
)
def test_each_publish_decision_of_the_page_is_checked_as_documented(
    tmp_path: Path, line: str, is_refused: bool
) -> None:
    folder = laid_out(tmp_path / "mine", line)
    path = folder / "flows" / "crm.dpl"
    path.write_text(
        path.read_text().replace("email STRING", "email STRING TAGS (pii)").replace("DATE", "DATE TAGS (pii)")
    )
    _, errors = check_project(folder, capabilities=capabilities())
    assert [error.code for error in errors] == (["E381"] if is_refused else [])


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_the_commands_of_the_page_print_its_documented_output_and_no_personal_value(tmp_path: Path) -> None:
    folder = laid_out(tmp_path / "mine")
    with closing(sqlite3.connect(folder / "crm.db")) as crm, crm:
        crm.execute("CREATE TABLE people (id INTEGER, email TEXT, born TEXT, note TEXT, account TEXT)")
        crm.execute(f"INSERT INTO people VALUES (1, '{VALUES[0]}', '1984-05-06', 'ask {VALUES[0]}', '{VALUES[2]}')")
        crm.execute(f"INSERT INTO people VALUES (2, '{VALUES[1]}', NULL, 'likes tea', '{VALUES[3]}')")
        crm.execute("INSERT INTO people VALUES (3, NULL, NULL, NULL, NULL)")
    with session(tmp_path, is_warm=True) as shell:
        shell.run("cd /tmp/mine")
        wrong = failures(commands_of(PAGE), shell)
        printed = "\n".join(shell.run("waterclock pii --rows 2000 --json"))
    assert not wrong, "\n\n".join(wrong)
    assert '"IBAN"' in printed
    assert [value for value in VALUES if value in printed] == []
