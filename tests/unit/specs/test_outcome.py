from __future__ import annotations

import json

from tests.specifying import feature
from waterclock.specs.comparing import compare
from waterclock.specs.outcome import ScenarioOutcome, ScenarioVerdict, SpecOutcome, StepOutcome

TEXT = """
Feature: Sales
  Rule: paid
    @slow
    Scenario: one
      When marts.sales runs
      Then marts.sales is empty
"""


def outcome(*, is_same: bool) -> SpecOutcome:
    found = feature(TEXT)
    (one,) = found.scenarios
    rows = compare(("n",), [(1,)], [(1,)] if is_same else [])
    verdict = ScenarioVerdict.PASSED if is_same else ScenarioVerdict.FAILED
    steps = (StepOutcome(one.steps[0], ScenarioVerdict.PASSED), StepOutcome(one.steps[1], verdict, rows))
    return SpecOutcome("shop", "dev", (found,), (ScenarioOutcome(one, steps, 0.25, ("marts.sales",)),))


def test_a_json_outcome_contains_the_differences_of_a_failed_step() -> None:
    told = json.loads(json.dumps(outcome(is_same=False).to_dict()))

    assert (told["ok"], told["passed"], told["failed"]) == (False, 0, 1)
    assert told["scenarios"][0]["rule"] == "paid"
    assert told["scenarios"][0]["tags"] == ["@slow"]
    assert told["scenarios"][0]["steps"][0] == {
        "keyword": "When",
        "text": "marts.sales runs",
        "place": "specs/a.feature:5:7",
        "verdict": "passed",
    }
    assert told["scenarios"][0]["steps"][1] == {
        "keyword": "Then",
        "text": "marts.sales is empty",
        "place": "specs/a.feature:6:7",
        "verdict": "failed",
        "difference": "rows differ: 1 missing",
        "error": None,
        "rows": [{"mark": "missing", "expected": {"n": 1}, "got": None}],
    }


def test_an_outcome_is_printed_as_text() -> None:
    assert str(outcome(is_same=True)) == "1 passed, 0 failed"
    assert str(outcome(is_same=False)).splitlines() == [
        "0 passed, 1 failed",
        "",
        "Sales / paid / one",
        "  specs/a.feature:6:7  marts.sales is empty",
        "  rows differ: 1 missing",
        "    | n |",
        "  - | 1 |  missing",
    ]


def test_nothing_that_ran_is_no_success() -> None:
    assert outcome(is_same=True).is_passed
    assert not SpecOutcome("shop", "dev", (), ()).is_passed
