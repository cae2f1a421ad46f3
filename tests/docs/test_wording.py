"""The wording of docstrings and pages: few headless clauses with "what", and class names that are unique."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PAGES = sorted({*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")} - {*(ROOT / "docs" / "reference").rglob("*.md")})
MOST_IN_TEN_THOUSAND = 20  # of "what"; model projects have 0 to 6
MOST_SHARED_NAMES = 0.04
_WORD = re.compile(r"[A-Za-z']+")
_CLASS = re.compile(r"^ *class (\w+)", re.MULTILINE)
_CODE = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)", re.DOTALL)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def share_of_what(texts: list[str]) -> float:
    """Return how often "what" occurs in ten thousand words."""
    words = [word.lower() for text in texts for word in _WORD.findall(text)]
    assert len(words) > 10_000
    return words.count("what") / len(words) * 10_000


def test_docstrings_have_nouns_in_place_of_what() -> None:
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES)
    nodes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, _DOCUMENTED))
    assert share_of_what([ast.get_docstring(node, clean=False) or "" for node in nodes]) <= MOST_IN_TEN_THOUSAND


def test_pages_have_nouns_in_place_of_what() -> None:
    assert share_of_what([_CODE.sub(" ", page.read_text(encoding="utf-8")) for page in PAGES]) <= MOST_IN_TEN_THOUSAND


def test_hardly_any_class_name_is_used_twice() -> None:
    names = Counter(name for path in SOURCES for name in _CLASS.findall(path.read_text(encoding="utf-8")))
    shared = sorted(name for name, count in names.items() if count > 1)
    assert len(shared) <= MOST_SHARED_NAMES * len(names), shared
