from __future__ import annotations

import re
from pathlib import Path

from waterclock.error_codes.catalog import CODES

ROOT = Path(__file__).parents[3]
SOURCES = [
    *(ROOT / "src/waterclock/timelabel").rglob("*.py"),
    *(ROOT / "src/waterclock/dpl").rglob("*.py"),
    ROOT / "src/waterclock/errors.py",
    ROOT / "src/waterclock/secrets/reader.py",
    ROOT / "src/waterclock/planner/closings.py",
]


def used() -> set[str]:
    return {code for path in SOURCES for code in re.findall(r'"(E[12]\d{2})"', path.read_text(encoding="utf-8"))}


def test_every_code_that_time_and_language_use_is_explained() -> None:
    assert used() <= CODES.keys()


def test_every_explained_code_is_used() -> None:
    assert {code for code in CODES if code[:2] in {"E1", "E2"}} <= used()


def test_every_code_of_the_language_has_a_case() -> None:
    books = (ROOT / "tests/language/errors").glob("*.txt")
    shown = {
        code for book in books for code in re.findall(r"^(E\d{3}) ", book.read_text(encoding="utf-8"), re.MULTILINE)
    }
    beneath = {"E101", "E103", "E108", "E266"}  # for the clock, and for `close`: no statement causes them
    assert {code for code in CODES if code[:2] in {"E1", "E2"}} - shown == beneath | {"E200"}


def test_titles_differ_and_texts_are_sentences() -> None:
    titles = [code.title for code in CODES.values()]
    assert len(set(titles)) == len(titles)
    assert all(code.text.endswith(".") for code in CODES.values())
