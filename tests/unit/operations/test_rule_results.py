"""The rules that an error or a warning of a batch is about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ledgers import SOMEWHERE, day, table
from waterclock.batches.audit_records import BatchState
from waterclock.engine.batch.expectations import RuleVerdict, batch_hold_error, refused_batch_error
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Rule
from waterclock.flow.enums import Action, Scope
from waterclock.operations.display_states import State
from waterclock.operations.rule_results import rules_in

OF = replace(
    table("a.b"),
    rules=tuple(Rule(text, text, Scope.ROW, Action.FAIL, SOMEWHERE) for text in ("a > 0", "b + a > 0", "c > 0")),
)


def state_of(status: str, error: str) -> BatchState:
    return BatchState("a.b", day(0), day(1), status, None, 1, None, 1, error, None, None, False, None)


@pytest.mark.parametrize("status", ["failed", "held"])
def test_a_rule_is_not_blamed_for_one_whose_name_ends_with_its_own(status: str) -> None:
    found = ("b + a > 0: 1 of 5 rows violate (b + a > 0)", "c > 0: 2 of 5 rows violate (c > 0)")
    error: WaterclockError = refused_batch_error(OF, "a.b@1", RuleVerdict(refusals=found))
    if status == "held":
        error = batch_hold_error(OF, "a.b@1", RuleVerdict(holds=found))
    answers = {each.rule: each.answers[0].state for each in rules_in(OF, [state_of(status, error.render())], {}, {})}
    assert answers == {"a > 0": State.DUE, "b + a > 0": State.FAILED, "c > 0": State.FAILED}
