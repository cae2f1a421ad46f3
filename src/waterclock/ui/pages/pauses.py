"""The pauses on pages: the current pause of a table, its past pauses, and the actions that pause or resume it."""

from __future__ import annotations

from waterclock.batches.ledger_snapshot import Pause
from waterclock.operations.formatting import page_time
from waterclock.operations.json import instant_text
from waterclock.operations.project_opening import OpenedProject
from waterclock.operations.proposals import Verb
from waterclock.ui.page_query import Content

_MOST = 50


def describe_pause(at: OpenedProject, name: str | None) -> Content:
    """Return the current pause of a table, or of all tables if no name is given, and the possible actions."""
    own = at.snapshot.paused if name is None else at.snapshot.of(name).paused
    found = own if name is None else at.snapshot.pause_of(name)
    selection = "" if name is None else f"`{name}`"
    what = " all" if name is None else ""
    verb = Verb.PAUSE if own is None else Verb.RESUME
    actions = [_build_action(verb, f"{verb.capitalize()}{what}…", selection)]
    if name is not None and at.snapshot.paused is not None:
        actions.append(_build_action(Verb.RESUME, "Resume all…", ""))
    return {"paused": None if found is None else pause_content(found, at.zone), "can_pause": actions}


def pause_content(pause: Pause, zone: str) -> Content:
    """Return the fields of a pause for a page, with a sentence that describes it."""
    return {**pause.to_dict(), "all": pause.is_of_all, "description": pause.words(zone)}


def paused_by_name(at: OpenedProject) -> list[Content]:
    """Return the tables that are paused by name, each with the action that resumes it."""
    return [
        {"table": name, **pause_content(pause, at.zone), "action": _build_action(Verb.RESUME, "Resume…", f"`{name}`")}
        for name in at.flow.order
        if (pause := at.snapshot.of(name).paused)
    ]


def list_pauses(at: OpenedProject, name: str) -> list[Content]:
    """Return when a table was paused and resumed, newest first."""
    found = () if at.ledger is None else at.ledger.past.pauses(name)
    return [
        {
            "what": f"all {one.kind}" if one.is_of_all else one.kind,
            "at": instant_text(one.at),
            "words": page_time(one.at, at.flow.tables[name].cadence.zone),
            "who": one.who,
            "why": one.why,
        }
        for one in reversed(found)
    ][:_MOST]


def build_resume_action(pause: Pause, name: str) -> Content:
    """Return the action that ends the pause of a table."""
    selection, words = ("", "Resume all…") if pause.is_of_all else (f"`{name}`", f"Resume {name.rpartition('.')[2]}…")
    return _build_action(Verb.RESUME, words, selection)


def _build_action(verb: Verb, words: str, selection: str) -> Content:
    return {"verb": verb.value, "words": words, "t": selection, "l": ""}
