"""Parses the actions for rows that break a rule: `ELSE QUARANTINE AT MOST 1 PERCENT ELSE HOLD`."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from waterclock.dpl.syntax.cursor import Cursor
from waterclock.dpl.syntax.source_text import Span
from waterclock.errors import did_you_mean
from waterclock.flow.choices import Action
from waterclock.flow.ladders import SETS_ASIDE, Ladder, Rung, is_weaker

_ACTIONS = {action.name: action for action in Action}
_ELSEWHERE = {
    **dict.fromkeys(("ABORT", "ERROR", "STOP", "RAISE", "REJECT", "THROW", "ROLLBACK"), Action.FAIL),
    **dict.fromkeys(("IGNORE", "LOG", "ALERT", "NOTIFY", "KEEP", "ALLOW", "PASS", "NOTHING"), Action.WARN),
    **dict.fromkeys(("BLOCK", "PAUSE", "WAIT", "REVIEW"), Action.HOLD),
    **dict.fromkeys(("ISOLATE", "DIVERT", "REDIRECT", "SEPARATE"), Action.QUARANTINE),
    **dict.fromkeys(("SKIP", "DELETE", "REMOVE", "DISCARD", "EXCLUDE", "FILTER"), Action.DROP),
}  # names of the actions in other tools
_DOES = {
    Action.FAIL: "fails the batch",
    Action.WARN: "keeps the rows and reports them",
    Action.HOLD: "keeps the batch back until a user releases it",
    Action.QUARANTINE: "keeps the rows apart, in a table of their own",
    Action.DROP: "leaves the rows out",
}


def take_otherwise(cursor: Cursor) -> Ladder:
    """Take the ELSEs after a rule, if there are any; without one the batch fails.

    Raises  E270 for a step that is never reached, E271 for an order of steps that no single pass over the rows can
            follow, E273 for an invalid limit, E209 for a table of its own (INTO) for quarantined rows
    """
    found: list[Rung] = []
    while cursor.at("ELSE") and not cursor.at("ELSE", "AS"):
        start = cursor.index
        cursor.take()
        rung = _rung(cursor)
        if found:
            _check_order(found[-1], rung, cursor.since(start))
        found.append(rung)
    if cursor.at("AT", "MOST"):
        raise cursor.here().refuse(
            "E270",
            "AT MOST stands behind nothing that it limits",
            why="it says up to how many rows an action is enough",
            fix="say the action: ELSE WARN AT MOST 10",
        )
    return tuple(found)


def _rung(cursor: Cursor) -> Rung:
    word = cursor.peek()
    if word.upper not in _ACTIONS:
        raise cursor.here().refuse(
            "E204",
            f"expected {', '.join([*_ACTIONS][:-1])} or {[*_ACTIONS][-1]} behind ELSE, found {cursor.here().text}",
            fix=did_you_mean(word.upper, _ACTIONS, otherwise=_suggest_action(word.upper)),
        )
    action = _ACTIONS[cursor.take().upper]
    if action in SETS_ASIDE and cursor.at("INTO"):
        raise cursor.here().refuse(
            "E209",
            f"{action.name} INTO is not said here",
            why="quarantined rows of a table are next to it, under its name and _quarantine",
            fix=f"leave it out: ELSE {action.name}",
        )
    if not cursor.accept("AT", "MOST"):
        return Rung(action)
    most, span = _number(cursor)
    if cursor.peek().text == "%":
        raise cursor.here().refuse("E273", "a share is said by a word", fix=f"say {span.text} PERCENT")
    is_percent = cursor.accept("PERCENT")
    if most < 0 or (is_percent and most > 100):
        raise span.refuse(
            "E273",
            f"at most {span.text}{' PERCENT' if is_percent else ''} is no limit",
            fix="a share is between 0 and 100 PERCENT" if is_percent else "say how many rows, 0 or more",
        )
    if not is_percent and most != int(most):
        raise span.refuse("E273", f"{span.text} rows are not to be had", fix=f"say {span.text} PERCENT, or whole rows")
    if action is Action.FAIL:
        raise span.refuse("E270", "FAIL with a limit", why="what is beyond it would fail as well", fix="leave it out")
    return Rung(action, most, is_percent)


def _suggest_action(upper: str) -> str:
    """Return the fix for an unknown word after ELSE, or for a missing one."""
    action = _ELSEWHERE.get(upper)
    if action is None:
        return "write one of them, as in ELSE WARN, or leave ELSE out: the batch fails then"
    return f"write ELSE {action.name}, which {_DOES[action]}"


def _number(cursor: Cursor) -> tuple[Decimal, Span]:
    start = cursor.index
    if cursor.at(":"):
        value, span = cursor.variable()
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise span.refuse("E217", f"{span.text} is {value!r}, and a limit is a number", fix="give it a number")
        return Decimal(str(value)), span
    sign = -1 if cursor.accept("-") else 1
    if cursor.peek().kind != "number":
        cursor.raise_unexpected("a number of rows, or of PERCENT", fix="as in AT MOST 10, or AT MOST 1 PERCENT")
    text = cursor.take().text
    try:
        return Decimal(text) * sign, cursor.since(start)
    except InvalidOperation:
        raise cursor.since(start).refuse("E273", f"{text} is no number", fix="as in AT MOST 1 PERCENT") from None


def _check_order(before: Rung, rung: Rung, span: Span) -> None:
    if before.most is None:
        raise span.refuse(
            "E270",
            f"{span.text} is never reached",
            why=f"{before.action.name} before it has no limit",
            fix=f"say ELSE {before.action.name} AT MOST 1 PERCENT ELSE {rung.action.name}",
        )
    if rung.most is not None and rung.is_percent == before.is_percent and rung.most <= before.most:
        raise span.refuse(
            "E270",
            f"{span.text} is never reached",
            why=f"{before.action.name} before it goes up to {_limit(before)}",
            fix=f"give it a higher limit, or none: ELSE {rung.action.name}",
        )
    if rung.action in SETS_ASIDE:
        raise span.refuse(
            "E271",
            f"{rung.action.name} stands behind {before.action.name}",
            why="rows are quarantined while they are written, before their number is known",
            fix=f"begin with it: ELSE {rung.action.name} AT MOST {_limit(before)} ELSE HOLD",
        )
    if is_weaker(rung.action, before.action):
        raise span.refuse(
            "E271",
            f"{rung.action.name} stands behind {before.action.name}, which does no less",
            why="more broken rows would come to no more than fewer do",
            fix="go on with HOLD or FAIL",
        )


def _limit(rung: Rung) -> str:
    return f"{rung.most}{' PERCENT' if rung.is_percent else ''}"
