"""Builds the page of a proposal, and approves, rejects or withdraws it."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from waterclock.connectors.forms.history import differences_of
from waterclock.connectors.forms.proposal_store import ProposalState
from waterclock.connectors.forms.proposals import ProposedRow, approve, find_proposal, may_decide, reject, withdraw
from waterclock.errors import WaterclockError
from waterclock.operations.formatting import page_time
from waterclock.operations.forms import OpenedForm
from waterclock.ui.forms.content import describe_head, form_address
from waterclock.ui.page_query import Content

_SHOWN = 500  # rows of a proposal
_SHOWN_AGAIN = {"E891": HTTPStatus.UNPROCESSABLE_ENTITY, "E892": HTTPStatus.CONFLICT, "E898": HTTPStatus.CONFLICT}


def describe_proposal(form: OpenedForm, number: str, *, zone: str, problem: str = "") -> Content:
    """Return the page of a proposal: each changed value when proposed, now, and as proposed. Raises E894."""
    table = form.entity.table
    proposal, rows = find_proposal(form.database, form.entity, _parse_number(number), _SHOWN, form.rights.view)
    is_open = proposal.state is ProposalState.OPEN
    is_own = proposal.who == form.rights.name
    may_approve = may_decide(form.database, form.entity, proposal.number, form.rights)
    return describe_head(form) | {
        "number": proposal.number,
        "state": proposal.state.value,
        "is_open": is_open,
        "who": proposal.who,
        "at": page_time(proposal.at, zone),
        "why": proposal.why,
        "count": proposal.count,
        "decided_by": proposal.decided_by,
        "decided_at": "" if proposal.decided_at is None else page_time(proposal.decided_at, zone),
        "decided_why": proposal.decided_why,
        "problem": problem,
        "rows": [_describe_row(form, row) for row in rows],
        "more": max(0, proposal.count - _SHOWN),
        "count_stale": sum(row.is_stale for row in rows) if is_open else 0,
        "may_withdraw": is_open and is_own and form.rights.may_edit,
        "may_decide": is_open and not is_own and may_approve,
        "reason": "You proposed it, and another person approves it."
        if is_own
        else f"You may not approve it: {form.rights.no_approval or 'no GRANT APPROVE has all of its rows'}.",
        "decide": form_address(table, "decide"),
        "withdraw": form_address(table, "withdraw"),
    }


def decide(form: OpenedForm, number: str, verb: str, why: str) -> tuple[str, HTTPStatus]:
    """Approve, reject or withdraw a proposal. Return the reason and the status if that is not possible as it is now.

    Raises E894 for an unknown proposal, E899 and E940 for a person who may not do it.
    """
    actions: dict[str, Callable[..., object]] = {"approve": approve, "reject": reject, "withdraw": withdraw}
    try:
        actions[verb](form.database, form.entity, _parse_number(number), form.rights, why)
    except WaterclockError as error:
        if error.code not in _SHOWN_AGAIN:
            raise
        return f"{error.what}: {error.why}. {error.fix}.", _SHOWN_AGAIN[error.code]
    return "", HTTPStatus.OK


def _describe_row(form: OpenedForm, row: ProposedRow) -> Content:
    now = None if row.current is None else row.current.content
    names = dict.fromkeys(
        name for name, _, _ in (*differences_of(row.before, row.after), *differences_of(now, row.after))
    )
    effect = "deleted" if row.after is None else "new" if row.before is None else ""
    return {
        "key": row.key,
        "address": form_address(form.entity.table, "row", key=row.key),
        "effect": effect,
        "is_stale": row.is_stale,
        "cells": [
            {
                "name": name,
                "before": (row.before or {}).get(name) or "",
                "current": (now or {}).get(name) or "",
                "after": (row.after or {}).get(name) or "",
                "differs": (now or {}).get(name) != (row.before or {}).get(name),
            }
            for name in names
        ]
        or [{"name": "", "before": "", "current": "", "after": "", "differs": False}],
    }


def _parse_number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
