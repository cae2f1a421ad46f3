"""The checks of a sealed label, and the meaning of its counts."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.ledgers import SOMEWHERE, table
from tests.unit.engine.fakes import manifest
from waterclock.engine.batch.expectations import (
    RuleVerdict,
    evaluate_audit,
    excluded_row_warnings,
    has_unmeasured_rules,
    measured_batch_rules,
    refused_batch_error,
)
from waterclock.flow.checks import list_batch_rules
from waterclock.flow.declarations import Column, Columns, Rule, Table
from waterclock.flow.enums import Action, Mode, Scope
from waterclock.flow.merge_settings import Merge

WHERE = "marts.a@20130101000000"


def rule(name: str, *, action: Action, scope: Scope = Scope.ROW) -> Rule:
    return Rule(f"{name} > 0", name, scope, action, SOMEWHERE)


def audited(*rules: Rule, columns: tuple[Column, ...] = (), mode: Mode = Mode.APPEND) -> Table:
    return dataclasses.replace(
        table("marts.a", mode=mode),
        rules=rules,
        columns=Columns(columns),
        fold=Merge(("id",)) if mode is Mode.MERGE else None,
    )


def verdict_of(of: Table, measures: dict[str, Any], rows: int = 10) -> RuleVerdict:
    slice_ = manifest("marts.a", 0, rows=rows, digest=f"{rows}:1:2")
    return evaluate_audit(None, of, "folder", slice_, measures, None)  # type: ignore[arg-type]  # counts alone need no Spark


def test_the_rules_of_a_table_come_before_those_of_its_columns() -> None:
    own, of_column = rule("own", action=Action.FAIL), rule("of_column", action=Action.WARN)
    found = list_batch_rules(audited(own, columns=(column("id", rules=(of_column,)),)))
    assert found == (own, of_column)


def column(name: str, **said: Any) -> Column:
    return Column(name, place=SOMEWHERE, **said)


def test_a_rule_that_every_row_satisfies_has_no_findings() -> None:
    of = audited(rule("a", action=Action.FAIL), rule("b", action=Action.WARN))
    assert verdict_of(of, {"expect:a": 0, "expect:b": None}) == RuleVerdict()


def test_a_broken_fail_rule_refuses_the_batch_and_a_broken_warn_rule_does_not() -> None:
    of = audited(rule("a", action=Action.FAIL), rule("b", action=Action.WARN))
    found = verdict_of(of, {"expect:a": 3, "expect:b": 4})
    assert found.refusals == ("a: 3 of 10 rows violate (a > 0)",)
    assert found.warnings == ("b: 4 of 10 rows violate (b > 0)",)


def test_keys_and_not_null_columns_hold_a_value_in_every_row() -> None:
    of = audited(columns=(column("id", is_key=True), column("n", is_not_null=True), column("free")), mode=Mode.MERGE)
    found = verdict_of(of, {"null:id": 1, "null:n": 2, "null:free": 5})
    assert found.refusals == ("id is null in 1 of 10 rows", "n is null in 2 of 10 rows")


def test_rules_of_the_batch_are_known_as_such() -> None:
    assert not has_unmeasured_rules(audited(rule("a", action=Action.FAIL)), {})
    of = audited(rule("a", action=Action.FAIL, scope=Scope.BATCH))
    assert has_unmeasured_rules(of, {"expect:a": 0})
    assert not has_unmeasured_rules(of, {"batch:a": None})


BATCH_RULES = [
    ("count(*) > 0", True),
    ("count_if(dep_time IS NULL) < 0.02 * count(*)", True),
    ("coalesce(sum(amount), 0) >= 0 AND (min(at) IS NOT NULL)", True),
    ("count(DISTINCT carrier) < 20", False),
    ("count(*) FILTER (WHERE late) < 3", False),
    ("approx_percentile(amount, 0.5) < 3", False),
    ("my_aggregate(amount) < 3", False),
    ("amount > 0", False),
]


@pytest.mark.parametrize(("expression", "is_in_pass"), BATCH_RULES)
def test_rules_that_spark_observes_while_writing_need_no_extra_job(expression: str, *, is_in_pass: bool) -> None:
    of = audited(Rule(expression, "r", Scope.BATCH, Action.FAIL, SOMEWHERE))
    assert has_unmeasured_rules(of, {f"batch:{each.name}": True for each in measured_batch_rules(of)}) is not is_in_pass
    assert measured_batch_rules(of, at_rest=True) == list(of.rules), "one scan of the sealed rows checks all rules"


def test_a_rule_of_the_batch_that_was_observed_holds_only_where_it_is_true() -> None:
    of = audited(Rule("count(*) > 5", "many", Scope.BATCH, Action.FAIL, SOMEWHERE))
    assert verdict_of(of, {"batch:many": True}) == RuleVerdict()
    for answer in (False, None):
        assert verdict_of(of, {"batch:many": answer}).refusals == (
            "many: the batch is not (count(*) > 5), where count(*) is 10",
        )


def test_a_refused_batch_error_lists_all_violations_and_states_nothing_is_visible() -> None:
    of = audited(rule("a", action=Action.FAIL))
    error = refused_batch_error(
        of, WHERE, RuleVerdict(refusals=("a: 3 of 10 rows violate (a > 0)", "id is null in 1 of 10 rows"))
    )
    assert (error.code, error.where, error.transient) == ("E740", WHERE, False)
    assert "3 of 10" in error.what
    assert error.why == "id is null in 1 of 10 rows"
    assert "nothing of this revision is visible, and an earlier one stays" in (error.fix or "")
    assert "flow.dpl:1:1" in (refused_batch_error(of, WHERE, RuleVerdict(refusals=("one",))).why or "")


def test_rows_excluded_while_reading_the_source_are_reported_with_their_counts() -> None:
    assert excluded_row_warnings({"rows without a data time": 3, "rows whose data time cannot be read": 1}) == (
        "left out, rows without a data time: 3",
        "left out, rows whose data time cannot be read: 1",
    )
    assert excluded_row_warnings({}) == ()
