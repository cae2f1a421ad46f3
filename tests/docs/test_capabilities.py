from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "capabilities.md").read_text(encoding="utf-8")
# the number of IDs in the map by part: they are numbered from 01 without gaps
MAP = {"DP": 21, "RC": 15, "PT": 69}
_ROW = re.compile(r"^\| ((?:DP|RC|PT)-\d\d) \|(.*)\|$", re.MULTILINE)


@cache
def nodes_of(path: str) -> frozenset[str]:
    """Return the tests of a file as pytest names them, including the file itself."""
    found = {path}
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(f"{path}::{node.name}")
        if isinstance(node, ast.ClassDef):
            found |= {f"{path}::{node.name}::{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return frozenset(found)


def test_each_id_of_the_capability_map_is_listed_once() -> None:
    listed = [row[1] for row in _ROW.finditer(PAGE)]
    assert sorted(listed) == sorted(
        f"{part}-{number:02d}" for part, last in MAP.items() for number in range(1, last + 1)
    )


@pytest.mark.parametrize("row", _ROW.findall(PAGE), ids=lambda row: row[0])
def test_each_built_capability_names_existing_tests(row: tuple[str, str]) -> None:
    named = re.findall(r"`(tests/[^`]+)`", row[1])
    assert named
    for test in named:
        path = test.partition("::")[0]
        assert (ROOT / path).is_file(), test
        assert test in nodes_of(path), test


def test_capabilities_without_an_id_name_tests_that_are_there() -> None:
    rows = re.findall(r"^\| none \|.*$", PAGE, re.MULTILINE)
    assert rows
    for row in rows:
        named = re.findall(r"`(tests/[^`]+)`", row)
        assert named
        assert all(test in nodes_of(test.partition("::")[0]) for test in named)


def is_left_to_soak(test: str) -> bool:
    """Return whether a test, or all of its file, is marked `soak`; of a `sampled` one, some cases run every day."""
    path, _, name = test.partition("::")
    body = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
    marked = [
        ast.unparse(node.value) for node in body if isinstance(node, ast.Assign) and "pytestmark" in ast.unparse(node)
    ]
    marked += [
        ast.unparse(mark)
        for node in body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name.partition("::")[0]
        for mark in node.decorator_list
        if "parametrize" not in ast.unparse(mark)
    ]
    return any("mark.soak" in mark for mark in marked)


@pytest.mark.parametrize("row", _ROW.findall(PAGE), ids=lambda row: row[0])
def test_each_built_capability_has_a_test_outside_the_soak_suite(row: tuple[str, str]) -> None:
    named = re.findall(r"`(tests/[^`]+)`", row[1])
    assert not all(map(is_left_to_soak, named)), named
