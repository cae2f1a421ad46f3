"""Posts messages to a webhook in the format of Prometheus' Alertmanager, version 4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waterclock.batches.alerts import MessageCause
from waterclock.http import posting

_OPEN_END = "0001-01-01T00:00:00Z"  # Alertmanager's value for an alert that has not ended


def payload(body: Mapping[str, Any], target: str) -> dict[str, Any]:
    """Return a message in Alertmanager's format."""
    alerts = [_format_alert(each, body) for each in body["alerts"]]
    keys = "+".join(each["key"] for each in body["alerts"])
    return {
        "version": "4",
        "groupKey": f"waterclock/{body['project']}/{body['env']}:{keys}"[:512],
        "truncatedAlerts": 0,
        "status": "firing" if any(alert["status"] == "firing" for alert in alerts) else "resolved",
        "receiver": target,
        "groupLabels": {"project": body["project"], "env": body["env"]},
        "commonLabels": _common_items([alert["labels"] for alert in alerts]),
        "commonAnnotations": _common_items([alert["annotations"] for alert in alerts]),
        "externalURL": "",
        "alerts": alerts,
    }


def post(address: str, token: str | None, body: Mapping[str, Any], target: str) -> None:
    """Post a message, with the token if there is one. Redirects are not followed. Raises NotDelivered if that fails."""
    posting.post(address, token, payload(body, target))


def _format_alert(alert: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    is_over = MessageCause(alert["telling"]).is_of_end
    labels = {
        "alertname": f"waterclock_{alert['kind']}",
        "severity": alert["severity"],
        "project": body["project"],
        "env": body["env"],
        "table": (alert["tables"] or [""])[0],
        "code": alert["code"],
        "alert": str(alert["number"]),
    }
    blocked = ", ".join(f"{name} ({count})" for name, count in alert["blocks"].items())
    annotations = {"summary": alert["line"], "description": alert["text"], "fix": alert["fix"], "blocks": blocked}
    return {
        "status": "resolved" if is_over else "firing",
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {name: value for name, value in annotations.items() if value},
        "startsAt": alert["opened"],
        "endsAt": alert["resolved"] if is_over else _OPEN_END,
        "generatorURL": "",
        "fingerprint": alert["key"][:16],
    }


def _common_items(each: list[dict[str, str]]) -> dict[str, str]:
    if not each:
        return {}
    first, *others = each
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}
