from __future__ import annotations

import re
from pathlib import Path

from waterclock.cli.app import COMMANDS

SOURCES = sorted((Path(__file__).resolve().parents[2] / "src").rglob("*.py"))


def test_errors_name_only_existing_commands() -> None:
    known = {function.__name__ for functions in COMMANDS.values() for function in functions}
    named = {
        (path.name, name)
        for path in SOURCES
        for name in re.findall(r"`waterclock ([a-z]+)", path.read_text(encoding="utf-8"))
    }
    assert {(file, name) for file, name in named if name not in known} == set()
    assert named
