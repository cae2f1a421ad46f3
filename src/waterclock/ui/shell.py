"""What stands around every page: the menu, where one is, and whether anybody is at work."""

from __future__ import annotations

from datetime import UTC, datetime

from waterclock.batches.audit_trail import RunnerSeen
from waterclock.operations.opening import Reading
from waterclock.timelabel.zone import nominal_zone
from waterclock.ui.asking import Asked, Told

MENU = (
    ("Today", "/today"),
    ("Grid", "/"),
    ("Catalog", "/catalog"),
    ("Lineage", "/lineage"),
    ("Query", "/query"),
    ("Runs", "/runs"),
    ("Quality", "/quality"),
    ("Errors", "/errors"),
)


def shell(at: Reading | None, menu: str, asked: Asked) -> Told:
    """Return what the shell tells; `at` is None where the project cannot be read. Cost: a question to the ledger."""
    runners = [] if at is None or at.ledger is None else alive(at)
    return {
        "menu": [
            {"name": name, "address": f"{address}{asked.travelling}", "is_here": name == menu} for name, address in MENU
        ],
        "project": "" if at is None else at.project.name,
        "env": "" if at is None else at.project.env,
        "zone": "UTC" if at is None else at.zone,
        "now": (datetime.now(UTC) if at is None else at.now).astimezone(nominal_zone("UTC" if at is None else at.zone)),
        "runners": len(runners),
        "has_ledger": at is not None and at.ledger is not None,
    }


def alive(at: Reading) -> list[RunnerSeen]:
    """Return the runners that are at work, or will be when something is due."""
    if at.ledger is None:
        return []
    now = at.ledger.now()
    return [each for each in at.ledger.runners.all() if each.alive_until >= now]
