"""The page on functions with a key: its commands print the output shown, and its Python hashes as Spark does."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.docs.console import ROOT, commands_of, failures, session
from tests.keys import NEW, hashed

PAGE = (ROOT / "docs" / "howto" / "mask-and-encrypt.md").read_text(encoding="utf-8")
TOML = '[project]\nname = "mine"\n[env.dev]\nconnections.crm = { path = "crm.db" }\n'


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_the_python_code_of_the_page_hashes_like_spark() -> None:
    names: dict[str, Any] = {}
    exec(block("py"), names)
    assert names["hash_keyed"]("Ann", NEW, "pii") == hashed("Ann")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_the_commands_of_the_page_print_its_documented_output(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "flows").mkdir(parents=True)
    (folder / "waterclock.toml").write_text(TOML, encoding="utf-8")
    (folder / "flows" / "crm.dpl").write_text(block("sql"), encoding="utf-8")
    with closing(sqlite3.connect(folder / "crm.db")) as crm, crm:
        crm.execute("CREATE TABLE people (id INTEGER, email TEXT, born TEXT, zip TEXT, salary REAL)")
        crm.execute("INSERT INTO people VALUES (1, 'ann@example.org', '1984-05-06', '10115', 4000.0)")
        crm.execute("INSERT INTO people VALUES (2, NULL, NULL, '80331', 5000.0)")
    with session(tmp_path, is_warm=True) as shell:
        shell.run("cd /tmp/mine")
        wrong = failures(commands_of(PAGE), shell)
        noise = shell.run('waterclock query "SELECT count(*) AS n FROM safe.people WHERE salary IN (4000, 5000)"')
    assert not wrong, "\n\n".join(wrong)
    assert "0" in [line.strip() for line in noise]
