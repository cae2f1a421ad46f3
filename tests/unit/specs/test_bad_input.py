"""Each file of `bad/` lists in comments at its end every error that it causes, in the order of their places."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.specifying import wrong
from waterclock.dpl.project import Project
from waterclock.error_codes.catalog import SPECS

BAD = sorted((Path(__file__).parent / "bad").glob("*.feature"))
_SAYS = "#> "


def told(project: Project, path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    lines = [line for error in wrong(project, text, path.name) for line in error.render().splitlines()]
    return "".join(f"{_SAYS}{line}".rstrip() + "\n" for line in lines)


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_every_error_is_reported_with_its_place(project: Project, path: Path) -> None:
    said = "".join(
        line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line.startswith(_SAYS.rstrip())
    )

    assert said
    assert told(project, path) == said


def test_every_code_of_specifications_is_raised_and_no_other() -> None:
    source = Path(__file__).parents[3] / "src" / "waterclock"
    texts = [
        path.read_text(encoding="utf-8")
        for path in [*(source / "specs").rglob("*.py"), *(source / "cli").rglob("*.py")]
    ]

    assert {code for text in texts for code in re.findall(r'"(E3[56]\d)"', text)} == SPECS.keys()
