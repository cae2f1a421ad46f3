"""The list of open alerts on a page, and the form that acknowledges one."""

from __future__ import annotations

from waterclock.alerts.wording import Words
from waterclock.batches.alerts import Alert
from waterclock.errors import WaterclockError
from waterclock.flow.alerts import Severity
from waterclock.operations.formatting import page_time
from waterclock.operations.project_opening import OpenedProject, no_ledger_error
from waterclock.operations.required_reasons import need_reason_of_acknowledging
from waterclock.permissions.users_and_roles import Person, Right, require_right
from waterclock.ui.page_query import Content, PageQuery

_STATES = {Severity.CRITICAL: "failed", Severity.ERROR: "failed", Severity.WARNING: "warned"}


def open_alerts(at: OpenedProject) -> list[Content]:
    """Return the open alerts, the most severe first, acknowledged ones last. Cost: one query of the ledger."""
    if at.ledger is None:
        return []
    words = Words(at.project.name, at.project.env, at.flow)
    found = [alert for alert in at.ledger.alerts.known() if alert.resolved is None]
    ranked = sorted(found, key=lambda it: (it.acknowledged is not None, it.trouble.severity.rank, it.number))
    return [_describe_alert(at, words, alert) for alert in ranked]


def acknowledge_alert(at: OpenedProject, parameters: PageQuery, by: Person) -> None:
    """Acknowledge an alert, so that its messages are not repeated. The form has its number `alert` and a reason `why`.

    Raises E940 without the right to run, E903 without a reason, E918 for an invalid number, E412 before the first
            run, E457 and E458 as `acknowledge` of the ledger.
    """
    require_right(by, Right.RUN, "acknowledge an alert", at.project.access)
    why = " ".join(parameters.values.get("why", "").split())[:2000]
    need_reason_of_acknowledging(why)
    number = parameters.values.get("alert", "")
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise WaterclockError("E918", f"{number[:20]!r} is not the number of an alert", fix="today's page lists them")
    if at.ledger is None:
        raise no_ledger_error()
    at.ledger.alerts.acknowledge(int(number), who=by.name, why=why)


def _describe_alert(at: OpenedProject, words: Words, alert: Alert) -> Content:
    known = alert.acknowledged
    return {
        "number": alert.number,
        "severity": str(alert.trouble.severity),
        "look": _STATES[alert.trouble.severity],
        "line": words.line(alert.trouble),
        "since": page_time(alert.opened, at.zone),
        "blocks": words.blocks(alert.trouble),
        "fix": alert.trouble.fix,
        "sent": [f"{name}, {sent.times}×" for name, sent in alert.notifications.items()],
        "acknowledged": None
        if known is None
        else {"by": known.who, "why": known.why, "at": page_time(known.at, at.zone)},
    }
