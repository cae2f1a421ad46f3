"""Checks a row before it is saved: the types and choices of its values, and the rules that the form evaluates."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from waterclock.connectors.forms.values import InvalidValue, Row, parse_value
from waterclock.errors import WaterclockError
from waterclock.flow.form_rules import find_broken_rules
from waterclock.flow.form_views import FormView
from waterclock.flow.forms import Entity
from waterclock.printable import printable

_MOST_WARNINGS = 20
_NONE: frozenset[str] = frozenset()


class InvalidRowError(WaterclockError):
    """A row cannot be saved (E891). `problems` are the reasons by column, `key` is the text of its key."""

    key: str = ""
    problems: Mapping[str, str] = MappingProxyType({})


def find_invalid_values(
    entity: Entity, row: Row, before: Row | None, view: FormView | None = None, hidden: Collection[str] = _NONE
) -> dict[str, str]:
    """Map each field of a row to the reason why it cannot be saved. `before` is the row as it is, None for a new one.

    The KEY of a new row must be in its stored form, so that no key has two rows, as 1 and 01. Values of the columns
    `hidden` are not shown to the person, and have no reason. Rules are those that `view` shows.
    """
    found = {}
    collected = _collected(entity, before, hidden)
    for field in entity.fields:
        text = row.get(field.name)
        is_kept = collected is not None and collected.get(field.name) == text
        if field.name in hidden or (is_kept and field.choices and (text or not field.is_required)):
            continue  # a value that was there before its choices were declared
        try:
            stored = parse_value(field, text, entity.zone)
        except InvalidValue as error:
            found[field.name] = error.message
            continue
        if before is None and field.is_key and stored not in {None, text}:
            found[field.name] = f"it is not in its stored form, {stored}"
        elif stored is None and field.is_required:
            found[field.name] = "a value is required"
        elif stored is None and field.choices:
            found[field.name] = f"it must be one of {', '.join(field.choices[:20])}"
    for name, problem in find_broken(entity, row, before, view, {*hidden, *found}).items():
        found.setdefault(name, problem)
    return found


def find_broken(
    entity: Entity,
    row: Row,
    before: Row | None,
    view: FormView | None = None,
    hidden: Collection[str] = _NONE,
    *,
    refuses: bool = True,
) -> dict[str, str]:
    """Map fields to the rules that a change breaks: those that refuse the row or, without `refuses`, those that warn.

    A row that breaks a rule already does not hinder changes of other columns, unless it lacks a required value: no run
    has collected it yet. Rules that name a column that is not shown are left to the run, because nothing may follow
    from its values.
    """
    rules = [rule for rule in (entity if view is None else view.shown).rules if rule.is_refusing is refuses]
    broken = find_broken_rules(rules, _collected(entity, before, hidden), row, hidden)
    return _by_field((name, rule.problem if refuses else rule.warning) for name, rule in broken)


def _collected(entity: Entity, before: Row | None, hidden: Collection[str]) -> Row | None:
    """Return a row as it is if a run may have collected it: it has all required values that are shown."""
    if before is None or any(not before.get(name) for name in entity.required if name not in hidden):
        return None
    return before


def list_broken(entity: Entity, row: Row, hidden: Collection[str] = _NONE) -> dict[str, str]:
    """Map fields to the warnings of all rules that a stored row breaks as it is, without those of hidden columns."""
    return _by_field((name, rule.warning) for name, rule in find_broken_rules(entity.rules, None, row, hidden))


def _by_field(found: Iterable[tuple[str, str]]) -> dict[str, str]:
    by_field: dict[str, list[str]] = {}
    for name, words in found:
        by_field.setdefault(name, []).append(words)
    return {name: "; ".join(words) for name, words in by_field.items()}


def require_valid_row(
    entity: Entity, key: str, after: Row, before: Row | None, view: FormView | None, hidden: Collection[str]
) -> None:
    """Raise InvalidRowError (E891) for a row that cannot be saved."""
    problems = find_invalid_values(entity, after, before, view, hidden)
    if not problems:
        return
    shown = entity if view is None else view.shown
    name, why = next(iter(problems.items()))
    is_shown = shown.field(name) is not None
    error = InvalidRowError(
        "E891",
        f"{name if is_shown else 'a column'} of {key} cannot be saved",
        where=entity.table,
        why=why if is_shown else "a column that is not shown to you needs a value",
        fix="correct the value; nothing was saved",
    )
    error.key = key
    error.problems = {name: why for name, why in problems.items() if shown.field(name) is not None}
    raise error


def list_warnings(
    entity: Entity, changes: Iterable[tuple[str, Row | None, Row | None]], view: FormView | None
) -> tuple[str, ...]:
    """Return the warnings of changed rows, given as key, row before and row after: the first ones, and a count."""
    found: list[str] = []
    for key, before, after in changes:
        if after is not None:
            hidden = hidden_columns_of(entity, view, before)
            broken = find_broken(entity, after, before, view, hidden, refuses=False)
            found += [f"{printable(key)}, {name}: {said}" for name, said in broken.items()]
    more = [f"and {len(found) - _MOST_WARNINGS} more"] if len(found) > _MOST_WARNINGS else []
    return (*found[:_MOST_WARNINGS], *more)


def hidden_columns_of(entity: Entity, view: FormView | None, before: Row | None) -> frozenset[str]:
    """Return the columns of a row as it is that are not shown to a person. A new row has none."""
    if view is None or before is None:
        return _NONE
    return frozenset(field.name for field in entity.fields) - view.columns_of(before)
