"""The plan of an action before it is carried out: each batch, its step, the cost and the equivalent command."""

from __future__ import annotations

from datetime import datetime

from waterclock.operations.formatting import count_words, number_words, seconds_words, short_label
from waterclock.operations.pauses import names_words, waiting_request_lines
from waterclock.operations.pausing import TablesToPause
from waterclock.operations.project_opening import OpenedProject
from waterclock.operations.proposals import Proposal, Verb, decide, find_publishes, propose
from waterclock.operations.runners import list_active_runners
from waterclock.permissions.users_and_roles import Person
from waterclock.timelabel.label import label_of
from waterclock.ui.page_query import Content, PageQuery

_WORDS = {verb: verb.capitalize() for verb in Verb} | {Verb.BACKFILL: "Make"}
_MOST = 10_000  # batches, the maximum for a plan computed interactively
_MOST_LABELS = 200  # of a table, that are listed singly


def plan(at: OpenedProject, parameters: PageQuery) -> Content:
    """Return the plan of the action `verb` on the tables `t` and labels `l`. Raises the errors of `propose`."""
    return _describe_plan(at, parameters, _propose_plan(at, parameters))


def execute_plan(at: OpenedProject, parameters: PageQuery, by: Person) -> tuple[Content, bool]:
    """Execute the shown plan, unless it has changed. Return the current plan, and whether it was executed.

    Raises the errors of `propose` and `decide`.
    """
    proposal = _propose_plan(at, parameters)
    content = _describe_plan(at, parameters, proposal)
    if not proposal.is_possible or parameters.values.get("digest") != proposal.digest:
        return content | {"has_changed": True}, False
    why = parameters.values.get("why", "").strip()[:2000]
    decide(at, proposal, by=by, why=why)
    return content | {"is_done": True, "why": why, "who": by.name}, True


def _propose_plan(at: OpenedProject, parameters: PageQuery) -> Proposal:
    return propose(at, parameters.values.get("verb", ""), parameters.selection, parameters.labels or None, _MOST)


def _describe_plan(at: OpenedProject, parameters: PageQuery, proposal: Proposal) -> Content:
    out = find_publishes(at.flow, proposal)
    everything = proposal.all
    total = sum(map(len, everything.values()))
    return {
        "verb": proposal.verb.value,
        "selection": parameters.selection,
        "labels": parameters.labels,
        "title": _title(at, proposal),
        "word": _WORDS[proposal.verb],
        "count": proposal.count,
        "is_possible": proposal.is_possible,
        "of_tables": None if proposal.of_tables is None else _pause_tables_content(at, proposal, proposal.of_tables),
        "kept": [] if proposal.of_tables else waiting_request_lines(at.snapshot, everything, at.zone),
        "total": total,
        "may_differ": proposal.may_differ,
        "steps": [
            {
                "step": proposal.steps[name],
                "table": name,
                "requested": len(proposal.requested.get(name, ())),
                "count": len(windows),
                "words": _labels_text(at, name, [window.start for window in windows]),
                "labels": [label_of(window.start) for window in windows[:_MOST_LABELS]],
                "seconds": proposal.cost.tables[name].seconds,
                "took": "" if (took := proposal.cost.tables[name].seconds) is None else seconds_words(took),
                "publishes": out.get(name, ""),
            }
            for name, windows in everything.items()
        ],
        "seconds": proposal.cost.seconds,
        "about": seconds_words(proposal.cost.seconds),
        "unknown": list(proposal.cost.unknown),
        "command": proposal.command,
        "why_option": "" if proposal.verb is Verb.BACKFILL else " --why '…'",
        "digest": proposal.digest,
        "needs_reason": proposal.verb in {Verb.SKIP, Verb.PAUSE, Verb.RELEASE},
        "needs_runner": proposal.verb not in {Verb.WITHDRAW, Verb.PAUSE},
        "runners": len(list_active_runners(at)),
        "is_done": False,
        "has_changed": False,
    }


def _pause_tables_content(at: OpenedProject, proposal: Proposal, of: TablesToPause) -> Content:
    """Return the paused or resumed tables, how many batches of them run, and the other pauses."""
    names = at.flow.tables if of.is_of_all else of.names
    running = sum(len(claim.labels) for name in names for claim in at.snapshot.of(name).open_claims)
    return {
        "names": list(of.names),
        "words": _tables_words(of),
        "all": of.is_of_all,
        "running": running if proposal.verb is Verb.PAUSE else 0,
        "pauses": [pause.words(at.zone) for pause in of.pauses],
    }


def _tables_words(of: TablesToPause) -> str:
    return "all tables" if of.is_of_all else names_words(of.names)


def _title(at: OpenedProject, proposal: Proposal) -> str:
    """Return the title of a plan: `Retry inventory @ 9 Nov and the 6 batches it blocks`."""
    if not proposal.is_possible:
        return f"Nothing there to {_WORDS[proposal.verb].lower()}"
    if proposal.of_tables is not None:
        return f"{_WORDS[proposal.verb]} {_tables_words(proposal.of_tables)}"
    names = list(proposal.requested)
    what = f"{names[0]} @ {_labels_text(at, names[0], [window.start for window in proposal.requested[names[0]]])}"
    if len(names) > 1:
        what = f"{count_words(proposal.count, 'batch', 'batches')} of {number_words(len(names))} tables"
    following = sum(map(len, proposal.following.values()))
    if not following:
        return f"{_WORDS[proposal.verb]} {what}"
    return _title_with_following(proposal, what, following)


def _title_with_following(proposal: Proposal, what: str, following: int) -> str:
    """Return the title of a plan that also affects `following` batches that were not requested."""
    if proposal.verb is Verb.SKIP:
        freed = count_words(following, "batch", "batches")
        return f"Skip {what}; {freed} no longer {'waits' if following == 1 else 'wait'} for it"
    if proposal.verb is Verb.BACKFILL:
        return f"{_WORDS[proposal.verb]} {what}, and {count_words(following, 'batch', 'batches')} that it needs"
    if proposal.may_differ:
        upto = count_words(following, "batch", "batches")
        rests, waits = ("depends", "waits") if following == 1 else ("depend", "wait")
        rest = f"{waits} for it or {rests} on it" if proposal.verb is Verb.RETRY else f"{rests} on it"
        return f"{_WORDS[proposal.verb]} {what}, and up to {upto} that {rest}"
    return f"{_WORDS[proposal.verb]} {what} and the {count_words(following, 'batch', 'batches')} it blocks"


def _labels_text(at: OpenedProject, name: str, labels: list[datetime]) -> str:
    cadence = at.flow.tables[name].cadence
    if len(labels) == 1:
        return short_label(labels[0], cadence, at.now)
    return f"{short_label(labels[0], cadence, at.now)} to {short_label(labels[-1], cadence, at.now)}"
