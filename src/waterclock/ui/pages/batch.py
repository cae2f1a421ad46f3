"""The page of one batch or some labels of one table: status, cause, inputs and possible actions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from waterclock.batches.audit_trail import CLOSED, Audit
from waterclock.batches.facts import RELEASE, describe_missing_inputs, parse_missing_inputs
from waterclock.batches.records import rows_aside
from waterclock.errors import WaterclockError, rendered_parts
from waterclock.flow.checks import keeps_aside
from waterclock.flow.choices import Kind
from waterclock.flow.declarations import Table
from waterclock.operations.audit_json import batch_record
from waterclock.operations.closings import books_words, read_closing
from waterclock.operations.held_batches import can_be_released
from waterclock.operations.json import instant_text
from waterclock.operations.kept_back import kept_back
from waterclock.operations.opening import OpenedProject, labels_known, one_table
from waterclock.operations.proposals import Verb
from waterclock.operations.restating import labels_of_sources
from waterclock.operations.retrying import find_blocked_batches
from waterclock.operations.rules_kept import rules_broken
from waterclock.operations.states import state_of
from waterclock.operations.why import WhyStep, way_to_cause
from waterclock.operations.words import (
    count_words,
    local_label,
    number_words,
    page_time,
    seconds_words,
    short_label,
)
from waterclock.planner.label_states import LabelState
from waterclock.planner.plan import Plan, Status
from waterclock.selection import parse_labels
from waterclock.timelabel.label import label_of
from waterclock.ui.page_query import PageQuery, Told, batch_address
from waterclock.ui.pages.batches import has_failed, is_asked_for, is_begun, is_done, several, states_of
from waterclock.ui.pages.pauses import build_resume_action
from waterclock.ui.pages.quality import note_told

_SAYS = {Status.FAILED: "failed", Status.HELD: "is held", Status.EXPIRED: "can never be made"}
_DECISIONS = frozenset({
    "retried", "skipped", "recompute requested", "recollect requested", "backfill requested", "skip requested",
    "replay requested", "request withdrawn", f"{RELEASE} requested", "released", CLOSED,
})  # fmt: skip
_MOST_DECISIONS = 10
_NEWEST_ATTEMPT = {
    "failed": "the attempt to make it again failed",
    "held": "what was made again is held",
    "running": "it is being made again",
}
_NOT_BEGUN = frozenset({Status.READY, Status.WAITING, Status.PAUSED, Status.NOT_NEEDED})
_CAN_BE_RETRIED = frozenset({Status.FAILED, Status.HELD})


def batch(at: OpenedProject, asked: PageQuery) -> Told:
    """Return the details of the labels in the address.

    Raises  E511 for an unknown table, E513 where no label is selected, E514 for labels that cannot be read
    """
    name, _ = one_table(at.flow, f"`{asked.values['table']}`")
    table, text = at.flow.tables[name], asked.values["labels"]
    labels = parse_labels(text)
    span = labels_known(at, table, labels)
    told: Told = {"table": name, "name": name.rpartition(".")[2], "labels": text}
    if table.cadence.count(*span) == 1:
        found = states_of(at, [table], {name: labels})[name]
        if not found:  # older than START, and not stored
            labels.within(table, at.planner.starts(at.snapshot, at.now)[name], table.cadence.last_due(at.now))
        return told | _one(at, table, found[0])
    return several(at, [table], {name: labels}, text) | told


def _one(at: OpenedProject, table: Table, one: LabelState) -> Told:
    plan = at.planner.plan(at.snapshot, at.now)  # of a long backlog only the oldest batches: a page must not plan all
    audit = at.ledger.past.audit(table.name, one.label) if one.stored is not None and at.ledger is not None else None
    window = table.cadence.window_of(one.label)
    due = table.cadence.due_at(window)
    zone, state = table.cadence.zone, state_of(one.status)
    way = way_to_cause(plan, table.name, one.label)
    return {
        "kind": "one",
        "label": label_of(one.label),
        "words": local_label(one.label, table.cadence),
        "short": short_label(one.label, table.cadence, at.now),
        "state": str(state),
        "status": str(one.status),
        "reason": one.reason,
        "window": f"{page_time(window.start, zone)} to {page_time(window.end, zone)}",
        "due": instant_text(due),
        "due_words": page_time(due, table.cadence.zone),
        "way": _way(at, way) if len(way) > 1 else [],
        "error": _error(audit) or _error_of_root(at, way),
        "facts": [*_facts(at, table, audit), *_books(at, table, one.label)],
        "inputs": _inputs(at, audit),
        "decided": _list_decisions(audit, zone),
        "notes": _notes(at, table, audit),
        "holds_up": _count_blocked_batches(plan, table.name, one.label),
        "record": None if audit is None else batch_record(audit),
        "actions": [*_offer_resume(at, way), *_offer_actions(at, plan, table, one, way), *_withdrawn(table, one)],
    }


def _way(at: OpenedProject, way: Sequence[WhyStep]) -> list[Told]:
    """Return each step to the cause in words, with a link to the next batch."""
    told = []
    for index, step in enumerate(way):
        following = way[index + 1] if index + 1 < len(way) else None
        who = "which" if index else "this"
        told.append(
            {
                "table": step.table,
                "label": label_of(step.label),
                "state": str(state_of(step.status)),
                "status": str(step.status),
                "detail": step.detail,
                "is_root": step.is_root,
                "says": f"{who} waits for" if following else f"{who} {_SAYS.get(step.status, f'is {step.status}')}",
                "next": None if following is None else _link(at, following),
            }
        )
    return told


def _link(at: OpenedProject, step: WhyStep) -> Told:
    return {
        "table": step.table,
        "words": short_label(step.label, at.flow.tables[step.table].cadence, at.now),
        "address": batch_address(step.table, label_of(step.label)),
    }


def _error_of_root(at: OpenedProject, way: Sequence[WhyStep]) -> Told | None:
    """Return the error of the batch at the end of the way."""
    if at.ledger is None or len(way) < 2 or way[-1].status not in _CAN_BE_RETRIED:
        return None
    try:
        return _error(at.ledger.past.audit(way[-1].table, way[-1].label))
    except WaterclockError:  # it was never claimed
        return None


def _error(audit: Audit | None) -> Told | None:
    """Return the error of the newest attempt, split into its parts."""
    if audit is None:
        return None
    attempt = audit.attempts[-1] if audit.attempts else None
    text = (attempt.error if attempt else None) or audit.cell.error
    if not text or audit.cell.status not in {"failed", "held"}:
        return None
    return rendered_parts(text) | {"attempts": len(audit.attempts)}


def _facts(at: OpenedProject, table: Table, audit: Audit | None) -> list[Told]:
    facts: list[Told] = []
    current = None if audit is None else audit.current
    made = current.revision if current else None
    usual = at.snapshot.of(table.name).seconds_per_batch
    held = kept_back(at, table, None if audit is None else audit.cell)
    if held is not None:
        aside = rows_aside(held.measures)
        beside = f", and {count_words(aside, 'row')} set aside" if aside else ""
        facts.append({"name": "Held back", "text": f"{count_words(held.rows, 'row')}{beside}: shown to nobody"})
    if made is not None and current is not None:
        took = seconds_words(sum(made.timings.values()))
        compared = f", usually {seconds_words(usual)}" if usual is not None else ""
        facts += [
            {"name": "Holds", "text": f"{count_words(made.rows, 'row')}{_of_older(audit)}"},
            {"name": "Made", "text": f"{page_time(made.recorded_at, table.cadence.zone)} by {current.who}"},
            {"name": "Took", "text": f"{took}{compared}"},
            {"name": "Revision", "text": f"claim {number_words(current.claim)}, Delta version {made.version}"},
            {
                "name": "Code",
                "text": f"{current.code[:8]}{', as it is now' if current.code == table.fingerprint else ', older'}",
            },
        ]
        if "choice" in made.source:
            facts.append({"name": "Made by", "text": str(made.source["choice"])})
        if "missing" in made.source:
            facts.append(
                {"name": "Partial", "text": describe_missing_inputs(parse_missing_inputs(made.source["missing"]))}
            )
        for warning in made.measures.get("warnings", ()):
            facts.append({"name": "Warning", "text": str(warning)})
    else:
        if held is None:
            facts.append({"name": "Holds", "text": "nothing"})
        if usual is not None:
            facts.append({"name": "Usually takes", "text": seconds_words(usual)})
    if audit is not None and len(audit.attempts) > 1:
        facts.append({"name": "Attempts", "text": number_words(len(audit.attempts))})
    return facts


def _books(at: OpenedProject, table: Table, label: datetime) -> list[Told]:
    """Describe when and why a window's books closed, or how far it was checked."""
    closing = read_closing(at, table, label)
    return [] if closing is None else [{"name": "Books", "text": books_words(closing, table.cadence.zone)}]


def _of_older(audit: Audit | None) -> str:
    """Note that the rows are of an older revision, if the newest attempt made none."""
    if audit is None or audit.cell.claim == audit.cell.current_claim:
        return ""
    said = _NEWEST_ATTEMPT.get(audit.cell.status or "")
    return f", of an older revision: {said}" if said else ""


def _inputs(at: OpenedProject, audit: Audit | None) -> list[Told]:
    current = None if audit is None else audit.current
    if current is None:
        return []
    told = []
    for each in current.inputs:
        table = at.flow.tables.get(each.table)
        words = label_of(each.low)
        address = ""
        if table is not None:
            last = table.cadence.previous(each.high)
            first = table.cadence.ceil(each.low)
            is_state = each.kind != "slices"
            words = short_label(last, table.cadence, at.now)
            if not is_state and first < last:
                words = f"{short_label(first, table.cadence, at.now)} to {words}"
            address = batch_address(
                each.table, label_of(last) if is_state or first >= last else f"{label_of(first)}..{label_of(last)}"
            )
        told.append(
            {"table": each.table, "read": each.read, "words": words, "version": each.version, "address": address}
        )
    return told


def _list_decisions(audit: Audit | None, zone: str) -> list[Told]:
    """Return the decisions of users about the batch, newest first."""
    events = () if audit is None else audit.events
    return [
        {
            "what": event.kind,
            "who": event.who,
            "why": str(event.data.get("why", "")),
            "at": page_time(event.at, zone),
        }
        for event in reversed(events)
        if event.kind in _DECISIONS
    ][:_MOST_DECISIONS]


def _notes(at: OpenedProject, table: Table, audit: Audit | None) -> list[Told]:
    """Return the notes on the rules that the batch breaks."""
    broken = () if audit is None else rules_broken(table, audit)
    if at.ledger is None or not broken:
        return []
    notes = at.ledger.past.rule_notes([table.name])
    found = [notes[table.name, rule] for rule in broken if (table.name, rule) in notes]
    return [note_told(note, table.cadence.zone) for note in found]


def _count_blocked_batches(plan: Plan, table: str, label: datetime) -> int:
    """Count the batches that are blocked only by this one."""
    return sum(map(len, find_blocked_batches(plan, {table: [label]}).values()))


def _offer_actions(at: OpenedProject, plan: Plan, table: Table, one: LabelState, way: Sequence[WhyStep]) -> list[Told]:
    if one.label >= at.planner.starts(at.snapshot, at.now)[table.name]:
        return _actions(at, plan, table, one, way)
    # older than START: it is not made any more
    return [_action(Verb.RETRY, "Retry…", table.name, one.label)] if has_failed(one) else []


def _actions(at: OpenedProject, plan: Plan, table: Table, one: LabelState, way: Sequence[WhyStep]) -> list[Told]:
    """Return the possible actions, the most helpful first. Each leads to a plan, and changes nothing by itself."""
    root = way[-1] if way and way[-1].is_root and way[-1].status in _CAN_BE_RETRIED else None
    actions: list[Told] = []
    if root is not None:
        actions += _actions_of_root(at, plan, root)
    elif has_failed(one) and not is_done(one):  # it failed, and is no longer needed
        actions.append(_action(Verb.RETRY, "Retry…", table.name, one.label))
    elif one.status in _NOT_BEGUN and not is_done(one) and not is_begun(one):
        if one.status not in {Status.WAITING, Status.PAUSED}:
            actions.append(_action(Verb.BACKFILL, "Make it…", table.name, one.label))
        if one.status is not Status.NOT_NEEDED:
            actions.append(_action(Verb.SKIP, "Skip…", table.name, one.label))
    elif one.status is Status.SKIPPED and not _is_stood_for(at, table, one):
        actions.append(_action(Verb.RETRY, "Make it after all…", table.name, one.label))
    if is_done(one):
        actions += _actions_of_done(at, table, one)
    return actions


def _actions_of_root(at: OpenedProject, plan: Plan, root: WhyStep) -> list[Told]:
    """Return the actions for a failed or held batch: the page's own, or the one that it waits for."""
    actions: list[Told] = []
    if can_be_released(at, root.table, root.label):
        actions.append(_action(Verb.RELEASE, f"Release {root.table.rpartition('.')[2]}…", root.table, root.label))
    held = _count_blocked_batches(plan, root.table, root.label)
    name = root.table.rpartition(".")[2]
    more = f" + {number_words(held)} blocked" if held else ""
    actions.append(_action(Verb.RETRY, f"Retry {name}{more}…", root.table, root.label))
    if not at.snapshot.of(root.table).covered.covers_instant(root.label):  # a batch with rows cannot be skipped
        actions.append(_action(Verb.SKIP, f"Skip {name}…", root.table, root.label))
    return actions


def _actions_of_done(at: OpenedProject, table: Table, one: LabelState) -> list[Told]:
    """Return the actions that make a done batch again."""
    actions: list[Told] = []
    if _can_be_replayed(at, table, one.label):
        actions.append(_action(Verb.REPLAY, "Replay…", table.name, one.label))
    actions.append(_action(Verb.RECOMPUTE, "Recompute…", table.name, one.label))
    if table.kind is Kind.COLLECT:
        try:
            labels_of_sources(at, f"`{table.name}`", label_of(one.label))
        except WaterclockError:
            pass
        else:
            actions.append(_action(Verb.RECOLLECT, "Recollect…", table.name, one.label))
    return actions


def _can_be_replayed(at: OpenedProject, table: Table, label: datetime) -> bool:
    """Return whether a batch has quarantined rows that the current rules have not checked."""
    if at.ledger is None or not keeps_aside(table):
        return False
    aside = at.ledger.reads.set_aside(table.name)
    return label in aside and aside[label][1] != table.fingerprint


def _is_stood_for(at: OpenedProject, table: Table, one: LabelState) -> bool:
    """Return whether a newer snapshot is done: the source cannot deliver the state of this label any more."""
    newest = at.ledger.reads.newest(table.name) if table.is_snapshot and at.ledger is not None else None
    return newest is not None and one.label < newest.label


def _offer_resume(at: OpenedProject, way: Sequence[WhyStep]) -> list[Told]:
    """Return the action that resumes the paused batch at the root."""
    root = way[-1] if way and way[-1].is_root and way[-1].status is Status.PAUSED else None
    pause = None if root is None else at.snapshot.pause_of(root.table)
    return [] if root is None or pause is None else [build_resume_action(pause, root.table)]


def _withdrawn(table: Table, one: LabelState) -> list[Told]:
    return [_action(Verb.WITHDRAW, "Withdraw…", table.name, one.label)] if is_asked_for(one) else []


def _action(verb: Verb, words: str, table: str, label: datetime) -> Told:
    return {"verb": verb.value, "words": words, "t": f"`{table}`", "l": label_of(label)}
