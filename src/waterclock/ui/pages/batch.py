"""The page of one batch or some labels of one table: status, cause, inputs and possible actions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from waterclock.batches.audit_records import CLOSED, Audit
from waterclock.batches.earlier_revisions import REVERTED
from waterclock.batches.ledger_snapshot import RELEASE, describe_missing_inputs, parse_missing_inputs
from waterclock.batches.records import count_quarantined, describe_warnings_and_skew
from waterclock.errors import WaterclockError, rendered_parts
from waterclock.flow.declarations import Table
from waterclock.operations.audit_json import batch_record
from waterclock.operations.closings import books_words, read_closing
from waterclock.operations.display_states import state_of
from waterclock.operations.formatting import (
    count_words,
    local_label,
    number_words,
    page_time,
    seconds_words,
    short_label,
)
from waterclock.operations.held_batches import retry_words
from waterclock.operations.held_results import find_held_result
from waterclock.operations.json import instant_text
from waterclock.operations.project_opening import OpenedProject, known_label_bounds, one_table
from waterclock.operations.rule_results import rules_broken
from waterclock.operations.source_waits import add_source_waits, source_waits
from waterclock.operations.wait_chain import WhyStep, find_wait_chain
from waterclock.planner.label_states import LabelState
from waterclock.planner.plan import Status
from waterclock.selection import parse_labels
from waterclock.timelabel.label import label_of
from waterclock.ui.page_query import Content, PageQuery, batch_address
from waterclock.ui.pages.batch_actions import CAN_BE_RETRIED, actions_of_batch, count_blocked_batches
from waterclock.ui.pages.batches import describe_batches, states_of
from waterclock.ui.pages.quality import note_content

_STATUS_WORDS = {Status.FAILED: "failed", Status.HELD: "is held", Status.EXPIRED: "can never be made"}
_DECISIONS = frozenset({
    "retried", "skipped", "recompute requested", "recollect requested", "backfill requested", "skip requested",
    "replay requested", "restatement requested", "request withdrawn", f"{RELEASE} requested", "released", REVERTED,
    CLOSED,
})  # fmt: skip
_MOST_DECISIONS = 10
_NEWEST_ATTEMPT = {
    "failed": "the attempt to make it again failed",
    "held": "the batch that was made again is held",
    "running": "it is being made again",
}


def batch(at: OpenedProject, parameters: PageQuery) -> Content:
    """Return the details of the labels in the address. Raises E511, E513, E514 for labels that cannot be read."""
    name, _ = one_table(at.flow, f"`{parameters.values['table']}`")
    table, text = at.flow.tables[name], parameters.values["labels"]
    labels = parse_labels(text)
    span = known_label_bounds(at, table, labels)
    content: Content = {"table": name, "name": name.rpartition(".")[2], "labels": text}
    if table.cadence.count(*span) == 1:
        found = states_of(at, [table], {name: labels})[name]
        if not found:  # older than START, and not stored
            labels.limit_to(table, at.planner.starts(at.snapshot, at.now)[name], table.cadence.last_due(at.now))
        return content | _describe_batch(at, table, found[0])
    return describe_batches(at, [table], {name: labels}, text) | content


def _describe_batch(at: OpenedProject, table: Table, one: LabelState) -> Content:
    plan = at.planner.plan(at.snapshot, at.now)  # of a long backlog only the oldest batches, so that pages are fast
    audit = at.ledger.past.audit(table.name, one.label) if one.stored is not None and at.ledger is not None else None
    window = table.cadence.window_of(one.label)
    due = table.cadence.due_at(window)
    zone, state = table.cadence.zone, state_of(one.status)
    plan = add_source_waits(plan, source_waits(at, plan))
    chain = find_wait_chain(plan, table.name, one.label)
    return {
        "kind": "one",
        "label": label_of(one.label),
        "words": local_label(one.label, table.cadence),
        "short": short_label(one.label, table.cadence, at.now),
        "state": str(state),
        "status": str(one.status),
        "reason": chain[0].detail if chain and one.status is Status.READY else one.reason,
        "window": f"{page_time(window.start, zone)} to {page_time(window.end, zone)}",
        "due": instant_text(due),
        "due_words": page_time(due, table.cadence.zone),
        "way": _describe_wait_chain(at, chain) if len(chain) > 1 else [],
        "error": _error_of_label(table, one, audit) or _error_of_root(at, chain),
        "facts": [*_list_facts(at, table, audit), *_describe_books(at, table, one.label)],
        "inputs": _describe_inputs(at, audit),
        "decided": _list_decisions(audit, zone),
        "notes": _list_rule_notes(at, table, audit),
        "holds_up": count_blocked_batches(plan, table.name, one.label),
        "record": None if audit is None else batch_record(audit),
        "actions": actions_of_batch(at, plan, table, one, chain),
    }


def _describe_wait_chain(at: OpenedProject, chain: Sequence[WhyStep]) -> list[Content]:
    """Describe each step of the chain from this batch to the cause of its wait, with a link to the next batch."""
    steps = []
    for index, step in enumerate(chain):
        following = chain[index + 1] if index + 1 < len(chain) else None
        who = "which" if index else "this"
        steps.append(
            {
                "table": step.table,
                "label": label_of(step.label),
                "state": str(state_of(step.status)),
                "status": str(step.status),
                "detail": step.detail,
                "is_root": step.is_root,
                "description": f"{who} waits for"
                if following
                else f"{who} {_STATUS_WORDS.get(step.status, f'is {step.status}')}",
                "next": None if following is None else _batch_link(at, following),
            }
        )
    return steps


def _batch_link(at: OpenedProject, step: WhyStep) -> Content:
    return {
        "table": step.table,
        "words": short_label(step.label, at.flow.tables[step.table].cadence, at.now),
        "address": batch_address(step.table, label_of(step.label)),
    }


def _error_of_root(at: OpenedProject, chain: Sequence[WhyStep]) -> Content | None:
    """Return the error of the batch at the end of the chain, or None if this batch waits for no other one."""
    if at.ledger is None or len(chain) < 2 or chain[-1].status not in CAN_BE_RETRIED:
        return None
    try:
        return _newest_error(at.ledger.past.audit(chain[-1].table, chain[-1].label))
    except WaterclockError:  # it was never claimed
        return None


def _error_of_label(table: Table, one: LabelState, audit: Audit | None) -> Content | None:
    """Return the error of the page's own batch. If it cannot be released any more, the fix is a retry."""
    error = _newest_error(audit)
    return error | {"fix": retry_words(table.name, label_of(one.label))} if error and one.is_outdated else error


def _newest_error(audit: Audit | None) -> Content | None:
    """Return the error of the newest attempt, split into its parts."""
    if audit is None:
        return None
    attempt = audit.attempts[-1] if audit.attempts else None
    text = (attempt.error if attempt else None) or audit.cell.error
    if not text or audit.cell.status not in {"failed", "held"}:
        return None
    return rendered_parts(text) | {"attempts": len(audit.attempts)}


def _list_facts(at: OpenedProject, table: Table, audit: Audit | None) -> list[Content]:
    facts: list[Content] = []
    current = None if audit is None else audit.current
    made = current.revision if current else None
    usual = at.snapshot.of(table.name).seconds_per_batch
    held = find_held_result(at, table, None if audit is None else audit.cell)
    if held is not None:
        quarantined = count_quarantined(held.measures)
        note = f", and {count_words(quarantined, 'row')} quarantined" if quarantined else ""
        facts.append({"name": "Held back", "text": f"{count_words(held.rows, 'row')}{note}: not visible"})
    if made is not None and current is not None:
        took = seconds_words(sum(made.timings.values()))
        compared = f", usually {seconds_words(usual)}" if usual is not None else ""
        facts += [
            {"name": "Holds", "text": f"{count_words(made.rows, 'row')}{_describe_older_rows(audit)}"},
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
        facts += [{"name": name, "text": text} for name, text in describe_warnings_and_skew(made.measures)]
    else:
        if held is None:
            facts.append({"name": "Holds", "text": "nothing"})
        if usual is not None:
            facts.append({"name": "Usually takes", "text": seconds_words(usual)})
    if audit is not None and len(audit.attempts) > 1:
        facts.append({"name": "Attempts", "text": number_words(len(audit.attempts))})
    return facts


def _describe_books(at: OpenedProject, table: Table, label: datetime) -> list[Content]:
    """Describe when and why a window's books closed, or how far it was checked."""
    closing = read_closing(at, table, label)
    return [] if closing is None else [{"name": "Books", "text": books_words(closing, table.cadence.zone)}]


def _describe_older_rows(audit: Audit | None) -> str:
    """Return a note that the rows are of an older revision, if the newest attempt committed none; otherwise ""."""
    if audit is None or audit.cell.claim == audit.cell.current_claim:
        return ""
    note = _NEWEST_ATTEMPT.get(audit.cell.status or "")
    return f", of an older revision: {note}" if note else ""


def _describe_inputs(at: OpenedProject, audit: Audit | None) -> list[Content]:
    current = None if audit is None else audit.current
    if current is None:
        return []
    rows = []
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
        rows.append(
            {"table": each.table, "read": each.read, "words": words, "version": each.version, "address": address}
        )
    return rows


def _list_decisions(audit: Audit | None, zone: str) -> list[Content]:
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


def _list_rule_notes(at: OpenedProject, table: Table, audit: Audit | None) -> list[Content]:
    """Return the notes on the rules that the batch breaks."""
    broken = () if audit is None else rules_broken(table, audit)
    if at.ledger is None or not broken:
        return []
    notes = at.ledger.past.rule_notes([table.name])
    found = [notes[table.name, rule] for rule in broken if (table.name, rule) in notes]
    return [note_content(note, table.cadence.zone) for note in found]
