"""Runs queries of the tables, as they are now or as of a tick, and formats the answers for people and scripts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waterclock.engine.query.query import AnsweredQuery, preview, query
from waterclock.engine.query.ticks import MissingLabels, RequestedTick, ResolvedTick
from waterclock.engine.run_opening import open_workplace
from waterclock.flow.apart import apart_of
from waterclock.operations.formatting import count_words, instant_words, label_range
from waterclock.operations.json import instant_text
from waterclock.operations.project_opening import open_project, zone_of
from waterclock.timelabel.label import label_of
from waterclock.timelabel.zone import parse_instant

if TYPE_CHECKING:
    from waterclock.dpl.project import Project
    from waterclock.engine.spark.session import Sessions
    from waterclock.permissions.users_and_roles import Person

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


@dataclass(frozen=True, slots=True)
class ZonedQueryResult:
    """The result of a query, and the zone for its instants. `can_make`: `query --make` can make batches first."""

    answer: AnsweredQuery
    zone: str = "UTC"
    can_make: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return columns with their types, and rows as lists in the columns' order."""
        from waterclock.json_models.tables import QueryAnswer

        moment = self.answer.moment
        return QueryAnswer.build(
            columns=[{"name": name, "type": kind} for name, kind in self.answer.columns],
            rows=[[plain_value(value) for value in row] for row in self.answer.rows],
            is_cut=self.answer.is_cut,
            as_of=None if moment is None else plain_value(moment.tick),
            known_at=None if moment is None or moment.known_at is None else plain_value(moment.known_at),
            has_pending_restatements=moment is not None and moment.has_pending_restatements,
            behind=[] if moment is None else _behind_items(moment),
            missing=[*(() if moment is None else moment.missing), *self.answer.unpaired],
            awaited=[] if moment is None else moment.awaited,
        ).to_json()


def answer_query(  # noqa: PLR0913 - the parts of a query
    project: Project,
    sql: str,
    limit: int,
    *,
    as_of: str | None = None,
    known_at: str | None = None,
    partial: bool = False,
    sessions: Sessions | None = None,
    person: Person | None = None,
) -> ZonedQueryResult:
    """Run a query of a project's tables, as they are now or as of a tick. Given `sessions` are left open.

    `person` sees only what is granted to them; None is the owner of the project, who sees all.
    """
    with open_workplace(project, sessions=sessions, is_question=True) as work:
        zone = zone_of(work.flow)
        known = None if known_at is None else parse_instant(known_at, zone)
        moment = None if as_of is None else RequestedTick(as_of, known, zone, is_partial=partial)
        return ZonedQueryResult(
            query(work, sql, limit=limit, as_of=moment, person=person), zone, can_make=known is None
        )


def some_rows(folder: Path, env: str | None, table: str, limit: int) -> ZonedQueryResult:
    """Return some rows of a table's newest label."""
    with open_workplace(open_project(folder, env), is_question=True) as work:
        return ZonedQueryResult(preview(work, table, limit=limit), zone_of(work.flow))


def count_line(answer: AnsweredQuery, more: str = "--limit") -> str:
    """Format the number of rows, and how to get more if there are more than the limit."""
    count = count_words(len(answer.rows), "row")
    return f"the first {count}; {more} shows more" if answer.is_cut else count


def answer_lines(answer: AnsweredQuery, zone: str, *, can_make: bool = False) -> list[str]:
    """Describe the tick of an answer and what is missing from it; nothing if it is of now, and whole."""
    lines = [] if answer.moment is None else moment_lines(answer.moment, zone, can_make=can_make)
    for gap in answer.unpaired:
        lines.append(
            f"without {_format_gap(gap)}: {apart_of(gap.table)} is not made of the same inputs and by the same code yet"
        )
    return lines


def moment_lines(moment: ResolvedTick, zone: str, *, can_make: bool = False) -> list[str]:
    """Describe the tick of an answer, when it was known, and the batches that are missing or not made again yet."""
    lines = [f"as of {instant_words(moment.tick, zone)}, tick {label_of(moment.tick)}"]
    if moment.known_at is not None:
        lines[0] += f", as known at {instant_words(moment.known_at, zone)}"
    if moment.has_pending_restatements:
        note = "inputs were restated since, and not all batches were made again: this is the answer known before"
        lines += [
            note,
            *(
                f"  {_format_batches(each['table'], each['labels'])} not been made again"
                for each in _behind_items(moment)
            ),
        ]
        lines += ["--make makes these batches again before the query"] if can_make else []
    lines += [f"without {_format_gap(gap)}: missing" for gap in moment.missing]
    lines += [f"newer ticks wait for {_format_gap(gap)}; `waterclock plan` shows why" for gap in moment.awaited]
    return lines


def _format_batches(table: str, labels: list[str]) -> str:
    """Format the batches of a table: the oldest by name, the others as a count."""
    more = len(labels) - 1
    return f"{table}@{labels[0]} has" if not more else f"{table}@{labels[0]} and {count_words(more, 'other')} have"


def _format_gap(gap: MissingLabels) -> str:
    counted = f", {count_words(gap.labels, 'label')}" if gap.labels > 1 else ""
    return f"{gap.table}@{label_range(gap.first, gap.last)}{counted}"


def _behind_items(moment: ResolvedTick) -> list[dict[str, Any]]:
    return [{"table": name, "labels": [label_of(at) for at in labels]} for name, labels in moment.behind.items()]


def is_number_type(kind: str) -> bool:
    """Return whether values of a type are numbers, which are aligned right in a column."""
    return kind.startswith(_NUMBERS)


def value_words(value: Any) -> str:
    """Format a value of Spark's for display: instants in UTC with a `Z`, local times without one."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ") + ("Z" if value.tzinfo else "")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(plain_value(value))


def plain_value(value: Any) -> Any:  # noqa: PLR0911 - one kind after the other
    """Convert a value of Spark's to a JSON-compatible one; instants become `2013-01-05T05:00:00Z`."""
    if isinstance(value, datetime):
        return instant_text(value) if value.tzinfo else value.isoformat()
    if hasattr(value, "asDict"):
        return {name: plain_value(inner) for name, inner in value.asDict().items()}
    if isinstance(value, Mapping):
        return {str(name): plain_value(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(inner) for inner in value]
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
