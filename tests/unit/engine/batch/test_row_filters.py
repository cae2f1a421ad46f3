from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from tests.ledgers import SOMEWHERE, table
from waterclock.engine.batch.row_filters import (
    list_findings,
    measures_of,
    merged_schema,
    mismatch_columns_of,
    row_filter_of,
)
from waterclock.flow.declarations import Column, Columns, Rule, Table
from waterclock.flow.enums import Action, Mode, Scope
from waterclock.flow.key_options import KeyOptions, KeyOrder
from waterclock.flow.references import Reference
from waterclock.flow.rule_actions import RuleAction, RuleActions, UnparsedLines
from waterclock.storage.slices.row_filter import ROW_DROPPED, ROW_KEPT, ROW_QUARANTINED, FilterCounts
from waterclock.timelabel.duration import Duration

ID = Column("id", SOMEWHERE, "BIGINT", is_key=True)


def of(
    *columns: Column, mode: Mode = Mode.APPEND, limited_actions: RuleActions = (), action: Action = Action.FAIL
) -> Table:
    rule = Rule("n > 0", "positive", Scope.ROW, action, SOMEWHERE, limited_actions=limited_actions)
    return replace(
        table("a.b", mode=mode, keys=("id",) if mode is Mode.MERGE else ()), columns=Columns(columns), rules=(rule,)
    )


def test_without_rows_to_take_out_there_is_no_sieve() -> None:
    assert row_filter_of(of(ID, action=Action.WARN)) is None
    assert row_filter_of(of(replace(ID, else_of_key=(RuleAction(Action.HOLD),)), action=Action.HOLD)) is None
    assert mismatch_columns_of(of(ID)) is None


def test_a_row_filter_checks_types_and_rules_in_order_and_the_key_last() -> None:
    columns = (
        replace(ID, else_of_key=(RuleAction(Action.WARN),)),
        Column("n", SOMEWHERE, "INT", else_of_type=(RuleAction(Action.DROP),)),
    )
    found = row_filter_of(of(*columns, action=Action.QUARANTINE))
    assert found is not None
    assert [(row_rule.name, row_rule.holds, row_rule.outcome) for row_rule in found.row_rules] == [
        ("n INT", "NOT `_waterclock_bad_0`", ROW_DROPPED),
        ("positive", "n > 0", ROW_QUARANTINED),
        ("KEY (id)", "", ROW_KEPT),
    ]
    assert (found.keys, found.is_unique) == (("id",), True)


def test_a_key_with_an_order_and_past_sorts_rows_and_has_two_rules() -> None:
    stays = KeyOptions((KeyOrder("at"), KeyOrder("line", is_descending=True)), Duration(2, "HOUR"))
    found = row_filter_of(of(replace(ID, else_of_key=(RuleAction(Action.DROP),), key_options=stays)))
    assert found is not None
    assert [(row_rule.name, row_rule.holds, row_rule.outcome) for row_rule in found.row_rules[1:]] == [
        ("KEY (id) PAST 2 HOURS", "", ROW_DROPPED),
        ("KEY (id)", "", ROW_DROPPED),
    ]
    assert found.order == ("`at` DESC NULLS LAST", "`line` ASC NULLS LAST")


def test_doubled_keys_of_a_merge_are_the_folds_own_matter() -> None:
    found = row_filter_of(of(replace(ID, else_of_key=(RuleAction(Action.QUARANTINE),)), mode=Mode.MERGE))
    assert found is not None
    assert not found.is_unique


def test_a_key_with_limited_actions_is_checked_by_the_row_filter() -> None:
    found = row_filter_of(of(replace(ID, else_of_key=(RuleAction(Action.WARN, Decimal(3)), RuleAction(Action.HOLD)))))
    assert found is not None
    assert [row_rule.outcome for row_rule in found.row_rules] == [ROW_KEPT, ROW_KEPT]


def test_each_violation_is_reported_with_its_action_unless_its_rows_are_dropped() -> None:
    limited = (RuleAction(Action.QUARANTINE, Decimal(1)), RuleAction(Action.HOLD))
    columns = Column("n", SOMEWHERE, "INT", is_not_null=True, else_of_null=(RuleAction(Action.DROP),))
    filter_counts = FilterCounts(10, 2, 1, {"n": 1, "positive": 3}, {"n": 1, "positive": 2})
    assert list(list_findings(of(columns, limited_actions=limited, action=Action.QUARANTINE), filter_counts)) == [
        (Action.HOLD, "positive: 3 of 10 rows violate (n > 0), beyond quarantine at most 1")
    ]
    steps = (RuleAction(Action.WARN, Decimal(3)), RuleAction(Action.HOLD, Decimal(5)))
    assert list(list_findings(of(columns, limited_actions=steps, action=Action.WARN), filter_counts)) == [
        (Action.WARN, "positive: 3 of 10 rows violate (n > 0)")
    ]
    plain = of(columns, action=Action.QUARANTINE)
    assert list(list_findings(plain, filter_counts)) == [
        (Action.QUARANTINE, "positive: 3 of 10 rows violate (n > 0), quarantined")
    ]
    assert measures_of(filter_counts) == {
        "in": 10,
        "quarantined": 2,
        "dropped": 1,
        "broken": {"n": 1, "positive": 3},
        "first": {"n": 1, "positive": 2},
    }


def test_columns_with_conflicting_schemas_are_read_with_their_first_type() -> None:
    first = '{"type":"struct","fields":[{"name":"a","type":"string","nullable":true,"metadata":{}}]}'
    second = first.replace("string", "integer").replace(
        "}]}", '},{"name":"b","type":"long","nullable":true,"metadata":{}}]}'
    )
    assert [field.split('"')[1] for field in merged_schema([second, first]).split('"name": ')[1:]] == ["a", "b"]
    assert '"type": "integer"' not in merged_schema([second, first])


def test_unparsed_lines_and_missing_parents_are_checked_by_hidden_columns() -> None:
    aside = (RuleAction(Action.QUARANTINE),)
    made = of(Column("n", SOMEWHERE, references=Reference("b.parent", otherwise=(RuleAction(Action.WARN),))))
    found = row_filter_of(replace(made, columns=replace(made.columns, unread=UnparsedLines("parsed()", aside))))
    assert found is not None
    assert [(row_rule.name, row_rule.holds, row_rule.outcome, row_rule.is_alone) for row_rule in found.row_rules] == [
        ("parsed()", "_waterclock_unread IS NULL", ROW_QUARANTINED, True),  # no other rule checks such a line
        ("n REFERENCES b.parent", "NOT _waterclock_orphan_0", ROW_KEPT, False),
        ("positive", "n > 0", ROW_KEPT, False),
    ]
