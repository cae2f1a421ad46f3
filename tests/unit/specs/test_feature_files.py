from __future__ import annotations

import pytest

from tests.specifying import feature
from waterclock.flow.declarations import Place
from waterclock.specs.feature_files import read_feature

TEXT = """
@money
Feature: Sales
  What is sold.

  Background:
    Given the table raw.customers is empty

  Scenario: above all rules
    When marts.sales runs

  @late
  Rule: only what is paid counts
    Why it is so.

    Background:
      Given the table raw.clicks is empty

    @slow
    Scenario Outline: <amount> is paid
      Given the table raw.orders
        | id | amount   |
        | 1  | <amount> |
        | 2  | a \\| b  |
      Then marts.sales is empty

      Examples:
        | amount | why  |
        | 5      | paid |
        | 0      |      |

    Scenario Outline: the same name
      Given the table raw.orders is empty
      Then marts.sales is empty

      Examples:
        | n |
        | 1 |
        | 2 |
"""


def test_scenarios_belong_to_their_rule_and_have_all_backgrounds_and_tags() -> None:
    found = feature(TEXT)

    assert (found.name, found.description, found.tags) == ("Sales", "What is sold.", ("@money",))
    assert [(rule.name, rule.description, len(rule.scenarios)) for rule in found.rules] == [
        ("", "", 1),
        ("only what is paid counts", "Why it is so.", 4),
    ]
    first, second = found.rules[0].scenarios[0], found.rules[1].scenarios[0]
    assert [(step.keyword, step.text, step.is_background) for step in first.steps] == [
        ("Given", "the table raw.customers is empty", True),
        ("When", "marts.sales runs", False),
    ]
    assert [step.text for step in second.steps if step.is_background] == [
        "the table raw.customers is empty",
        "the table raw.clicks is empty",
    ]
    assert second.tags == ("@money", "@late", "@slow")


def test_an_outline_is_written_out_with_the_places_of_its_own_text() -> None:
    paid, unpaid, *same = feature(TEXT).rules[1].scenarios

    assert [paid.title, unpaid.title] == ["5 is paid", "0 is paid"]
    assert [each.title for each in same] == ["the same name (n 1)", "the same name (n 2)"]
    assert paid.example == (("amount", "5"), ("why", "paid"))
    assert paid.place == Place("specs/a.feature", 28, 9)
    step = paid.steps[2]
    assert step.grid is not None
    assert [cell.text for cell in step.grid.rows[0]] == ["1", "5"]
    assert step.grid.rows[0][1].place == Place("specs/a.feature", 22, 16)
    assert step.grid.rows[1][1].text == "a | b"
    assert str(paid) == "Sales / only what is paid counts / 5 is paid"


@pytest.mark.parametrize(
    ("text", "what", "where", "fix"),
    [
        ("", "there is no Feature in this file", "1:1", "write a scenario, or remove the file"),
        ("Feature: a\n", "there is no Scenario in this file", "1:1", "write a scenario, or remove the file"),
        ("Feture: a\n", "'Feture: a' is not expected here", "1:1", "did you mean Feature:?"),
        (
            "Feature: a\nScenario: b\nGiven x\nWhn y\n",
            "'Whn y' is not expected here",
            "4:1",
            "did you mean When?",
        ),
        (
            "Feature: a\nScenario: b\nGiven x\n  | a |\n  | b | c |\n",
            "the lines of this table have different numbers of cells",
            "5:3",
            "write NULL where there is no value",
        ),
        (
            'Feature: a\nScenario: b\nGiven x\n"""\nno end\n',
            "the file ends too early",
            "6:1",
            "write a feature with scenarios, and scenarios with steps",
        ),
        (
            "Feature: a\nScenario: b\n",
            "this scenario has no step",
            "2:1",
            "a scenario has steps Given, When, Then",
        ),
        (
            "Feature: a\nScenario: b\nGivn the table a.b\nWhen a.b runs\n",
            "this scenario has a line above its steps that resembles a step",
            "2:1",
            "did you mean Given? In: Givn the table a.b",
        ),
        (
            "Feature: a\nScenario Outline: b\nGiven x\n",
            "this scenario has no examples",
            "2:1",
            "write Examples: and a table below it, its names in <these>",
        ),
    ],
)
def test_invalid_gherkin_is_reported_with_its_place_and_a_fix(text: str, what: str, where: str, fix: str) -> None:
    _, (error,) = read_feature(text, "a.feature")

    assert (error.code, error.what, error.where, error.fix) == ("E350", what, f"a.feature:{where}", fix)


def test_each_broken_line_is_reported_with_its_text() -> None:
    _, errors = read_feature("Feature: a\nScenario: b\nGiven x\nWhn y\nThn z\n", "a.feature")

    assert [error.where for error in errors] == ["a.feature:4:1", "a.feature:5:1"]
    assert errors[0].excerpt == "4 | Whn y\n  | ^"


def test_words_of_other_languages_are_understood() -> None:
    found = feature("# language: de\nFunktionalität: a\n  Szenario: b\n    Angenommen the table a.b is empty\n")

    assert [step.text for step in next(found.scenarios).steps] == ["the table a.b is empty"]
