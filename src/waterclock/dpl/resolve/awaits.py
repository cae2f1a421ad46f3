"""Resolves AWAIT: a collect waits for a marker file, for a later file, or until a query returns TRUE."""

from __future__ import annotations

import re

from waterclock.dpl.syntax.statements import ParsedAwait, Statement
from waterclock.errors import WaterclockError
from waterclock.flow.awaits import Awaits
from waterclock.flow.capabilities import Capabilities
from waterclock.flow.enums import Batching, WindowSignal

_CODES = re.compile(r"%(.?)")
_KNOWN = frozenset("YmdHMj%")
_EXAMPLES = {
    WindowSignal.MARKER: "AWAIT '%Y/%m/%d/_SUCCESS'",
    WindowSignal.NEXT: "AWAIT NEXT",
    WindowSignal.QUERY: "AWAIT QUERY 'SELECT count(*) > 0 FROM loads'",
}
_WORDS = {
    WindowSignal.MARKER: "AWAIT with a marker",
    WindowSignal.NEXT: "AWAIT NEXT",
    WindowSignal.QUERY: "AWAIT QUERY",
}


def awaits_of(
    statement: Statement, capabilities: Capabilities | None, batching: Batching, errors: list[WaterclockError]
) -> Awaits | None:
    """Return the AWAIT of a collect; None if it has none, or one that is invalid or not supported by the source."""
    await_clause = statement.value("AWAIT", ParsedAwait)
    if await_clause is None:
        return None
    if (error := _check_sign(await_clause, capabilities, batching)) is not None:
        errors.append(error)
        return None
    return Awaits(await_clause.sign, await_clause.text, await_clause.within)


def _check_sign(
    await_clause: ParsedAwait, capabilities: Capabilities | None, batching: Batching
) -> WaterclockError | None:
    if capabilities is not None and await_clause.sign not in capabilities.awaits:
        legal = [_WORDS[sign] for sign in WindowSignal if sign in capabilities.awaits]
        return await_clause.span.refuse(
            "E224",
            f"{_WORDS[await_clause.sign]} is not supported for connections of type {capabilities.type}",
            why=f"they support {' and '.join(legal)}" if legal else "they send no signal that a window is complete",
            fix=f"write {' or '.join(_EXAMPLES[sign] for sign in WindowSignal if sign in capabilities.awaits)}"
            if legal
            else "use DELAY, which waits for a fixed time after each window",
        )
    if await_clause.sign is WindowSignal.NEXT and batching is Batching.SNAPSHOT:
        return await_clause.span.refuse(
            "E224",
            "a snapshot has no next window",
            why="it reads the content of the source at that moment",
            fix="await a marker or a QUERY",
        )
    if await_clause.sign is WindowSignal.QUERY and not await_clause.text.strip():
        return await_clause.span.refuse(
            "E233", "the query is empty", fix="write one, as in AWAIT QUERY 'SELECT count(*) > 0 FROM loads'"
        )
    return _check_marker_name(await_clause) if await_clause.sign is WindowSignal.MARKER else None


def _check_marker_name(await_clause: ParsedAwait) -> WaterclockError | None:
    unknown = [found[0] for found in _CODES.finditer(await_clause.text) if found[1] not in _KNOWN]
    if unknown:
        return await_clause.span.refuse(
            "E211",
            f"{unknown[0]} means nothing in a marker's name",
            why="%Y, %m, %d, %H, %M and %j are parts of the window's start, %% is a percent sign",
            fix="write a name as in AWAIT '%Y/%m/%d/_SUCCESS'",
        )
    parts = await_clause.text.split("/")
    if (
        not await_clause.text.strip()
        or ".." in parts
        or await_clause.text.startswith("/")
        or "://" in await_clause.text
    ):
        return await_clause.span.refuse(
            "E211",
            f"{await_clause.text!r} is not a file of the connection",
            why="a marker is a file in the connection's folder or below it",
            fix="write a name as in AWAIT '%Y/%m/%d/_SUCCESS'",
        )
    return None
