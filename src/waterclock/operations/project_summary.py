"""Summarizes a project in a sentence: what failed and what that blocks, or else how fresh all tables are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from waterclock.flow.declarations import Flow
from waterclock.operations.display_states import State, display_state_of
from waterclock.operations.formatting import count_words, number_words, short_label
from waterclock.operations.freshness import Freshness
from waterclock.operations.pauses import pause_lines
from waterclock.operations.project_opening import zone_of
from waterclock.planner.plan import Batch, Plan, Status

_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class VerdictPart:
    """A part of a sentence. `mark` is the state that the part names, which determines its colour."""

    text: str
    mark: State | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The summary of a project: a title and further details, each as parts of a sentence."""

    title: tuple[VerdictPart, ...]
    more: tuple[VerdictPart, ...] = ()

    @property
    def text(self) -> str:
        """The title as plain text."""
        return "".join(part.text for part in self.title)


def verdict(flow: Flow, found: Mapping[str, Freshness], plan: Plan) -> Verdict:
    """Summarize the state of the tables in `found`, their freshness, by the batches in `plan`."""
    names = list(found)
    if not names:
        if flow.tables:
            return Verdict((VerdictPart("No table is selected."),))
        how = "Write a statement into a file of the folder flows, or create an example with `waterclock init`."
        return Verdict((VerdictPart("No table is declared yet."),), (VerdictPart(how),))
    counts = Counter(display_state_of(batch) for batch in plan.batches)
    pauses = _describe_pauses(flow, plan)
    failed = [batch for batch in plan.batches if batch.status is Status.FAILED]
    held = [batch for batch in plan.batches if batch.status is Status.HELD]
    more = _describe_other_states(
        counts, plan, counted={State.FAILED, State.BLOCKED, State.HELD} if failed or held else set()
    )
    more = (*more, *pauses)
    if failed or held:
        return Verdict(_describe_stops(flow, {Status.FAILED: failed, Status.HELD: held}, plan), more)
    if all(one.label is None for one in found.values()):
        due = len(plan.batches) + sum(plan.left_out.values())
        waits = (
            f"{count_words(due, 'batch', 'batches')} {'is' if due == 1 else 'are'} due" if due else "nothing is due yet"
        )
        next_step = (VerdictPart("`waterclock run` makes the due batches."),) if due else ()
        return Verdict((VerdictPart(f"No batch was made yet: {waits}."),), (*next_step, *pauses))
    late = [name for name in names if found[name].late is not None or found[name].gaps]
    if late:
        title = f"{_count(len(late), 'table')} of {number_words(len(names))} {'is' if len(late) == 1 else 'are'} late: "
        return Verdict((VerdictPart(title), VerdictPart(f"{_join_names(late)}.")), more)
    return Verdict((VerdictPart(_freshness_sentence(flow, found, plan.now)),), more)


def _describe_pauses(flow: Flow, plan: Plan) -> tuple[VerdictPart, ...]:
    """Describe who paused which tables, since when and why. Tables paused together share a sentence."""
    lines = pause_lines(plan, zone_of(flow))
    begun = [line.replace("all is", "All is", 1) if line.startswith("all is ") else line for line in lines]
    return tuple(VerdictPart(f" {line}.", State.PAUSED) for line in begun)


def _describe_stops(flow: Flow, stops: Mapping[Status, Sequence[Batch]], plan: Plan) -> tuple[VerdictPart, ...]:
    """Describe failed and held batches and how much each kind blocks. The kind that blocks something comes first."""
    blocked = [batch for batch in plan.batches if batch.status is Status.BLOCKED]
    by = {kind: sum(any(cause.status is kind for cause in batch.causes) for batch in blocked) for kind in stops}
    kinds = sorted((kind for kind in stops if stops[kind]), key=lambda kind: not by[kind])
    parts: list[VerdictPart] = []
    for kind in kinds:
        batches, mark = stops[kind], State.FAILED if kind is Status.FAILED else State.HELD
        number = _number_word(len(batches))
        if any(plan.left_out.get(batch.table) for batch in batches):  # batches left out may have stopped too
            number = f"At least {number.lower()}"
        is_one, is_failure = len(batches) == 1, kind is Status.FAILED
        if parts and not by[kind]:
            be = "" if is_failure else "is " if is_one else "are "
            clause = f"; {number.lower()} {'batch' if is_one else 'batches'} {be}"
            parts += [VerdictPart(clause), VerdictPart("failed" if is_failure else "held", mark), VerdictPart(": ")]
        else:
            noun = ("failure" if is_one else "failures") if is_failure else "held batch" if is_one else "held batches"
            what = count_words(by[kind], "batch", "batches") if by[kind] else "nothing else"
            parts += [VerdictPart(f"; {number.lower()} " if parts else f"{number} "), VerdictPart(noun, mark)]
            parts += [VerdictPart(f" {'holds' if is_one else 'hold'} up {what}: ")]
        parts.append(VerdictPart(_format_batches(flow, batches, plan.now)))
    return (*parts, VerdictPart("."))


def _format_batches(flow: Flow, batches: Sequence[Batch], now: datetime) -> str:
    """Format the batches, grouped by table."""
    by_table: dict[str, list[Batch]] = {}
    for batch in batches:
        by_table.setdefault(batch.table, []).append(batch)
    places = []
    for name, of_table in list(by_table.items())[:_MOST_NAMED]:
        at = short_label(of_table[0].label, flow.tables[name].cadence, now)
        places.append(f"{name} @ {at if len(of_table) == 1 else count_words(len(of_table), 'label')}")
    if more := len(by_table) - _MOST_NAMED:
        places += [f"{count_words(more, 'other table')}"] if more > 0 else []
    return _join_with_and(places)


def _describe_other_states(counts: Counter[State], plan: Plan, counted: set[State]) -> tuple[VerdictPart, ...]:
    """Describe how many batches are in each of the other states: neither failed, held nor in `counted`."""
    clauses: list[tuple[VerdictPart, ...]] = []
    if running := counts[State.RUNNING]:
        clauses.append(
            (VerdictPart(f"{count_words(running, 'batch is', 'batches are')} "), VerdictPart("running", State.RUNNING))
        )
    if stale := counts[State.STALE]:
        clauses.append(
            (VerdictPart(f"{count_words(stale, 'batch is', 'batches are')} "), VerdictPart("stale", State.STALE))
        )
    stopped = {batch.table for batch in plan.batches if batch.status in {Status.FAILED, Status.HELD}}
    due = counts[State.DUE] + sum(count for name, count in plan.left_out.items() if name not in stopped)
    if due:
        clauses.append((VerdictPart(f"{count_words(due, 'batch is', 'batches are')} due"),))
    if paused := counts[State.PAUSED]:
        clauses.append(
            (VerdictPart(f"{count_words(paused, 'batch is', 'batches are')} "), VerdictPart("paused", State.PAUSED))
        )
    if (blocked := counts[State.BLOCKED]) and State.BLOCKED not in counted:
        clauses.append((VerdictPart(f"{count_words(blocked, 'batch is', 'batches are')} blocked", State.BLOCKED),))
    if expired := counts[State.EXPIRED]:
        clauses.append((VerdictPart(f"{count_words(expired, 'batch')} can never be made", State.EXPIRED),))
    if more := sum(count for name, count in plan.left_out.items() if name in stopped):
        clauses.append((VerdictPart(f"{count_words(more, 'more batch is', 'more batches are')} missing"),))
    parts: list[VerdictPart] = []
    for at, clause in enumerate(clauses):
        parts += [VerdictPart(", ")] if at else []
        parts += clause
    return (*parts, VerdictPart(".")) if parts else ()


def _freshness_sentence(flow: Flow, found: Mapping[str, Freshness], now: datetime) -> str:
    names = [name for name in found if found[name].label is not None]
    whole = f"All {number_words(len(found))} tables are" if len(found) > 1 else f"{next(iter(found))} is"
    ends = {name: flow.tables[name].cadence.next(_newest_label(found[name])) for name in names}
    longest = max(names, key=lambda name: flow.tables[name].cadence.period.minutes)
    newest = max(names, key=ends.__getitem__)
    if len(set(ends.values())) == 1:  # windows of any length that end together
        return f"{whole} fresh to {short_label(_newest_label(found[longest]), flow.tables[longest].cadence, now)}."
    return (
        f"{whole} fresh, the newest to {short_label(_newest_label(found[newest]), flow.tables[newest].cadence, now)}."
    )


def _newest_label(one: Freshness) -> datetime:
    assert one.label is not None  # noqa: S101 - only called if there is a label
    return one.label


def _number_word(count: int) -> str:
    return _WORDS[count].capitalize() if count < len(_WORDS) else number_words(count)


def _count(count: int, noun: str) -> str:
    return f"{_number_word(count)} {noun}{'' if count == 1 else 's'}"


def _join_names(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return _join_with_and([*names[:_MOST_NAMED], *([f"{number_words(more)} more"] if more > 0 else [])])


def _join_with_and(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
