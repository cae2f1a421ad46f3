from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from tests.ledgers import SOMEWHERE, table
from waterclock.batches.records import count_quarantined
from waterclock.dpl.query.column_readers import is_used_by_rule
from waterclock.engine.batch.input_rules import InputFindings, _list_findings, filter_query_inputs, input_filters_of
from waterclock.engine.batch.row_filters import find_actions
from waterclock.flow.checks import can_quarantine_rows, every_rule, input_checks, input_rules_of
from waterclock.flow.declarations import Flat, Read, Rule, Table
from waterclock.flow.enums import Action, ReadKind, Scope
from waterclock.flow.rule_actions import RuleAction, RuleActions
from waterclock.storage.slices.input_filter import InputCounts
from waterclock.storage.slices.row_filter import ROW_KEPT, ROW_QUARANTINED, FilterCounts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def rule(text: str, name: str, action: Action, *, of: str = "", limited_actions: RuleActions = ()) -> Rule:
    scope = Scope.BATCH if "count" in text else Scope.ROW
    return Rule(text, name, scope, action, SOMEWHERE, limited_actions=limited_actions, of=of)


def asking(*input_rules: Rule, rules: tuple[Rule, ...] = ()) -> Table:
    return replace(table("a.made", reads=("a.read", "a.other")), input_rules=input_rules, rules=rules)


GOOD = rule("n > 0", "good", Action.QUARANTINE, of="a.read")
TOLD = rule("n < 9", "small", Action.WARN, of="a.other")
SOME = rule("count(*) > 0", "some", Action.HOLD, of="a.read")


def test_bits_of_input_rules_follow_the_bits_of_the_tables_own_rules() -> None:
    made = asking(GOOD, TOLD, SOME, rules=(rule("m > 0", "most", Action.DROP),))
    input_filters = input_filters_of(made)
    assert {name: (of_input.first_bit, of_input.may_quarantine) for name, of_input in input_filters.items()} == {
        "a.read": (1, True),
        "a.other": (2, False),
    }
    assert [(row_rule.name, row_rule.outcome) for row_rule in input_filters["a.read"].row_filter.row_rules] == [
        ("good", ROW_QUARANTINED)
    ]
    assert [row_rule.outcome for row_rule in input_filters["a.other"].row_filter.row_rules] == [ROW_KEPT]
    assert (input_filters["a.read"].pass_condition, input_filters["a.other"].pass_condition) == ("(n > 0)", "")
    assert [each.name for each in every_rule(made)] == ["good", "small", "some", "most"]
    assert can_quarantine_rows(made)
    assert not can_quarantine_rows(asking(TOLD, rules=(rule("m > 0", "most", Action.DROP),)))
    assert [each.name for each in input_rules_of(made)["a.read"]] == ["good", "some"]


def test_input_filters_apply_only_to_plain_reads_of_the_table() -> None:
    class Frame:
        def where(self, text: str) -> str:
            return text

    plain, frame = Read("a.read"), Frame()
    others: list[Any] = [Read("a.read", ReadKind.PREVIOUS), Flat(plain), Read("a.other")]
    seen = filter_query_inputs(asking(GOOD, TOLD), cast("dict[Any, DataFrame]", dict.fromkeys([plain, *others], frame)))
    assert seen == {plain: "(n > 0)", **dict.fromkeys(others, frame)}


def test_a_finding_of_an_input_rule_names_the_input_table() -> None:
    actions = (RuleAction(Action.QUARANTINE, Decimal(1)), RuleAction(Action.HOLD))
    limited = replace(GOOD, limited_actions=actions)
    filter_counts = FilterCounts(10, 2, 0, {"good": 2}, {"good": 2})
    assert list(find_actions(input_checks([limited]), filter_counts, of=" of a.read")) == [
        (Action.HOLD, "good: 2 of 10 rows of a.read violate (n > 0), beyond quarantine at most 1")
    ]


def test_a_finding_of_a_batch_rule_shows_its_aggregate_values() -> None:
    few = rule("count(*) > 5 AND count(n) > 2", "few", Action.HOLD, of="a.read")
    answers = {"few": False, "few: count(*)": "4", "few: count(n)": None}
    assert list(_list_findings(asking(few), {"a.read": InputCounts(FilterCounts(4, 0, 0, {}, {}), answers)})) == [
        (
            Action.HOLD,
            "few: the rows of a.read violate (count(*) > 5 AND count(n) > 2), where count(*) is 4; count(n) is NULL",
        )
    ]


def test_rows_that_were_read_and_made_are_in_one_quarantine() -> None:
    found = InputFindings({"a.read": InputCounts(FilterCounts(10, 2, 1, {"good": 2, "small": 0}, {"good": 2}))})
    assert found.measures() == {
        "input_rules": {
            "a.read": {"in": 10, "quarantined": 2, "dropped": 1, "broken": {"good": 2}, "first": {"good": 2}}
        }
    }
    assert count_quarantined({"quarantined": 3} | found.measures()) == 5
    assert count_quarantined(InputFindings().measures()) == 0


def test_an_input_rule_uses_the_columns_of_the_input_table() -> None:
    made = asking(GOOD, TOLD)
    assert is_used_by_rule(made, "a.read", "N")
    assert not is_used_by_rule(made, "a.read", "m")
    assert not is_used_by_rule(table("a.made", reads=("a.read",)), "a.read", "n")
