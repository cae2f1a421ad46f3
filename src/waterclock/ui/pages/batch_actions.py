"""The actions that the page of a batch offers: retry, skip, release, make again and others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from waterclock.errors import WaterclockError
from waterclock.flow.checks import can_quarantine_rows
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind
from waterclock.operations.formatting import (
    number_words,
)
from waterclock.operations.held_batches import releasable_labels
from waterclock.operations.project_opening import OpenedProject
from waterclock.operations.proposals import Verb
from waterclock.operations.restating import labels_of_sources
from waterclock.operations.retrying import find_blocked_batches
from waterclock.operations.wait_chain import WhyStep
from waterclock.planner.label_states import LabelState
from waterclock.planner.plan import NEEDS_SOMEBODY, Plan, Status
from waterclock.timelabel.label import label_of
from waterclock.ui.page_query import Content
from waterclock.ui.pages.batches import has_failed, is_begun, is_done, is_requested
from waterclock.ui.pages.pauses import build_resume_action

CAN_BE_RETRIED = frozenset({Status.FAILED, Status.HELD})


def actions_of_batch(
    at: OpenedProject, plan: Plan, table: Table, one: LabelState, chain: Sequence[WhyStep]
) -> list[Content]:
    """Return the actions that the page of a batch offers. `chain`: the chain from it to the cause of its wait."""
    return [*_offer_resume(at, chain), *_offer_actions(at, plan, table, one, chain), *_offer_withdrawal(table, one)]


def _offer_actions(
    at: OpenedProject, plan: Plan, table: Table, one: LabelState, chain: Sequence[WhyStep]
) -> list[Content]:
    if one.label >= at.planner.starts(at.snapshot, at.now)[table.name]:
        return _actions(at, plan, table, one, chain)
    # older than START: it is not made any more
    return [_build_action(Verb.RETRY, "Retry…", table.name, one.label)] if has_failed(one) else []


def _actions(at: OpenedProject, plan: Plan, table: Table, one: LabelState, chain: Sequence[WhyStep]) -> list[Content]:
    """Return the possible actions, the most helpful first. Each leads to a plan, and changes nothing by itself."""
    root = chain[-1] if chain and chain[-1].is_root and chain[-1].status in NEEDS_SOMEBODY else None
    actions: list[Content] = []
    if root is not None:
        actions += _actions_of_root(at, plan, root)
    elif has_failed(one) and not is_done(one):  # it failed, and is no longer needed
        actions.append(_build_action(Verb.RETRY, "Retry…", table.name, one.label))
    elif one.status in _NOT_STARTED and not is_done(one) and not is_begun(one):
        if one.status not in {Status.WAITING, Status.PAUSED} and not is_requested(one):
            actions.append(_build_action(Verb.BACKFILL, "Make it…", table.name, one.label))
        if one.status is not Status.NOT_NEEDED:
            actions.append(_build_action(Verb.SKIP, "Skip…", table.name, one.label))
    elif one.status is Status.SKIPPED and not _has_newer_snapshot(at, table, one):
        actions.append(_build_action(Verb.RETRY, "Make it after all…", table.name, one.label))
    if is_done(one) and not _is_dropped(at, table, one):
        actions += _done_actions(at, table, one)
    return actions


def _actions_of_root(at: OpenedProject, plan: Plan, root: WhyStep) -> list[Content]:
    """Return the actions for a batch that needs a user: the page's own, or the one that it waits for."""
    actions: list[Content] = []
    if root.label in releasable_labels(plan, root.table):
        actions.append(_build_action(Verb.RELEASE, f"Release {root.table.rpartition('.')[2]}…", root.table, root.label))
    held = count_blocked_batches(plan, root.table, root.label)
    name = root.table.rpartition(".")[2]
    more = f" + {number_words(held)} blocked" if held else ""
    if root.status in CAN_BE_RETRIED and root.label in at.snapshot.of(root.table).troubles:
        actions.append(_build_action(Verb.RETRY, f"Retry {name}{more}…", root.table, root.label))
    if not at.snapshot.of(root.table).covered.covers_instant(root.label):  # a batch with rows cannot be skipped
        actions.append(_build_action(Verb.SKIP, f"Skip {name}…", root.table, root.label))
    return actions


def _done_actions(at: OpenedProject, table: Table, one: LabelState) -> list[Content]:
    """Return the actions that make a done batch again."""
    actions: list[Content] = []
    if _can_be_replayed(at, table, one.label):
        actions.append(_build_action(Verb.REPLAY, "Replay…", table.name, one.label))
    actions.append(_build_action(Verb.RECOMPUTE, "Recompute…", table.name, one.label))
    if table.kind is Kind.COLLECT:
        try:
            labels_of_sources(at, f"`{table.name}`", label_of(one.label))
        except WaterclockError:
            pass
        else:
            actions.append(_build_action(Verb.RECOLLECT, "Recollect…", table.name, one.label))
    return actions


def _can_be_replayed(at: OpenedProject, table: Table, label: datetime) -> bool:
    """Return whether a batch has quarantined rows that the current rules have not checked."""
    if at.ledger is None or not can_quarantine_rows(table):
        return False
    quarantined = at.ledger.reads.list_quarantined_labels(table.name)
    return label in quarantined and quarantined[label][1] != table.fingerprint


def _is_dropped(at: OpenedProject, table: Table, one: LabelState) -> bool:
    """Return whether the rows of a batch were dropped: it cannot be made again (E518)."""
    dropped = at.snapshot.of(table.name).dropped_before
    return dropped is not None and one.label < dropped


def _has_newer_snapshot(at: OpenedProject, table: Table, one: LabelState) -> bool:
    """Return whether a newer snapshot is done: the source cannot deliver the state of this label any more."""
    newest = at.ledger.reads.newest(table.name) if table.is_snapshot and at.ledger is not None else None
    return newest is not None and one.label < newest.label


def _offer_resume(at: OpenedProject, chain: Sequence[WhyStep]) -> list[Content]:
    """Return the action that ends the pause for which a batch waits, if there is one."""
    root = chain[-1] if chain and chain[-1].is_root and chain[-1].status is Status.PAUSED else None
    pause = None if root is None else at.snapshot.pause_of(root.table)
    return [] if root is None or pause is None else [build_resume_action(pause, root.table)]


def _offer_withdrawal(table: Table, one: LabelState) -> list[Content]:
    return [_build_action(Verb.WITHDRAW, "Withdraw…", table.name, one.label)] if is_requested(one) else []


def _build_action(verb: Verb, words: str, table: str, label: datetime) -> Content:
    return {"verb": verb.value, "words": words, "t": f"`{table}`", "l": label_of(label)}


_NOT_STARTED = frozenset({Status.READY, Status.WAITING, Status.PAUSED, Status.NOT_NEEDED})


def count_blocked_batches(plan: Plan, table: str, label: datetime) -> int:
    """Count the batches that are blocked only by this one."""
    return sum(map(len, find_blocked_batches(plan, {table: [label]}).values()))
