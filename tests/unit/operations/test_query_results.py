"""The notes below the rows of a result: its tick, and missing batches."""

from __future__ import annotations

from datetime import UTC, datetime

from waterclock.engine.query.query import AnsweredQuery
from waterclock.engine.query.ticks import MissingLabels, ResolvedTick
from waterclock.operations.query_results import ZonedQueryResult, answer_lines

FIRST, LAST = datetime(2020, 1, 2, tzinfo=UTC), datetime(2020, 1, 4, tzinfo=UTC)


def answer(*, moment: ResolvedTick | None = None, unpaired: tuple[MissingLabels, ...] = ()) -> AnsweredQuery:
    return AnsweredQuery((("id", "bigint"),), ((1,),), is_cut=False, moment=moment, unpaired=unpaired)


def test_a_whole_answer_of_now_needs_no_line() -> None:
    assert answer_lines(answer(), "UTC") == []


def test_labels_whose_persons_are_not_made_are_named() -> None:
    left_out = MissingLabels("web.visits", FIRST, LAST, 2)
    found = answer(unpaired=(left_out,))
    [line] = answer_lines(found, "UTC")
    assert line.startswith("without web.visits@20200102000000")
    assert line.endswith("2 labels: web.visits_apart is not made of the same inputs and by the same code yet")
    [missing] = ZonedQueryResult(found).to_json()["missing"]
    assert (missing["table"], missing["labels"]) == ("web.visits", 2)
    as_of = answer_lines(answer(moment=ResolvedTick(LAST), unpaired=(left_out,)), "UTC")
    assert (len(as_of), as_of[-1]) == (2, line)
