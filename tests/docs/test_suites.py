"""Every public conformance suite is named where a connector is explained, and shows its values when it fails."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook

from waterclock import testing

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(Path(testing.__path__[0]).glob("[a-z]*.py"))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_each_conformance_suite_is_named_in_the_connector_how_to(module: Path) -> None:
    page = (ROOT / "docs" / "howto" / "write-a-connector.md").read_text(encoding="utf-8")
    tree = ast.parse(module.read_text(encoding="utf-8"))
    suites = [each.name for each in tree.body if isinstance(each, ast.ClassDef) and each.name.endswith("Conformance")]
    assert [name for name in suites if name not in page] == []
    assert f"`{module.stem}`" in (testing.__doc__ or "")


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_each_conformance_suite_uses_pytest_assertion_rewriting(module: Path) -> None:
    loaded = import_module(f"waterclock.testing.{module.stem}")
    assert isinstance(loaded.__loader__, AssertionRewritingHook)
