"""Builds the errors for queries as of a tick that cannot be answered. Each names a batch and a fix. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from waterclock.batches.ledger_snapshot import BatchStatus, TableFacts
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Mode
from waterclock.planner.dependency_graph import Node
from waterclock.planner.known_states import Conflict
from waterclock.planner.query_ticks import Ticks
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.label import label_of
from waterclock.timelabel.window import Window
from waterclock.timelabel.zone import local_text

Missing = Mapping[str, IntervalSet]


def can_be_partial(node: Node) -> bool:
    """Return whether queries can read a table without some of its labels.

    This is impossible for a REPLACE table, since one batch writes its whole content.
    """
    return node.table.mode is not Mode.REPLACE


def unmade_windows_error(
    ticks: Ticks, missing: Missing, tick: datetime, *, is_partial: bool, is_newest_known: bool = False
) -> WaterclockError:
    """Build the error for windows before a tick that are not done, not due yet, or dropped (E522, E518).

    `is_newest_known`: `tick` is the newest one that was known at the instant `known_at` of the query.
    """
    name = next(
        (each for each in missing if not is_partial or not can_be_partial(ticks.graph.nodes[each])), next(iter(missing))
    )
    node = ticks.graph.nodes[name]
    low, high = next(iter(missing[name]))
    window = node.table.cadence.window_of(low)
    if ticks.find_dropped_windows(name, low, high):
        fix = "query as known at a later time" if is_newest_known else "query as of a later tick"
        return _dropped_windows_error(ticks, node, window, tick, fix + _partial_hint(node, is_partial=is_partial))
    why, fix = _explain_unmade(node, ticks.snapshot.of(name), window, ticks.now)
    if others := sum(node.table.cadence.count(*gap) for gap in missing[name]) - 1:
        why += f"; nor are {others} more"
    return WaterclockError(
        "E522",
        f"{name} has no state as of {label_of(tick)}",
        where=f"{name}@{window.label}",
        why=why,
        fix=fix + _partial_hint(node, is_partial=is_partial),
    )


def unknown_windows_error(
    node: Node, missing: IntervalSet, tick: datetime, known_at: datetime, first: datetime | None
) -> WaterclockError:
    """Build the error for windows that were not done by the instant `known_at` (E522).

    `first` is the instant at which the oldest of them was done, or None if it is still not done.
    """
    name, zone = node.table.name, node.table.cadence.zone
    window = node.table.cadence.window_of(next(iter(missing))[0])
    made = "it is not made yet" if first is None else f"it was made at {local_text(first, zone)}"
    return WaterclockError(
        "E522",
        f"at {local_text(known_at, zone)}, {name} had no state as of {label_of(tick)} yet",
        where=f"{name}@{window.label}",
        why=f"that batch was not made by then; {made}",
        fix="query as known at a later time, or as of an earlier tick",
    )


def no_common_tick_error(
    ticks: Ticks, conflicts: Iterable[Conflict], missing: Missing, tick: datetime
) -> WaterclockError:
    """Build the error for a query whose tables were never complete and consistent at the same time (E523).

    `conflicts` are the current conflicts, upstream first. Before they arose, the windows in `missing` were not done.
    """
    first = next(iter(conflicts))
    name, window = next(
        (name, ticks.graph.nodes[name].table.cadence.window_of(next(iter(gaps))[0])) for name, gaps in missing.items()
    )
    batch = f"{first.table}@{label_of(first.label)}"
    # a partial batch follows its inputs only once it can be made whole, or on request
    is_partial = first.label in ticks.snapshot.of(first.table).partial
    return WaterclockError(
        "E523",
        f"the queried tables never agreed as of {label_of(tick)}",
        where=batch,
        why=(
            f"{batch} was made from {first.read.table} before its restatement; before that, {name}@{window.label} "
            "was not made"
        ),
        fix=(
            f"`waterclock recompute {first.table} {label_of(first.label)}` makes it again"
            f"{'' if is_partial else ', --make before it answers'}; `waterclock audit {batch}` shows why it was not "
            "made again"
        ),
    )


def _dropped_windows_error(ticks: Ticks, node: Node, window: Window, tick: datetime, fix: str) -> WaterclockError:
    dropped = ticks.snapshot.of(node.table.name).dropped_before or window.end
    return WaterclockError(
        "E518",
        f"{node.table.name} has no state as of {label_of(tick)} any more",
        where=f"{node.table.name}@{window.label}",
        why=f"RETAIN has dropped all labels before {label_of(dropped)}",
        fix=fix,
    )


def _explain_unmade(node: Node, facts: TableFacts, window: Window, now: datetime) -> tuple[str, str]:
    """Return why a batch is not done, and how a user can make it or avoid it."""
    name, cadence, label = node.table.name, node.table.cadence, label_of(window.start)
    due, trouble = window.end + cadence.delay, facts.troubles.get(window.start)
    if due > now:
        return f"that batch is not due before {local_text(due, cadence.zone)}", "query as of an earlier tick"
    if any(window.start in claim.labels for claim in facts.open_claims):
        return "that batch is being made", "query again when it is done, or as of another tick"
    if trouble is not None:
        how = "was held by a rule" if trouble.status is BatchStatus.HELD else "failed"
        return (
            f"that batch {how}: {next(iter(trouble.error.splitlines()), '')}",
            f"`waterclock retry {name} {label}` tries it again, `waterclock audit {name}@{label}` shows more",
        )
    unneeded_hint = "; a state without readers is not needed" if node.is_made_if_needed else ""
    return (
        f"that batch is not made{unneeded_hint}",
        f"`waterclock backfill {name} {label}` makes it, --make before it answers; or query as of another tick",
    )


def _partial_hint(node: Node, *, is_partial: bool) -> str:
    return "" if is_partial or not can_be_partial(node) else "; --partial answers without it"
