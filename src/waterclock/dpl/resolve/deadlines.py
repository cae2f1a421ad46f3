"""Checks that batches can meet DEADLINE and RUNTIME."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta

from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.resolve.watermarks import watermark_of
from waterclock.dpl.syntax.statements import ParsedDeadline, ParsedWatermark, Statement, StatementKind
from waterclock.errors import WaterclockError
from waterclock.flow.watermarks import find_earliest_advance
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.duration import Duration, elapsed_text
from waterclock.timelabel.instant import EPOCH

DEADLINE, RUNTIME, WATERMARK = "DEADLINE", "RUNTIME", "WATERMARK"
_NOTHING, _HOUR = timedelta(0), timedelta(hours=1)


def check_deadlines(drafts: Mapping[str, UnresolvedTable]) -> Iterator[WaterclockError]:
    """Yield errors for deadlines that no batch can meet, RUNTIME without DEADLINE, BY WATERMARK without WATERMARK."""
    for draft in drafts.values():
        deadline, runtime = draft.declared.deadline, draft.declared.runtime
        if runtime is not None and not runtime.amount:
            yield draft.at(RUNTIME).refuse(
                "E278", f"RUNTIME of {draft.name} is zero", fix="write RUNTIME 1 MINUTE or more"
            )
        elif runtime is not None and deadline is None and draft.statement.clause(DEADLINE) is None:
            yield draft.at(RUNTIME).refuse(
                "E278",
                f"{draft.name} has RUNTIME, but no DEADLINE",
                why="RUNTIME is the time that a batch needs before its DEADLINE",
                fix=f"add one: DEADLINE 2 HOURS RUNTIME {runtime}",
            )
        if draft.declared.is_by_watermark and draft.statement.clause(WATERMARK) is None:
            yield _no_watermark_error(draft, drafts)
        elif deadline is not None and draft.cadence is not None:
            yield from _check_earliest_deadline(draft, draft.cadence, deadline, runtime)


def is_by_watermark(statement: Statement) -> bool:
    """Return whether a statement has DEADLINE BY WATERMARK: the table's watermark must meet it instead of the batch."""
    deadline = statement.value(DEADLINE, ParsedDeadline)
    return deadline is not None and deadline.is_by_watermark


def _no_watermark_error(draft: UnresolvedTable, drafts: Mapping[str, UnresolvedTable]) -> WaterclockError:
    """Build the error for DEADLINE BY WATERMARK in a table without WATERMARK; suggest an input that has one."""
    above = [read.table for read in draft.declared.reads if read.table in drafts]
    known = [name for name in dict.fromkeys(above) if drafts[name].statement.clause(WATERMARK) is not None]
    if known:
        fix = f"write it in {known[0]}, which has one"
    elif draft.statement.kind is StatementKind.PUBLISH:
        fix = f"write both in {draft.statement.name}, or leave BY WATERMARK out"
    else:
        fix = "add WATERMARK with the time column, as in WATERMARK at 10 MINUTES; or leave BY WATERMARK out"
    return draft.at(DEADLINE).refuse(
        "E922",
        f"{draft.name} has DEADLINE BY WATERMARK, but no WATERMARK",
        why="without a watermark the progress of its rows is not known",
        fix=fix,
    )


def _check_earliest_deadline(
    draft: UnresolvedTable, cadence: Cadence, deadline: Duration, runtime: Duration | None
) -> Iterator[WaterclockError]:
    """Yield the error for a deadline that no batch can meet. A month in a deadline counts as 31 days."""
    delay, declared = cadence.delay, draft.statement.value(WATERMARK, ParsedWatermark)
    due = f"its windows are due {elapsed_text(delay)} after their end" if delay else "its windows are due at their end"
    what = "can be done"
    if draft.declared.is_by_watermark and declared is not None:
        first = cadence.ceil(EPOCH)
        delay += find_earliest_advance(cadence, first, watermark_of(declared)) - first
        what = "can be passed by its watermark"
        due = f"the first rows that move the watermark past a window are due {elapsed_text(delay)} after its end"
    within = deadline.add_to(EPOCH, "UTC") - EPOCH - delay
    if within <= _NOTHING:
        yield draft.at(DEADLINE).refuse(
            "E277",
            f"no window of {draft.name} {what} within {deadline}",
            why=due,
            fix=f"write a longer one, as in DEADLINE {int(delay // _HOUR) + 2} HOURS",
        )
    elif runtime is not None and runtime.to_timedelta() > within:
        yield draft.at(RUNTIME).refuse(
            "E277",
            f"a batch of {draft.name} may take {runtime}, but its deadline is within {elapsed_text(within)}",
            why=due,
            fix="write a longer DEADLINE, or a shorter RUNTIME",
        )
