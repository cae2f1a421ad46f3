"""Spark's plans in JSON, written by hand: the lineage read from them, and the result if they cannot be followed."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from waterclock.engine.batch.plan_lineage import lineage_of
from waterclock.engine.batch.plan_tree import plan_of
from waterclock.flow.code_lineage import AGGREGATED, COMPUTED, COPIED, CodeLineage

LOGICAL, EXPRESSIONS = "org.apache.spark.sql.catalyst.plans.logical.", "org.apache.spark.sql.catalyst.expressions."
Parts = list[dict[str, Any]]


def node(kind: str, *children: Parts, package: str = LOGICAL, **fields: Any) -> Parts:
    top = {"class": package + kind, "num-children": len(children), **fields}
    return [top, *(part for child in children for part in child)]


def attribute(name: str, number: int) -> Parts:
    said = {"product-class": EXPRESSIONS + "ExprId", "id": number, "jvmId": "j"}
    return node("AttributeReference", package=EXPRESSIONS, name=name, exprId=said)


def alias(name: str, number: int, child: Parts) -> Parts:
    return node("Alias", child, package=EXPRESSIONS, name=name, exprId={"id": number})


def add(*children: Parts) -> Parts:
    return node("Add", *children, package=EXPRESSIONS, left=0, right=1)


def read(name: str = "r", *columns: tuple[str, int]) -> Parts:
    relation = node("LogicalRelation", package="org.apache.spark.sql.execution.datasources.",
                    output=[attribute(*each) for each in columns or (("a", 1), ("b", 2))])  # fmt: skip
    return node("SubqueryAlias", relation, identifier={"name": name, "qualifier": []})


def told(plan: Parts, *names: str) -> CodeLineage:
    sources = {"r": lambda column: ("raw.r", column), "s": lambda column: ("raw.s", column)}
    return lineage_of(plan_of(json.dumps(plan)), names, sources, ["raw.r", "raw.s"])


def of(*columns: str) -> frozenset[tuple[str, str]]:
    return frozenset(("raw.r", column) for column in columns)


EVERYTHING = frozenset({("raw.r", "*"), ("raw.s", "*")})


def test_columns_are_followed_by_their_ids_and_not_by_their_names() -> None:
    inner = node("Project", read(), projectList=[alias("b", 3, attribute("a", 1)), alias("a", 4, attribute("b", 2))])
    found = told(node("Project", inner, projectList=[attribute("a", 4), alias("x", 5, add(*[attribute("b", 3)] * 2))]),
                 "a", "x")  # fmt: skip
    assert (found.columns["a"].inputs, found.columns["a"].how) == (of("b"), COPIED)
    assert (found.columns["x"].inputs, found.columns["x"].how) == (of("a"), COMPUTED)
    assert found.uses == {}


def test_a_union_keeps_the_ids_of_its_first_and_is_made_of_both() -> None:
    one = node("Project", read(), projectList=[attribute("a", 1)])
    other = node("Project", read("s", ("c", 8)), projectList=[attribute("c", 8)])
    found = told(node("Project", node("Union", one, other), projectList=[attribute("a", 1)]), "a")
    assert found.columns["a"].inputs == {("raw.r", "a"), ("raw.s", "c")}


def test_lineage_of_an_aggregate_contains_its_grouping_columns() -> None:
    total = node("Sum", attribute("b", 2), package=f"{EXPRESSIONS}aggregate.")
    plan = node("Aggregate", read(), groupingExpressions=[attribute("a", 1)],
                aggregateExpressions=[attribute("a", 1), alias("t", 3, total)])  # fmt: skip
    found = told(plan, "a", "t")
    assert found.columns["t"].how == AGGREGATED
    assert found.uses == {"group": of("a")}


def test_a_scalar_subquery_is_followed_and_its_filter_columns_are_no_inputs() -> None:
    outer = node("OuterReference", package=EXPRESSIONS, e=attribute("a", 1))
    rows = node("Filter", read("s", ("c", 8)), condition=node("EqualTo", attribute("c", 8), outer, package=EXPRESSIONS))
    query = node("Project", rows, projectList=[alias("m", 9, attribute("c", 8))])
    scalar = node("ScalarSubquery", attribute("a", 1), package=EXPRESSIONS, plan=query)
    found = told(node("Project", read(), projectList=[alias("m", 5, scalar)]), "m")
    assert found.columns["m"].inputs == {("raw.s", "c")}
    assert found.uses == {"filter": of("a") | {("raw.s", "c")}}


def test_a_cte_reference_has_the_lineage_of_its_definition() -> None:
    definition = node("CTERelationDef", read(), id=7)
    reference = node("CTERelationRef", cteId=7, output=[attribute("a", 11), attribute("b", 12)])
    body = node("Project", reference, projectList=[attribute("b", 12)])
    assert told(node("WithCTE", definition, body), "b").columns["b"].inputs == of("b")


def test_outputs_of_an_unknown_operator_may_depend_on_all_its_inputs() -> None:
    some = node("Project", read(), projectList=[attribute("a", 1)])
    found = told(node("Sorcery", some, output=[attribute("x", 6)]), "x").columns["x"]
    assert (found.inputs, found.maybe, found.why) == (frozenset(), of("a"), frozenset({"Spark's Sorcery"}))
    passed = told(node("Sorcery", read()), "a", "b")
    assert (passed.columns["a"].inputs, passed.columns["a"].maybe) == (of("a"), of("b"))
    assert passed.uses == {"may read": of("a", "b")}


def test_rows_of_unknown_origin_may_depend_on_all_inputs() -> None:
    rows = node("LogicalRDD", package="org.apache.spark.sql.execution.", output=[attribute("x", 6)])
    found = told(rows, "x").columns["x"]
    assert (found.inputs, found.maybe) == (frozenset(), EVERYTHING)
    assert told(node("LocalRelation", output=[attribute("x", 6)]), "x").columns["x"].maybe == frozenset()


def test_a_column_that_the_plan_does_not_show_and_other_columns_than_are_there_are_not_known() -> None:
    lost = told(node("Project", read(), projectList=[alias("x", 5, attribute("z", 99))]), "x").columns["x"]
    assert lost.maybe == EVERYTHING
    other = told(read(), "a", "c")
    assert {name: made.maybe for name, made in other.columns.items()} == {"a": EVERYTHING, "c": EVERYTHING}


def test_columns_with_unchanged_ids_keep_their_lineage_through_an_incomplete_unpivot() -> None:
    found = told(node("Expand", read(), projections=None, output=[attribute("a", 1), attribute("v", 6)]), "a", "v")
    assert (found.columns["a"].inputs, found.columns["a"].maybe) == (of("a"), frozenset())
    assert found.columns["v"].maybe == of("a", "b")


def test_a_stack_gives_each_column_every_so_manieth_value() -> None:
    two = node("Literal", package=EXPRESSIONS, value="2")
    values = [attribute("a", 1), attribute("b", 2), add(attribute("a", 1), attribute("a", 1)), two]
    stack = node("Stack", two, *values, package=EXPRESSIONS)
    found = told(node("Generate", read(), generator=stack, generatorOutput=[attribute("x", 6), attribute("y", 7)]),
                 "a", "b", "x", "y")  # fmt: skip
    assert (found.columns["x"].inputs, found.columns["y"].inputs) == (of("a"), of("b"))


def test_a_long_plan_is_followed_without_a_call_for_each_operator() -> None:
    plan, numbers = read(), count(100)
    last = 1
    for _ in range(3000):
        number = next(numbers)
        plan = node("Project", plan, projectList=[alias("a", number, attribute("a", last))])
        last = number
    assert told(plan, "a").columns["a"].inputs == of("a")


@pytest.mark.parametrize("text", ["{}", "[]", "[1]", '[{"class": "a.B", "num-children": 1}]', "nothing"])
def test_a_malformed_plan_is_refused(text: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        plan_of(text)


def test_two_plans_are_refused() -> None:
    with pytest.raises(ValueError, match="2 plans"):
        plan_of(json.dumps([*read(), *read()]))
