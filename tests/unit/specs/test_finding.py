from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.errors import WaterclockError
from waterclock.specs.finding import find_features

ONE = """
@mart
Feature: Sales
  Rule: only what is paid
    @slow
    Scenario: unpaid
      Given the table a.b is empty
    Scenario: paid
      Given the table a.b is empty
"""
TWO = "Feature: Pages\n  Scenario: none\n    Given the table a.b is empty\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "specs" / "deep").mkdir(parents=True)
    (tmp_path / "specs" / "sales.feature").write_text(ONE, encoding="utf-8")
    (tmp_path / "specs" / "deep" / "pages.feature").write_text(TWO, encoding="utf-8-sig")
    (tmp_path / "specs" / "notes.md").write_text("no feature")
    return tmp_path


def titles(root: Path, *files: str, **chosen: str) -> list[str]:
    return [scenario.title for scenario in find_features(root, files, **chosen).scenarios]


def test_all_files_below_specs_are_found_and_named_from_the_project(root: Path) -> None:
    found = find_features(root)

    assert [feature.file for feature in found.features] == ["specs/deep/pages.feature", "specs/sales.feature"]
    assert [scenario.title for scenario in found.scenarios] == ["none", "unpaid", "paid"]


def test_files_and_folders_may_be_named(root: Path) -> None:
    assert titles(root, "specs/sales.feature") == ["unpaid", "paid"]
    assert titles(root, "specs/deep", str(root / "specs" / "deep" / "pages.feature")) == ["none"]


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        ({"name": "PAID"}, ["unpaid", "paid"]),
        ({"name": "* / paid"}, ["paid"]),
        ({"name": "only what"}, ["unpaid", "paid"]),
        ({"tags": "mart"}, ["unpaid", "paid"]),
        ({"tags": "@mart, not @slow"}, ["paid"]),
        ({"tags": "not mart"}, ["none"]),
        ({"tags": "slow,fast"}, ["unpaid"]),
        ({"tags": "mart", "name": "unpaid"}, ["unpaid"]),
    ],
)
def test_scenarios_are_chosen_by_name_and_tags(root: Path, chosen: dict[str, str], found: list[str]) -> None:
    assert titles(root, **chosen) == found


@pytest.mark.parametrize(
    ("files", "chosen", "what", "why", "fix"),
    [
        ((), {"name": "payd"}, "no scenario has name payd", "there are 3 scenarios, with the tags mart, slow", "paid"),
        ((), {"tags": "x"}, "no scenario has tags x", "there are 3 scenarios, with the tags mart, slow", "leave"),
        (("specs/sale.feature",), {}, "no file specs/sale.feature", None, "did you mean specs/sales.feature?"),
    ],
)
def test_a_choice_without_matches_is_refused_with_the_existing_names(
    root: Path, files: tuple[str, ...], chosen: dict[str, str], what: str, why: str | None, fix: str
) -> None:
    with pytest.raises(WaterclockError) as raised:
        find_features(root, files, **chosen)

    assert (raised.value.code, raised.value.what, raised.value.why) == ("E360", what, why)
    assert fix in (raised.value.fix or "")


def test_a_project_without_specifications_is_refused_with_the_place_to_write_them(tmp_path: Path) -> None:
    with pytest.raises(WaterclockError, match=r"write specs/first.feature") as raised:
        find_features(tmp_path)
    assert raised.value.code == "E360"


def test_a_file_that_is_not_utf_8_is_reported_and_the_others_are_read(root: Path) -> None:
    (root / "specs" / "bad.feature").write_bytes(b"Feature: \xff")

    found = find_features(root)

    assert [(error.code, error.where) for error in found.errors] == [("E350", "specs/bad.feature:1:1")]
    assert len(found.features) == 2
