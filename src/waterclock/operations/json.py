"""Writes JSON with the same keys and value formats for all interfaces."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from datetime import UTC, date, datetime
from typing import Any

from waterclock.json_models.version import JSON_VERSION


def json_text(value: Mapping[str, Any], *, indent: int | None = 2) -> str:
    """Format an object as JSON, with the version of the format first. Instants are `2013-01-05T05:00:00Z`.

    An unpaired surrogate, as in an argument that is not UTF-8, is escaped: it cannot be encoded as UTF-8.
    """
    text = json.dumps({"version": JSON_VERSION, **value}, indent=indent, default=_to_json_value, ensure_ascii=False)
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def instant_text(instant: datetime | None) -> str | None:
    """Format an instant as `2013-01-05T05:00:00Z` for JSON."""
    if instant is None:
        return None
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _to_json_value(value: object) -> object:
    if isinstance(value, datetime):
        return instant_text(value) if value.tzinfo else value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return str(value)
