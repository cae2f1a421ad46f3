"""Builds the frame around every page: the menu with its current entry, and the number of active runners."""

from __future__ import annotations

from datetime import UTC, datetime

from waterclock.operations.formatting import count_words
from waterclock.operations.forms import visible_entities_of
from waterclock.operations.project_opening import OpenedProject
from waterclock.operations.runners import list_active_runners
from waterclock.permissions.users_and_roles import Person, Right
from waterclock.timelabel.zone import nominal_zone
from waterclock.ui.page_query import Content, PageQuery

MENU = (
    ("Today", "/today", Right.LOOK),
    ("Grid", "/", Right.LOOK),
    ("Catalog", "/catalog", Right.LOOK),
    ("Lineage", "/lineage", Right.LOOK),
    ("Query", "/query", Right.QUERY),
    ("Forms", "/forms", Right.LOOK),
    ("Runs", "/runs", Right.LOOK),
    ("Quality", "/quality", Right.LOOK),
    ("Errors", "/errors", Right.LOOK),
)


def shell(
    at: OpenedProject | None, menu: str, parameters: PageQuery, runners: int | None = None, *, person: Person
) -> Content:
    """Build the frame's content; `at` is None for an unreadable project. Cost: up to two queries of the ledger."""
    if runners is None:
        runners = 0 if at is None else len(list_active_runners(at))
    return {
        "menu": [
            {"name": name, "address": f"{address}{parameters.query_string}", "is_here": name == menu}
            for name, address, right in MENU
            if person.may(right) and (address != "/forms" or _has_forms(at, person))
        ],
        "person": person.name,
        "may_administer": person.may(Right.ADMINISTER),
        "project": "" if at is None else at.project.name,
        "env": "" if at is None else at.project.env,
        "zone": "UTC" if at is None else at.zone,
        "now": (datetime.now(UTC) if at is None else at.now).astimezone(nominal_zone("UTC" if at is None else at.zone)),
        "now_words": now_words(at),
        "runners": runners,
        "runners_words": runners_words(runners),
        "has_ledger": at is not None and at.ledger is not None,
    }


def _has_forms(at: OpenedProject | None, person: Person) -> bool:
    """Return whether the person sees a table that people edit. Branches have none."""
    return at is not None and not at.project.bases and bool(visible_entities_of(at.flow, person))


def headers_of_part(at: OpenedProject, runners: int | None) -> dict[str, str]:
    """Return the headers that update the frame around a part of a page. Cost: up to one query of the ledger."""
    count = len(list_active_runners(at)) if runners is None else runners
    return {"Waterclock-Now": now_words(at), "Waterclock-Runners": runners_words(count)}


def now_words(at: OpenedProject | None) -> str:
    """Format the instant for which a page was computed, in the project's zone."""
    now, zone = (datetime.now(UTC), "UTC") if at is None else (at.now, at.zone)
    return f"{now.astimezone(nominal_zone(zone)):%Y-%m-%d %H:%M:%S}"


def runners_words(count: int) -> str:
    """Describe how many runners are active."""
    return count_words(count, "runner") if count else "no runner is running"
