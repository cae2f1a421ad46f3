"""The page of accesses, for administrators: the sessions of browsers, and who did what or was refused what."""

from __future__ import annotations

from collections.abc import Callable

from waterclock.batches.access import Access
from waterclock.operations.formatting import page_time
from waterclock.operations.json import instant_text
from waterclock.operations.project_opening import OpenedProject
from waterclock.ui.browser_sessions import BrowserSessions
from waterclock.ui.page_query import Content, PageQuery

_MOST = 200


def access(at: OpenedProject, parameters: PageQuery, sessions: Callable[[], list[Content]]) -> Content:
    """Return the sessions of browsers and the newest accesses. The parameter `who` selects a person. Cost: a query."""
    who = parameters.values.get("who", "").strip() or None
    found = () if at.ledger is None else at.ledger.access.list_accesses(since=None, who=who, most=_MOST)
    return {
        "sessions": [_describe_session(at, each) for each in sessions()],
        "accesses": [_describe_access(at, each) for each in found],
        "who": who or "",
        "most": _MOST,
    }


def list_sessions(sessions: BrowserSessions) -> list[Content]:
    """Return the sessions for the page, the least recently used first."""
    return [
        {
            "number": each.number,
            "who": each.who,
            "sign_in": each.credential.sign_in.value,
            "began_at": each.began_at,
            "idle_seconds": sessions.idle_seconds(each),
            "address": each.address,
            "agent": each.agent,
        }
        for each in sessions.current()
    ]


def _describe_session(at: OpenedProject, session: Content) -> Content:
    began = session["began_at"]
    return session | {"began_at": instant_text(began), "since": page_time(began, at.zone)}


def _describe_access(at: OpenedProject, access: Access) -> Content:
    assert access.at is not None  # noqa: S101 - stored accesses have an instant
    return {
        "at": instant_text(access.at),
        "words": page_time(access.at, at.zone),
        "who": access.who,
        "sign_in": access.sign_in,
        "action": access.action,
        "tables": list(access.tables),
        "query": access.query,
        "address": access.address,
        "agent": access.agent,
        "refusal": access.refusal,
        "times": access.times,
    }
