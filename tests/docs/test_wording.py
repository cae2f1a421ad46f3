"""The wording of docstrings, pages and names.

Few headless clauses, unique class names, functions named by verbs, and names of tests that a stranger understands.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PAGES = sorted({*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")} - {*(ROOT / "docs" / "reference").rglob("*.md")})
TESTED = sorted((ROOT / "tests").rglob("*.py"))
TESTS = sorted({*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "src" / "waterclock" / "testing").glob("*.py")})
MOST_IN_TEN_THOUSAND = 20  # of "what"; model projects have 0 to 6
MOST_SHARED_NAMES = 0.04
MOST_RIDDLES = 0.005  # of names of tests
MOST_PARTICIPLES = 0.02  # of function names; model projects have 0 to 2 %
_WORD = re.compile(r"[A-Za-z']+")
_CLASS = re.compile(r"^ *class (\w+)", re.MULTILINE)
_CODE = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)", re.DOTALL)
_FUNCTION = re.compile(r"^ *(?:async )?def _*(\w+)", re.MULTILINE)
_TEST = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)
_RIDDLES = frozenset("what told tell tells stands heeded bear bears anew alike road roads mended nobody".split())
_IRREGULAR = (
    "told seen made said kept held left gone known given taken found brought lost sent built chosen written drawn "
    "shown meant met done got heard paid sold spent stood thought torn won bound begun broken asks tells brings "
    "stands lies goes begins says reads holds keeps takes makes gives wants needs looks lacks knows comes shows"
).split()
_PREPOSITIONS = (
    "of by in on at from to for with as into over since until behind before after out up off away again alone there "
    "here and or not together apart upon under within without beside between against it them that this each all both "
    "now"
).split()
_NOUNS = ("encoding", "mapping", "setting", "string", "warning", "feed", "need", "seed", "speed", "spring", "thing")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def share_of_what(texts: list[str]) -> float:
    """Return the frequency of the word "what" per ten thousand words."""
    words = [word.lower() for text in texts for word in _WORD.findall(text)]
    assert len(words) > 10_000
    return words.count("what") / len(words) * 10_000


@pytest.mark.parametrize("paths", [SOURCES, TESTED], ids=["src", "tests"])
def test_docstrings_contain_few_headless_clauses(paths: list[Path]) -> None:
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in paths)
    nodes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, _DOCUMENTED))
    assert share_of_what([ast.get_docstring(node, clean=False) or "" for node in nodes]) <= MOST_IN_TEN_THOUSAND


def test_pages_contain_few_headless_clauses() -> None:
    assert share_of_what([_CODE.sub(" ", page.read_text(encoding="utf-8")) for page in PAGES]) <= MOST_IN_TEN_THOUSAND


def test_hardly_any_test_has_a_name_in_riddles() -> None:
    names = [name for path in TESTS for name in _TEST.findall(path.read_text(encoding="utf-8"))]
    assert len(names) > 5_000
    riddles = [name for name in names if set(name.split("_")) & _RIDDLES]
    assert len(riddles) <= MOST_RIDDLES * len(names), riddles


def test_hardly_any_class_name_is_used_twice() -> None:
    names = Counter(name for path in SOURCES for name in _CLASS.findall(path.read_text(encoding="utf-8")))
    shared = sorted(name for name, count in names.items() if count > 1)
    assert len(shared) <= MOST_SHARED_NAMES * len(names), shared


def is_bare_participle(name: str) -> bool:
    """Return whether a function's name is a participle or a third person alone, or one before a preposition."""
    first, *others = name.split("_")
    words = [word for word in [first, *others] if word]
    forms = [
        word in _IRREGULAR or (word not in _NOUNS and len(word) > 4 and word.endswith(("ed", "ing"))) for word in words
    ]
    return bool(forms) and forms[0] and all(f or w in _PREPOSITIONS for f, w in zip(forms, words, strict=True))


def test_hardly_any_function_is_named_by_a_participle() -> None:
    assert [name for name in ("asked_of", "told", "open_windows", "settled_windows") if is_bare_participle(name)] == [
        "asked_of", "told"
    ]  # fmt: skip
    names = [name for path in SOURCES for name in _FUNCTION.findall(path.read_text(encoding="utf-8"))]
    bare = sorted(name for name in names if is_bare_participle(name))
    assert len(bare) <= MOST_PARTICIPLES * len(names), bare
