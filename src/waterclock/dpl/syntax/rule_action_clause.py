"""Parses the actions for rows that break a rule: `ELSE QUARANTINE AT MOST 1 PERCENT ELSE HOLD`."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from math import isfinite

from waterclock.dpl.syntax.cursor import Cursor
from waterclock.dpl.syntax.source_text import Span
from waterclock.flow.enums import Action
from waterclock.flow.rule_actions import ROW_ACTIONS, RuleAction, RuleActions, is_weaker
from waterclock.similar_names import did_you_mean

_ACTIONS = {action.name: action for action in Action}
_ACTIONS_OF_OTHER_TOOLS = {
    **dict.fromkeys(("ABORT", "ERROR", "STOP", "RAISE", "REJECT", "THROW", "ROLLBACK"), Action.FAIL),
    **dict.fromkeys(("IGNORE", "LOG", "ALERT", "NOTIFY", "KEEP", "ALLOW", "PASS", "NOTHING"), Action.WARN),
    **dict.fromkeys(("BLOCK", "PAUSE", "WAIT", "REVIEW"), Action.HOLD),
    **dict.fromkeys(("ISOLATE", "DIVERT", "REDIRECT", "SEPARATE"), Action.QUARANTINE),
    **dict.fromkeys(("SKIP", "DELETE", "REMOVE", "DISCARD", "EXCLUDE", "FILTER"), Action.DROP),
}  # names of the actions in other tools
_ALL = 100  # PERCENT
_MAX_ROWS = 10**18  # no batch has more, and converting 1e999999 to an int would take minutes
_OF_NO_ROWS = "write one action without a limit: the rule applies to a whole batch or table, not to a number of rows"
_EFFECTS = {
    Action.FAIL: "fails the batch",
    Action.WARN: "keeps the rows and reports them",
    Action.HOLD: "keeps the batch back until a user releases it",
    Action.QUARANTINE: "stores the rows in a separate table",
    Action.DROP: "removes the rows",
}


def parse_otherwise(cursor: Cursor, *, is_of_rows: bool = True) -> RuleActions:
    """Parse the ELSE actions after a rule; empty if there are none.

    A rule that is not of rows applies to a batch or a table, and has one action without a limit.

    Raises E204 for an unknown action, E209 for INTO, E270 and E271 for a wrong order, E273 for an invalid limit.
    """
    found: list[RuleAction] = []
    while cursor.at("ELSE") and not cursor.at("ELSE", "AS"):
        start = cursor.index
        cursor.take()
        action = _parse_action(cursor)
        if found:
            _check_order(found[-1], action, cursor.span_since(start), is_of_rows=is_of_rows)
        found.append(action)
    if cursor.at("AT", "MOST"):
        raise cursor.here().refuse(
            "E270",
            "AT MOST has no action",
            why="it limits the number of rows for an action",
            fix="write the action: ELSE WARN AT MOST 10" if is_of_rows else _OF_NO_ROWS,
        )
    return tuple(found)


def _parse_action(cursor: Cursor) -> RuleAction:
    word = cursor.peek()
    if word.upper not in _ACTIONS:
        raise cursor.here().refuse(
            "E204",
            f"expected {', '.join([*_ACTIONS][:-1])} or {[*_ACTIONS][-1]} after ELSE, found {cursor.here().text}",
            fix=did_you_mean(word.upper, _ACTIONS, otherwise=_suggest_action(word.upper)),
        )
    action = _ACTIONS[cursor.take().upper]
    if action in ROW_ACTIONS and cursor.at("INTO"):
        raise cursor.here().refuse(
            "E209",
            f"{action.name} INTO is not supported",
            why="quarantined rows of a table are in a table with its name and the suffix _quarantine",
            fix=f"leave it out: ELSE {action.name}",
        )
    if not cursor.accept("AT", "MOST"):
        return RuleAction(action)
    most, span = _parse_limit(cursor)
    if cursor.peek().text == "%":
        raise cursor.here().refuse("E273", "a share is written with PERCENT", fix=f"write {span.text} PERCENT")
    is_percent = cursor.accept("PERCENT")
    if most < 0 or most > (_ALL if is_percent else _MAX_ROWS):
        raise span.refuse(
            "E273",
            f"at most {span.text}{' PERCENT' if is_percent else ''} is not a valid limit",
            fix="write a share between 0 and 100 PERCENT" if is_percent else "write a number of rows, from 0 to 10^18",
        )
    if not is_percent and most != most.to_integral_value():
        raise span.refuse(
            "E273", f"{span.text} is not a number of rows", fix=f"write {span.text} PERCENT, or a whole number"
        )
    if action is Action.FAIL:
        raise span.refuse(
            "E270",
            "FAIL cannot have a limit",
            why="more rows than the limit would fail as well",
            fix="leave the limit out",
        )
    return RuleAction(action, most, is_percent)


def _suggest_action(upper: str) -> str:
    """Return the fix for an unknown or missing word after ELSE."""
    action = _ACTIONS_OF_OTHER_TOOLS.get(upper)
    if action is None:
        return "write one of them, as in ELSE WARN, or leave ELSE out: the batch fails then"
    return f"write ELSE {action.name}, which {_EFFECTS[action]}"


def _parse_limit(cursor: Cursor) -> tuple[Decimal, Span]:
    start = cursor.index
    if cursor.at(":"):
        value, span = cursor.variable()
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise span.refuse(
                "E217", f"{span.text} is {value!r}, and a limit must be a number", fix="set it to a finite number"
            )
        return Decimal(str(value)), span
    sign = -1 if cursor.accept("-") else 1
    if cursor.peek().kind != "number":
        cursor.raise_unexpected(
            "a number of rows, or of PERCENT", fix="write it as in AT MOST 10, or AT MOST 1 PERCENT"
        )
    text = cursor.take().text
    try:
        return Decimal(text) * sign, cursor.span_since(start)
    except InvalidOperation:
        raise cursor.span_since(start).refuse(
            "E273", f"{text} is not a number", fix="write it as in AT MOST 1 PERCENT"
        ) from None


def _check_order(before: RuleAction, after: RuleAction, span: Span, *, is_of_rows: bool) -> None:
    if before.most is None or (before.is_percent and before.most == _ALL):
        raise span.refuse(
            "E270",
            f"{span.text} is never reached",
            why=f"{before.action.name} before it "
            + ("has no limit" if before.most is None else f"applies to up to {_format_limit(before)}"),
            fix=_suggest_order(before.action, after.action) if is_of_rows else _OF_NO_ROWS,
        )
    if after.action in ROW_ACTIONS:
        raise span.refuse(
            "E271",
            f"{after.action.name} comes after {before.action.name}",
            why="rows are quarantined while they are written, before their number is known",
            fix=f"write it first: ELSE {after.action.name} AT MOST {_format_limit(before)} ELSE HOLD",
        )
    if is_weaker(after.action, before.action):
        raise span.refuse(
            "E271",
            f"{after.action.name} comes after {before.action.name}, which is at least as strict",
            why="more broken rows would have no stricter action than fewer",
            fix="continue with FAIL" if before.action is Action.HOLD else "continue with HOLD or FAIL",
        )
    if after.most is not None and after.is_percent == before.is_percent and after.most <= before.most:
        raise span.refuse(
            "E270",
            f"{span.text} is never reached",
            why=f"{before.action.name} before it has the limit {_format_limit(before)}",
            fix=f"write a higher limit, or none: ELSE {after.action.name}",
        )


def _suggest_order(before: Action, after: Action) -> str:
    """Return the fix for an action after one without a limit: the milder one first, if it may have a stricter after it.

    Only the first action may remove rows, and the next one must be stricter.
    """
    if before not in ROW_ACTIONS and is_weaker(after, before) and after is not before:
        before, after = after, before
    if after in ROW_ACTIONS or is_weaker(after, before):
        return "leave one of them out"
    return f"write ELSE {before.name} AT MOST 1 PERCENT ELSE {after.name}"


def _format_limit(action: RuleAction) -> str:
    return f"{action.most}{' PERCENT' if action.is_percent else ''}"
