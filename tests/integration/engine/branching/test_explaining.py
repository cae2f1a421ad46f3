"""The difference between a branch and production is explained from their ledgers: by code, by sources, by reverts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.branches import Branched
from tests.integration.engine.branching.test_branches import BEFORE, NOW, copied, production
from tests.json_answers import check_answer
from tests.tiny import day, described
from waterclock.operations.comparing import ComparisonRequest
from waterclock.operations.explaining import Explanation, explain_difference
from waterclock.operations.explanation_report import explanation_answer

pytestmark = pytest.mark.spark
__all__ = ["copied", "production"]  # fixtures


def explain(project: Branched, *tables: str, **request: Any) -> Explanation:
    """Explain a difference from the ledgers alone, and check that the result is a valid output of the command."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("waterclock.engine.spark.session.Sessions.own", _refuse)
        patch.setattr("waterclock.engine.spark.session.Sessions.root", _refuse)
        found = explain_difference(project.load(), ComparisonRequest(tables, **request))
    answer = explanation_answer(found)
    check_answer("diff", {"version": answer.version, **answer.to_json()})
    return found


def _refuse(*_: Any) -> None:
    raise AssertionError("Spark is used")


def causes(found: Explanation) -> set[tuple[str, str, tuple[Any, ...], tuple[str, ...]]]:
    return {(it.cause.kind, it.cause.table, it.cause.labels, it.parts) for it in found.causes}


def test_differences_are_traced_to_code_or_source_of_the_first_differing_table(copied: Branched) -> None:
    branch = copied.of("try")
    branch.create(NOW)
    branch.make()
    prod = copied.load()
    net = explain(branch, "marts.net@2020-01-02", against=prod)
    assert causes(net) == {("code", "marts.net", (day(2),), ("query",))}
    recent = explain(branch, "marts.recent@2020-01-03", against=prod)
    assert causes(recent) == {("code", "marts.net", (day(2), day(3)), ("query",))}
    # the state of the first day was made from changed rows, and all later ones from it
    running = explain(branch, "marts.running@2020-01-03", against=prod)
    assert causes(running) == {("code", "marts.net", (day(1), day(2), day(3)), ("query",))}
    assert running.causes[0].cause.path[-1] == ("marts.running", day(3))
    assert explain(branch, "marts.same", against=prod).differs is False

    copied.shop("UPDATE sales SET amount = 50 WHERE id = 2")
    with copied.ledger() as ledger:
        ledger.decisions.request_restate(
            "shop.sales", [day(2)], "recollect", who="bea", why="a correction", command="recollect"
        )
    copied.declare(BEFORE)
    outcome = copied.run(NOW)
    assert not outcome.failed, described(outcome)
    both = explain(copied, "marts.best@2020-01-02", against=branch.load())
    assert causes(both) == {
        ("source", "shop.sales", (day(2),), ()),
        ("code", "marts.net", (day(2),), ("query",)),
    }
    source = both.causes[0]
    assert source.source == "shop.sales"
    assert source.request is not None
    assert (source.request.by, source.request.why) == ("bea", "a correction")
    own = explain(copied, "marts.running@2020-01-03")
    assert causes(own) == {("source", "shop.sales", (day(2),), ())}
    assert [step[0] for step in own.causes[0].cause.path] == ["marts.net", "marts.running", "marts.running"]
