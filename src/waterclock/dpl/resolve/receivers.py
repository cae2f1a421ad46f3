"""Checks connections of TYPE receiver, and the streams that are collected from them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator

from waterclock.dpl.resolve.buckets import SpanOf
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import Capabilities
from waterclock.flow.declarations import Connection, Unit
from waterclock.flow.receiver_limits import LARGEST_MAX_BODY, MAX_BODY, MAX_WAITING

RECEIVER = "receiver"

_STREAM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def check_receivers(connections: Iterable[Connection], span_of: SpanOf) -> Iterator[WaterclockError]:
    """Yield errors for options of receivers: E331 for a path that is no local folder, E332 for invalid limits."""
    for each in connections:
        if each.type != RECEIVER:
            continue
        if "://" in str(each.options.get("path", "")):
            yield span_of(each.name, "path").refuse(
                "E331",
                f"{each.name} cannot store its events at {each.options['path']}",
                why="events are written to disk before the response is sent, on the machine that receives them",
                fix="write a local folder; events are then archived to the storage, which may be a bucket",
            )
        body, waiting = _number(each, "max_body", MAX_BODY), _number(each, "max_waiting", MAX_WAITING)
        if not 1 <= body <= LARGEST_MAX_BODY:
            yield span_of(each.name, "max_body").refuse(
                "E332", f"invalid max_body {body:.0f}", fix=f"write a number of bytes from 1 to {LARGEST_MAX_BODY}"
            )
        elif waiting < 2 * body:
            yield span_of(each.name, "max_waiting").refuse(
                "E332",
                f"max_waiting ({waiting:.0f}) must be at least twice max_body ({body:.0f})",
                why="a request is in memory twice while it is written",
                fix=f"write {2 * body:.0f} or more",
            )


def _number(connection: Connection, name: str, otherwise: int) -> float:
    value = connection.options.get(name, otherwise)
    if isinstance(value, int | float) and abs(value) <= sys.float_info.max:
        return value
    return otherwise  # a value that is no number is reported as E223


def check_stream(
    draft: UnresolvedTable, unit: Unit, capabilities: Capabilities | None, errors: list[WaterclockError]
) -> None:
    """Report a collect from a receiver whose stream name is not valid in the URL of a POST."""
    if capabilities is None or capabilities.type != RECEIVER or unit.query is not None:
        return
    if not _STREAM.fullmatch(unit.path):
        errors.append(
            draft.at("FROM").refuse(
                "E330",
                f"{unit.path or 'the unit'} is not a stream of events",
                why=f"senders POST to /{unit.connection}/stream, where stream is a name of letters, digits, _ and -",
                fix=f"write it as in FROM {unit.connection}.events",
            )
        )
