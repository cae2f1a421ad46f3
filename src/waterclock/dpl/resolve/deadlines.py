"""Checks DEADLINE and RUNTIME: what is promised of when a batch is done can be kept at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta

from waterclock.dpl.resolve.drafts import Draft
from waterclock.errors import WaterclockError
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.duration import Duration, elapsed_text
from waterclock.timelabel.instant import EPOCH

DEADLINE, RUNTIME = "DEADLINE", "RUNTIME"
_NOTHING, _HOUR = timedelta(0), timedelta(hours=1)


def check_deadlines(drafts: Mapping[str, Draft]) -> Iterator[WaterclockError]:
    """Refuse a deadline that is over before a window is due or a batch can be made, and a RUNTIME beside none."""
    for draft in drafts.values():
        deadline, runtime = draft.deadline, draft.statement.value(RUNTIME, Duration)
        if runtime is not None and not runtime.amount:
            yield draft.at(RUNTIME).refuse(
                "E278", f"no batch of {draft.name} is made in no time", fix="say RUNTIME 1 MINUTE or more"
            )
        elif runtime is not None and deadline is None and draft.statement.clause(DEADLINE) is None:
            yield draft.at(RUNTIME).refuse(
                "E278",
                f"{draft.name} says RUNTIME and no DEADLINE",
                why="how long a batch takes matters by when it is to be done",
                fix=f"say by when: DEADLINE 2 HOURS RUNTIME {runtime}",
            )
        if deadline is not None and draft.cadence is not None:
            yield from _too_soon(draft, draft.cadence, deadline, runtime)


def _too_soon(
    draft: Draft, cadence: Cadence, deadline: Duration, runtime: Duration | None
) -> Iterator[WaterclockError]:
    """Refuse what no batch can keep; a month counts as long as January: no DELAY comes near."""
    delay = cadence.delay
    within = deadline.after(EPOCH, "UTC") - EPOCH - delay
    due = f"its windows are due {elapsed_text(delay)} after their end" if delay else "its windows are due at their end"
    if within <= _NOTHING:
        yield draft.at(DEADLINE).refuse(
            "E277",
            f"no window of {draft.name} can be done within {deadline}",
            why=due,
            fix=f"say a longer one, as in DEADLINE {int(delay // _HOUR) + 2} HOURS",
        )
    elif runtime is not None and runtime.elapsed() > within:
        yield draft.at(RUNTIME).refuse(
            "E277",
            f"a batch of {draft.name} may take {runtime}, and is to be done within {elapsed_text(within)}",
            why=due,
            fix="say a longer DEADLINE, or a shorter RUNTIME",
        )
