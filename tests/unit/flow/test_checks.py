from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from tests.ledgers import SOMEWHERE, table
from waterclock.flow.checks import (
    Requirement,
    can_quarantine_rows,
    checks_of,
    columns_to_request,
    has_row_actions,
    is_key_past_read,
    keeps_unread,
    key_actions,
    key_options_of,
    loose_types,
    marks_rows,
    rules_without_expression,
)
from waterclock.flow.declarations import Column, Columns, Read, Rule, Table
from waterclock.flow.enums import Action, ReadKind, Scope
from waterclock.flow.key_options import KeyOptions, KeyOrder
from waterclock.flow.references import Reference
from waterclock.flow.rule_actions import FAILS, RuleAction, UnparsedLines, find_outcome, format_actions
from waterclock.timelabel.duration import Duration

ASIDE = (RuleAction(Action.QUARANTINE),)
DROPS = (RuleAction(Action.DROP),)
WARNS = (RuleAction(Action.WARN),)


def ruled(*columns: Column, rules: tuple[Rule, ...] = ()) -> Table:
    return replace(table("a.b"), columns=Columns(columns), rules=rules)


def rule(name: str, action: Action, scope: Scope = Scope.ROW) -> Rule:
    return Rule(f"{name} > 0", name, scope, action, SOMEWHERE)


def test_checks_are_in_declared_order_with_the_key_last() -> None:
    found = checks_of(
        ruled(
            Column("id", SOMEWHERE, "BIGINT", is_key=True, else_of_key=ASIDE),
            Column("n", SOMEWHERE, "INT", is_not_null=True, else_of_type=ASIDE, rules=(rule("big", Action.WARN),)),
            rules=(rule("n", Action.DROP), rule("many", Action.HOLD, Scope.BATCH)),
        )
    )
    assert [(check.name, check.demand, check.row_action) for check in found] == [
        ("n INT", Requirement.TYPE, Action.QUARANTINE),
        ("n (value)", Requirement.VALUE, None),
        ("big", Requirement.EXPRESSION, None),
        ("n", Requirement.EXPRESSION, Action.DROP),
        ("KEY (id)", Requirement.KEY, Action.QUARANTINE),
    ]


def test_no_check_of_a_column_has_the_name_of_another_rule() -> None:
    """Rows are counted by name: the counts of two checks with one name would be added up, and exceed either limit."""
    of = ruled(Column("id", SOMEWHERE, "BIGINT", is_not_null=True), Column("at", SOMEWHERE, is_not_null=True))
    of = replace(
        of,
        columns=replace(of.columns, unread=UnparsedLines("id", ASIDE)),
        input_rules=(replace(rule("at", Action.DROP), of="a.c"),),
    )
    assert [check.name for check in checks_of(of)] == ["id", "id (value)", "at (value)"]


def test_a_key_without_a_ladder_is_demanded_to_be_there() -> None:
    of = ruled(Column("id", SOMEWHERE, "BIGINT", is_key=True))
    assert [(check.name, check.demand, check.actions) for check in checks_of(of)] == [("id", Requirement.VALUE, FAILS)]
    assert key_actions(of) == FAILS


def test_drop_and_quarantine_remove_rows_but_only_quarantine_stores_them() -> None:
    warned = ruled(Column("n", SOMEWHERE, "INT", is_not_null=True, else_of_null=WARNS))
    dropped = ruled(Column("n", SOMEWHERE, "INT", is_not_null=True, else_of_null=DROPS))
    aside = ruled(rules=(rule("n", Action.QUARANTINE),))
    assert [has_row_actions(of) for of in (warned, dropped, aside)] == [False, True, True]
    assert [can_quarantine_rows(of) for of in (warned, dropped, aside)] == [False, False, True]


def test_a_column_whose_type_errors_only_warn_is_requested_as_text() -> None:
    of = ruled(Column("n", SOMEWHERE, "INT", else_of_type=WARNS), Column("m", SOMEWHERE, "INT", else_of_type=FAILS))
    assert loose_types(of) == {"n": "n INT"}
    assert [column.type for column in columns_to_request(of).named] == ["STRING", "INT"]
    assert columns_to_request(ruled()) == Columns(())


def test_a_timestamp_with_a_type_action_is_requested_in_the_type_of_its_source() -> None:
    """The text of an instant has lost its zone."""
    at = Column("at", SOMEWHERE, "TIMESTAMP", else_of_type=ASIDE)
    assert columns_to_request(ruled(at)).named[0].type is None


def test_the_source_file_and_row_are_requested_for_a_metadata_column_or_a_quarantine() -> None:
    said = Column("file", SOMEWHERE, metadata_field="file")
    assert [(it.name, it.metadata_field) for it in columns_to_request(ruled(said, Column("id", SOMEWHERE))).named] == [
        ("id", None),
        ("_waterclock_source_file", "file"),
    ]
    assert all(
        it.metadata_field is None for it in columns_to_request(ruled(Column("id", SOMEWHERE, is_key=True))).named
    )
    aside = columns_to_request(ruled(rules=(rule("n", Action.QUARANTINE),))).named
    assert [(it.name, it.type) for it in aside] == [
        ("_waterclock_source_file", "STRING"),
        ("_waterclock_source_row", "BIGINT"),
    ]


def test_the_limit_of_an_action_is_inclusive_and_a_percentage_refers_to_all_rows() -> None:
    actions = (RuleAction(Action.QUARANTINE, Decimal("0.5"), is_percent=True), RuleAction(Action.HOLD, Decimal(3)))
    found = [find_outcome(actions, *of) for of in ((0, 0), (1, 200), (2, 200), (3, 200), (4, 200))]
    assert found == [None, Action.QUARANTINE, Action.HOLD, Action.HOLD, Action.FAIL]
    assert format_actions(actions) == "quarantine at most 0.5 percent, else hold at most 3"


def test_the_parse_check_is_first_and_a_parent_is_checked_with_its_first_column() -> None:
    aside = Reference("b.parent", otherwise=ASIDE)
    of = replace(
        ruled(Column("n", SOMEWHERE, "INT", else_of_type=WARNS, references=aside), rules=(rule("n", Action.DROP),)),
        columns=Columns(
            (
                Column("n", SOMEWHERE, "INT", else_of_type=WARNS, references=replace(aside, otherwise=())),
                Column("m", SOMEWHERE, references=aside),
                Column("o", SOMEWHERE, references=Reference("b.parent", role="other")),
            ),
            unread=UnparsedLines("readable", DROPS),
        ),
    )
    assert [(check.name, check.demand, check.row_action) for check in checks_of(of)] == [
        ("readable", Requirement.PARSED, Action.DROP),
        ("n INT", Requirement.TYPE, None),
        ("(n, m) REFERENCES b.parent", Requirement.REFERENCE, Action.QUARANTINE),
        ("n", Requirement.EXPRESSION, Action.DROP),
    ]
    assert [(each.expression, each.name) for each in rules_without_expression(of)] == [
        ("parsed()", "readable"),
        ("(n, m) REFERENCES b.parent", "(n, m) REFERENCES b.parent"),
    ]
    assert columns_to_request(of).unread == UnparsedLines("readable", DROPS)


def test_lines_that_fail_their_batch_are_no_rows() -> None:
    strict = replace(ruled(), columns=Columns(unread=UnparsedLines("parsed()", FAILS)))
    assert (keeps_unread(strict.columns), marks_rows(strict), checks_of(strict)) == (False, False, ())
    warned = replace(ruled(), columns=Columns(unread=UnparsedLines("parsed()", WARNS)))
    assert (marks_rows(warned), has_row_actions(warned)) == (True, False)


def test_a_quarantine_of_unparsed_lines_requests_file_and_row_without_a_column_list() -> None:
    of = replace(ruled(), columns=Columns(unread=UnparsedLines("parsed()", ASIDE)))
    assert [it.metadata_field for it in columns_to_request(of).named] == ["file", "row"]


WEEK = Duration(7, "DAY")


def test_a_key_with_past_is_checked_against_earlier_rows_before_those_of_the_batch() -> None:
    of = ruled(
        Column(
            "id",
            SOMEWHERE,
            is_key=True,
            else_of_key=DROPS,
            key_options=KeyOptions((KeyOrder("at", is_descending=True),)),
        ),
        Column("shop", SOMEWHERE, is_key=True, key_options=KeyOptions(past=WEEK)),
    )
    assert key_options_of(of) == KeyOptions((KeyOrder("at", is_descending=True),), WEEK)
    assert [(check.name, check.demand, check.broken_words) for check in checks_of(of)] == [
        ("KEY (id, shop) PAST 7 DAYS", Requirement.PAST, "have a key that also occurs in the 7 DAYS before"),
        ("KEY (id, shop)", Requirement.KEY, "have no key, or one whose key another row has"),
    ]
    assert str(key_options_of(of)) == "PAST 7 DAYS ORDER BY at DESC"


def test_the_read_of_a_key_is_the_one_with_a_span() -> None:
    reads = [Read("a.b", ReadKind.PREVIOUS, WEEK), Read("a.b", ReadKind.PREVIOUS), Read("a.b", ReadKind.PAST, WEEK)]
    assert [is_key_past_read(read) for read in reads] == [True, False, False]


def test_a_check_whose_name_a_rule_has_is_counted_under_another() -> None:
    key = Column("id", SOMEWHERE, is_key=True, else_of_key=ASIDE)
    ok, v = (Column(name, SOMEWHERE, is_not_null=True) for name in ("ok", "v"))
    rules = (rule("ok", Action.QUARANTINE), rule("KEY (id)", Action.QUARANTINE), rule("v", Action.FAIL, Scope.BATCH))
    named = {check.name: check.demand for check in checks_of(ruled(key, ok, v, rules=rules))}
    assert named == {
        "ok (value)": Requirement.VALUE,
        "v": Requirement.VALUE,
        "ok": Requirement.EXPRESSION,
        "KEY (id)": Requirement.EXPRESSION,
        "KEY (id) (key)": Requirement.KEY,
    }
