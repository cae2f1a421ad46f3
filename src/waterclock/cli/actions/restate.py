"""Finds the done labels that are made again and what may follow from that, and starts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from waterclock.batches.facts import FOLLOW
from waterclock.cli.actions.backfill import cost_words
from waterclock.cli.actions.confirm import confirm
from waterclock.cli.actions.run import Asked, carry_out
from waterclock.cli.views.json import print_json
from waterclock.cli.views.theme import console
from waterclock.engine.run_settings import RunSettings
from waterclock.errors import WaterclockError
from waterclock.flow.choices import Batching, Kind
from waterclock.flow.declarations import Table
from waterclock.operations.opening import Reading, reading, selected
from waterclock.operations.words import count_words, label_range, local_range
from waterclock.planner.estimate import Estimate, cost_of
from waterclock.planner.plan import Ripple
from waterclock.selection import Labels
from waterclock.timelabel.label import label_of
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from rich.console import Console

    from waterclock.ledger.ledger import Ledger

Found = Mapping[str, tuple[datetime, ...]]


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants made again: by which command and verb, and how its labels are found."""

    command: str
    verb: str
    selection: str
    labels: str | None
    choose: Callable[[Reading, str, str | None], Found]

    @property
    def word(self) -> str:
        """The verb as people say it."""
        return "recompute" if self.verb == FOLLOW else self.verb


def restated(
    folder: Path, env: str | None, wish: Wish, now: str | None, *, yes: bool, is_run: bool, is_json: bool
) -> int:
    """Show the ripple, ask, note the request, run it with what follows from it, and give the exit code."""
    to = console(stderr=is_json)
    with reading(folder, env, now) as at:
        found = {name: labels for name, labels in wish.choose(at, wish.selection, wish.labels).items() if labels}
        if at.ledger is None or not found:
            to.print("nothing was done there that could be made again")
            return carry_out(at.project, Asked(command=wish.command, only=(), now=now, is_json=True)) if is_json else 0
        asking = _asking(at, at.ledger, wish.verb, found)
        ripple = at.planner.ripple(at.ledger.reads.snapshot(at.flow, asking=asking), at.now, found)
        cost = cost_of({name: len(windows) for name, windows in ripple.all.items()}, at.snapshot)
        print_ripple(to, at, wish.word, ripple, cost)
        count = count_words(sum(map(len, found.values())), "batch", "batches")
        confirm(f"{wish.word.capitalize()} {count}?", yes=yes)
        for (verb, name), labels in asking.items():
            at.ledger.decisions.request_restate(name, sorted(labels), verb, who=RunSettings().who)
        project = at.project
    if not is_run:
        if is_json:
            print_json({"verb": wish.word, **ripple.to_dict(), "estimate": cost.to_dict()})
        else:
            to.print(f"asked for; the next run makes {count} again")
        return 0
    spans = {name: Labels.between(windows[0].start, windows[-1].start) for name, windows in ripple.all.items()}
    return carry_out(
        project, Asked(command=wish.command, only=tuple(sorted(spans)), labels=spans, now=now, is_json=is_json)
    )


def done_labels(at: Reading, selection: str, labels: str | None) -> Found:
    """Find the done labels of a selection; those that were skipped or never made are left out.

    Raises  E510 to E514 as `selection.select`: a label before START or in the future is E513; E518 for one that
            RETAIN has dropped
    """
    return _done(at, selection, labels, lambda _table, _code: True)


def labels_behind(at: Reading, selection: str, labels: str | None) -> Found:
    """Find the labels of a selection that are behind: older states whose inputs were restated since."""
    plan = at.planner.plan(at.snapshot, at.now)
    behind = {name: frozenset(of_table) for name, of_table in plan.behind.items()}
    done = done_labels(at, selection, labels)
    return {name: tuple(label for label in done[name] if label in behind.get(name, ())) for name in done}


def _asking(at: Reading, ledger: Ledger, verb: str, found: Found) -> dict[tuple[str, str], frozenset[datetime]]:
    """Return what is asked for by verb and table: what is found, and that the older states which rest on it follow."""
    asking = {(verb, name): frozenset(labels) for name, labels in found.items()}
    resting = at.planner.resting(ledger.reads.snapshot(at.flow, asking=asking), at.now, found)
    for name, labels in resting.items():
        asking[FOLLOW, name] = labels | asking.get((FOLLOW, name), frozenset())
    return asking


def labels_of_older_code(at: Reading, selection: str, labels: str | None) -> Found:
    """Find the done labels that ran under another code than today's."""
    return _done(at, selection, labels, lambda table, code: code != table.fingerprint)


def labels_of_sources(at: Reading, selection: str, labels: str | None) -> Found:
    """Find the done labels of the collects of a selection, which their sources can be asked for again.

    Raises  E519 where nothing is collected, what arrived cannot be asked for again, or a source can only say what it
            holds now; and as `done_labels`
    """
    found = done_labels(at, selection, labels)
    sources = {name: labels for name, labels in found.items() if at.flow.tables[name].kind is Kind.COLLECT}
    if found and not sources:
        raise WaterclockError(
            "E519",
            f"nothing of {selection} is collected",
            why="recollect asks a source again, and these tables are made from others",
            fix="recompute makes them again from what they read",
        )
    for name, of_table in sources.items():
        _refuse_unaskable(at, at.flow.tables[name], of_table)
    return sources


def _done(at: Reading, selection: str, labels: str | None, is_meant: Callable[[Table, str | None], bool]) -> Found:
    meant, by_table = selected(at.flow, [selection], labels)
    starts = at.planner.starts(at.snapshot, at.now)
    found: dict[str, list[datetime]] = {}
    for name in meant.tables:
        table = at.flow.tables[name]
        span = _span(at, table, by_table.get(name), starts[name])
        cells = () if at.ledger is None or span is None else at.ledger.past.grid([name], *span)
        found[name] = [it.label for it in cells if it.current_claim is not None and is_meant(table, it.code)]
    return {name: tuple(of_table) for name, of_table in found.items()}


def _span(at: Reading, table: Table, labels: Labels | None, start: datetime) -> tuple[datetime, datetime] | None:
    end, dropped = table.cadence.last_due(at.now), at.snapshot.of(table.name).dropped_before
    if labels is None:
        return (max(start, dropped or start), end) if start < end else None
    low, high = labels.within(table, start, end)
    if dropped is not None and low < dropped:
        raise WaterclockError(
            "E518",
            f"{table.name}@{label_of(low)} cannot be made again",
            where=f"{table.name}@{label_of(low)}",
            why=f"RETAIN has dropped what it holds before {label_of(dropped)}",
            fix=f"begin at {label_of(dropped)}",
        )
    return low, high


def _refuse_unaskable(at: Reading, table: Table, labels: tuple[datetime, ...]) -> None:
    batching = None if table.source is None else table.source.batching
    if not labels or batching is Batching.DATA_TIME:
        return
    where = f"{table.name}@{label_of(labels[0])}"
    if batching is Batching.ARRIVAL_TIME:
        raise WaterclockError(
            "E519",
            f"{table.name} cannot be collected again",
            where=where,
            why="it takes what arrives, and what has arrived does not arrive again",
            fix=f"recompute reads its archived items once more; or leave it out: … except {table.name}",
        )
    newest = table.cadence.previous(table.cadence.last_due(at.now))
    if labels != (newest,):
        raise WaterclockError(
            "E519",
            f"{table.name} cannot be collected again for the past",
            where=where,
            why="its source can only say what it holds now, which is the snapshot of the newest label",
            fix=f"recollect {table.name}@{label_of(newest)}; or leave it out: … except {table.name}",
        )


def print_ripple(to: Console, at: Reading, verb: str, ripple: Ripple, cost: Estimate) -> None:
    """Print what is made again, what may follow, and what that costs at most."""
    _print_part(to, at, f"{verb}: {_count(ripple.asked)}", ripple.asked)
    following = ripple.following
    if following:
        to.print()
        _print_part(to, at, f"then, where rows turn out to differ, up to {_count(following)}", following)
    to.print()
    if_all = ", if all of them are made" if following else ""
    to.print(Text(f"estimate: {cost_words(cost)}{if_all}"))


def _print_part(to: Console, at: Reading, head: str, part: Mapping[str, tuple[Window, ...]]) -> None:
    to.print(Text(head, style="head"))
    width = max(map(len, part), default=0)
    for name, windows in part.items():
        first, last = windows[0].start, windows[-1].start
        line = Text.assemble(
            "  ",
            (f"{name:<{width}}", "name"),
            f"  {count_words(len(windows), 'label'):>12}",
            f"  {local_range(first, last, at.flow.tables[name].cadence):<26}",
            ("  " + label_range(first, last), "quiet"),
        )
        to.print(line, soft_wrap=True)


def _count(part: Mapping[str, tuple[Window, ...]]) -> str:
    return count_words(sum(map(len, part.values())), "batch", "batches")
