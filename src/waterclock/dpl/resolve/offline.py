"""Checks that the period of OFFLINE, which is the interval of offline measures, consists of whole windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.statements import ParsedMeasure
from waterclock.errors import WaterclockError
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.fitting import consists_of_windows, nearest_fitting_cadence


def check_offline(drafts: Iterable[UnresolvedTable]) -> Iterator[WaterclockError]:
    """Yield errors for periods of OFFLINE that do not consist of whole windows."""
    for draft in drafts:
        if draft.declared.offline is None or draft.cadence is None:
            continue
        wanted = Cadence(draft.declared.offline.period, zone=draft.cadence.zone)
        if consists_of_windows(wanted, draft.cadence):
            continue
        nearest = nearest_fitting_cadence(wanted, draft.cadence).period
        span = next(
            (span for measure in _list_measures(draft) if (span := measure.offline_span) is not None), draft.span
        )
        yield span.refuse(
            "E390",
            f"OFFLINE {draft.declared.offline.period} does not fit windows of {draft.cadence.period}",
            why="a period of OFFLINE must consist of whole windows",
            fix=f"write OFFLINE {_as_duration(str(nearest))}",
        )


def _list_measures(draft: UnresolvedTable) -> list[ParsedMeasure]:
    return [measure for clause in draft.statement.clauses if clause.word == "MEASURE" for measure in clause.value]


def _as_duration(period: str) -> str:
    return period if period[0].isdigit() else f"1 {period}"
