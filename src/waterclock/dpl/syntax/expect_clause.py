"""Rules: EXPECT with names, scopes and what happens where a rule does not hold."""

from __future__ import annotations

from collections.abc import Callable

from waterclock.dpl.syntax.cursor import Cursor
from waterclock.dpl.syntax.expressions import take_expression
from waterclock.dpl.syntax.not_yet import not_yet
from waterclock.dpl.syntax.statements import RuleSaid
from waterclock.errors import did_you_mean
from waterclock.flow.choices import Action

_LATER_ACTIONS = frozenset({"HOLD", "QUARANTINE", "DROP"})


def take_rules(cursor: Cursor, is_clause: Callable[[Cursor, int], bool]) -> tuple[RuleSaid, ...]:
    """Take the rules behind EXPECT, joined by commas."""
    rules = [_rule(cursor, is_clause)]
    while cursor.accept(","):
        rules.append(_rule(cursor, is_clause))
    return tuple(rules)


def _rule(cursor: Cursor, is_clause: Callable[[Cursor, int], bool]) -> RuleSaid:
    expression = take_expression(cursor, "a rule, as in amount > 0", is_clause)
    name = cursor.name("a rule's name").text if cursor.accept("AS") else None
    is_over_batch = False
    if cursor.at("OVER", "TABLE"):
        raise not_yet("OVER TABLE", cursor.here())
    if cursor.accept("OVER"):
        cursor.need("BATCH")
        is_over_batch = True
    return RuleSaid(expression, name, is_over_batch, take_otherwise(cursor))


def take_otherwise(cursor: Cursor) -> Action:
    """Take an ELSE, if there is one; FAIL is what is meant where nothing is said."""
    if not cursor.accept("ELSE"):
        return Action.FAIL
    word = cursor.peek()
    if word.upper in _LATER_ACTIONS:
        raise not_yet(f"ELSE {word.upper}", cursor.here(), fix="say ELSE FAIL or ELSE WARN for now")
    actions = {action.name: action for action in Action}
    if word.upper not in actions:
        raise cursor.here().refuse(
            "E204",
            f"expected FAIL or WARN behind ELSE, found {cursor.here().text}",
            fix=did_you_mean(word.upper, [*actions, *_LATER_ACTIONS]),
        )
    cursor.take()
    if cursor.at("AT", "MOST"):
        raise not_yet("AT MOST", cursor.here())
    if cursor.at("ELSE"):
        raise not_yet("a ladder of ELSEs", cursor.here(), fix="say one ELSE")
    return actions[word.upper]
