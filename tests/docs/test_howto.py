from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from waterclock.cli.app import app
from waterclock.dpl.config.model import read_config
from waterclock.dpl.python.statements import load_python
from waterclock.dpl.syntax.parser import parse_text
from waterclock.dpl.syntax.source_text import SourceText

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "tutorial.md", *sorted((ROOT / "docs" / "howto").glob("*.md"))]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[Any]:
    """Return the blocks of a language in all pages for users, as parameters named by page."""
    return [
        pytest.param(body, id=f"{page.stem}-{at}")
        for page in PAGES
        for at, (said, body) in enumerate(_BLOCK.findall(page.read_text(encoding="utf-8")))
        if said == language
    ]


@pytest.mark.parametrize("body", blocks("sql"))
def test_statements_on_the_pages_are_read_without_error(body: str) -> None:
    statements, errors = parse_text(SourceText("page.dpl", body), variables={"late_minutes": 15, "large": 50})
    assert errors == []
    assert statements


@pytest.mark.parametrize("body", blocks("python"))
def test_flows_in_python_on_the_pages_are_read_without_error(body: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(body, encoding="utf-8")
    statements, errors = load_python(tmp_path / "a.py", root=tmp_path, variables={"large": 50})
    assert errors == []
    assert statements


@pytest.mark.parametrize("body", blocks("toml"))
def test_settings_on_the_pages_are_read_without_error(body: str) -> None:
    assert tomllib.loads(body)
    head = "" if "project" in tomllib.loads(body) else '[project]\nname = "page"\n'
    _, errors = read_config(f"{head}{body}", env=None)
    assert errors == []


_COMMAND = re.compile(r"^(?:\$ )?(?:bin/)?waterclock +(?!.*  )(.+)$", re.MULTILINE)


def commands() -> list[Any]:
    """Return each Waterclock command on the pages, without its prompt; lists that explain commands are left out."""
    return [
        pytest.param(line, id=f"{page.stem}: {line[:40]}")
        for page in PAGES
        for _, body in _BLOCK.findall(page.read_text(encoding="utf-8"))
        for line in _COMMAND.findall(body.replace("\n> ", " "))
    ]


@pytest.mark.parametrize("line", commands())
def test_commands_on_the_pages_are_understood(line: str) -> None:
    name, *arguments = shlex.split(re.split(r" \| | > ", line)[0])
    command: Any = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    command.make_context(name, arguments)  # raises an error for an unknown option or argument
