"""What a run tells of other projects: what is wrong with one, but not what passes by itself."""

from __future__ import annotations

import pytest

from tests.model.flows import at
from waterclock.batches.links import LinkFacts
from waterclock.engine.links import problems
from waterclock.errors import WaterclockError
from waterclock.planner.plan import Batch, Status
from waterclock.timelabel.window import Window


@pytest.mark.parametrize("is_passing", [True, False])
def test_what_passes_is_waited_for_and_all_else_is_told_once_a_table(*, is_passing: bool) -> None:
    wrong = WaterclockError("E838", "the other project cannot be read", transient=is_passing)
    batches = tuple(
        Batch("here.a", Window(at(f"2013-01-0{day}"), at(f"2013-01-0{day + 1}")), Status.WAITING, "") for day in (1, 2)
    )
    found = problems({"here.a": LinkFacts("up.shop.a", problem=wrong)}, batches)
    assert found == ({} if is_passing else {"here.a": (batches[0], wrong)})
