"""Lists all checks of a table's rows in one list, with the action for rows that fail them. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from waterclock.flow.checked_references import checked_references
from waterclock.flow.choices import Action, ReadKind, Scope
from waterclock.flow.declarations import Column, Columns, Read, Rule, Table
from waterclock.flow.keys import KeyStays
from waterclock.flow.ladders import FAILS, Ladder, sets_aside
from waterclock.flow.origins import IN_ROWS, TYPES

MOST_CHECKS = 62
"""The number of checks for which one number has a bit, without its sign."""


class Demand(StrEnum):
    """The requirement of a check: a readable row, an expression, a value of the declared type, any value, or the key.

    REFERENCE: the row's parent exists. PAST: the table's own earlier labels do not contain the key.
    """

    PARSED = "parsed"
    REFERENCE = "reference"
    EXPRESSION = "expression"
    TYPE = "type"
    VALUE = "value"
    PAST = "past"
    KEY = "key"


class Ruled(Protocol):
    """Any object with rules on its rows: a table, also one that is not resolved yet."""

    @property
    def columns(self) -> Columns:
        """Its column list."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Its EXPECTs on the batch's result."""

    @property
    def input_rules(self) -> tuple[Rule, ...]:
        """Its EXPECTs on the batch's inputs."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `text` is the expression, the type, or KEY's choice of the staying row; `columns` are checked."""

    name: str
    demand: Demand
    text: str
    ladder: Ladder
    columns: tuple[str, ...] = ()

    @property
    def row_action(self) -> Action | None:
        """The action on a single row that fails, as it is written. None: the row stays."""
        return sets_aside(self.ladder)

    @property
    def broken_words(self) -> str:
        """The words that describe rows which fail the check."""
        if self.demand is Demand.KEY:
            others = "whose key another row has" if self.text else "that occurs more than once"
            return f"have no key, or one {others}"
        return {
            Demand.PARSED: "could not be read",
            Demand.REFERENCE: f"have no row in {self.text}",
            Demand.EXPRESSION: f"violate ({self.text})",
            Demand.TYPE: f"have no valid {self.text} in {', '.join(self.columns)}",
            Demand.VALUE: f"have no value in {', '.join(self.columns)}",
            Demand.PAST: f"have a key that also occurs in the {self.text} before",
        }[self.demand]


def all_rules(table: Ruled) -> tuple[Rule, ...]:
    """Return the EXPECTs on the batch's result, of the table and of its columns, in the order written."""
    return (*table.rules, *(rule for column in table.columns.named for rule in column.rules))


def every_rule(table: Ruled) -> tuple[Rule, ...]:
    """Return all EXPECTs: those on the batch's inputs, then those on its result."""
    return (*table.input_rules, *all_rules(table))


def asks_rows(table: Ruled) -> bool:
    """Return whether a rule checks the rows of a batch, one by one or together."""
    return any(rule.scope is not Scope.TABLE for rule in all_rules(table))


def checks_of(table: Ruled) -> tuple[Check, ...]:
    """Return the checks of each row, in the order written. The check on the key is last, on rows that pass all others.

    Whether the row could be read at all is checked first. A type whose violation fails the batch is not a check: such a
    value fails the rows' own pass. The same holds for an unreadable line without an EXPECT parsed().
    """
    return (*_of_format(table.columns), *_of_columns(table), *_of_rules(table.rules), *_of_key(table))


def takes_rows_out(table: Ruled) -> bool:
    """Return whether single rows may be quarantined or dropped as the table's batches are written."""
    return any(check.row_action for check in checks_of(table))


def marks_rows(table: Ruled) -> bool:
    """Return whether each row is marked with its failed checks as it is written. Not all checks are expressions."""
    is_loose = keeps_unread(table.columns) or loose_types(table) or checked_references(table.columns)
    return bool(is_loose) or takes_rows_out(table)


def can_quarantine_rows(table: Ruled) -> bool:
    """Return whether the table's batches may quarantine rows, of their result or of their inputs."""
    return any(check.row_action is Action.QUARANTINE for check in (*checks_of(table), *input_checks(table.input_rules)))


def input_rules_of(table: Ruled) -> dict[str, tuple[Rule, ...]]:
    """Return by table the rules on the rows that batches read from it, in the order written."""
    found: dict[str, tuple[Rule, ...]] = {}
    for rule in table.input_rules:
        found[rule.of] = (*found.get(rule.of, ()), rule)
    return found


def input_checks(rules: Iterable[Rule]) -> tuple[Check, ...]:
    """Return the checks that these rules make on each input row. They may be of one input or of all."""
    return tuple(_of_rules(rules))


def marks(table: Ruled) -> tuple[Check, ...]:
    """Return the checks that the bits of a quarantined row represent: those on the result, then those on the inputs.

    The result has bits only if its rows are marked as they are written.
    """
    return (*(checks_of(table) if marks_rows(table) else ()), *input_checks(table.input_rules))


def loose_types(table: Ruled) -> dict[str, str]:
    """Return the columns, in lower case, whose values may fail the declared type, each with the name of its check."""
    return {check.columns[0].lower(): check.name for check in checks_of(table) if check.demand is Demand.TYPE}


def keeps_unread(columns: Columns) -> bool:
    """Return whether lines that cannot be parsed are returned as rows of their own. Otherwise they fail their batch."""
    return columns.unread is not None and columns.unread.ladder != FAILS


def rules_without_expression(table: Table) -> tuple[Rule, ...]:
    """Return the row checks that have no expression as rules, to show them with the others."""
    asked = (check for check in checks_of(table) if check.demand in {Demand.PARSED, Demand.REFERENCE})
    return tuple(
        Rule(check.text if check.demand is Demand.PARSED else check.name, check.name, Scope.ROW,
             check.ladder[0].action, table.place, ladder=check.ladder)
        for check in asked
    )  # fmt: skip


def columns_to_request(table: Table) -> Columns:
    """Return the columns to request from a source: with another type if values of a wrong type are quarantined.

    Numbers and booleans are then requested as text, which can represent any value; times and dates keep the source's
    type. The origin of a row is requested under its internal names, also if rows are quarantined.
    """
    loose, of = loose_types(table), table.columns
    tells = {column.tells: column.place for column in of.named if column.tells in IN_ROWS}
    if not loose and not tells and not can_quarantine_rows(table):
        return of
    if can_quarantine_rows(table):
        tells = dict.fromkeys(IN_ROWS, table.place)
    own = (
        replace(it, type=_choose_read_type(it.type)) if it.name.lower() in loose else it
        for it in of.named
        if not it.tells
    )
    beside = (Column(IN_ROWS[what], place, TYPES[what], tells=what) for what, place in tells.items())
    return replace(of, named=(*own, *beside))


def is_nested(type_text: str) -> bool:
    """Return whether a type contains others: such a value cannot be requested as text."""
    return type_text.lstrip().upper().startswith(("ARRAY", "MAP", "STRUCT", "BINARY"))


def _choose_read_type(type_text: str | None) -> str | None:
    is_time = (type_text or "").strip().upper().startswith(("TIMESTAMP", "DATE"))
    return None if is_time else "STRING"


def key_ladder(table: Ruled) -> Ladder:
    """Return the action for a key that is NULL or not unique. All key columns that declare it declare the same one."""
    return next((column.else_of_key for column in table.columns.named if column.else_of_key), FAILS)


def may_repeat_keys(table: Ruled) -> bool:
    """Return whether rows of a batch may have one key: it is only warned of, or such a batch may be released."""
    return key_ladder(table)[0].action in {Action.WARN, Action.HOLD}


def _of_format(columns: Columns) -> Iterator[Check]:
    if columns.unread is not None and keeps_unread(columns):
        yield Check(columns.unread.name, Demand.PARSED, "parsed()", columns.unread.ladder)


def key_stays(table: Ruled) -> KeyStays:
    """Return which row of a key stays, combined from the declarations of its columns."""
    said = [column.stays for column in table.columns.named if column.stays]
    return KeyStays(
        next((each.order for each in said if each.order), ()), next((each.past for each in said if each.past), None)
    )


def is_of_key(read: Read) -> bool:
    """Return whether a read is the one by which a table's KEY checks its own earlier labels."""
    return read.kind is ReadKind.PREVIOUS and read.span is not None


def _of_columns(table: Ruled) -> Iterator[Check]:
    in_key = key_ladder(table) != FAILS
    checked = {each.columns[0]: each for each in checked_references(table.columns)}
    for column in table.columns.named:
        yield from _of_column(column, in_key=in_key)
        if column.name in checked:
            of = checked[column.name]
            yield Check(of.name, Demand.REFERENCE, of.table, of.ladder, of.columns)
        yield from _of_rules(column.rules)


def _of_column(column: Column, *, in_key: bool) -> Iterator[Check]:
    if column.type and column.else_of_type not in ((), FAILS):
        yield Check(f"{column.name} {column.type}", Demand.TYPE, column.type, column.else_of_type, (column.name,))
    if column.is_not_null or (column.is_key and not in_key):
        yield Check(column.name, Demand.VALUE, "", column.else_of_null or FAILS, (column.name,))


def _of_rules(rules: Iterable[Rule]) -> Iterator[Check]:
    for rule in rules:
        if rule.scope is Scope.ROW:
            yield Check(rule.name, Demand.EXPRESSION, rule.expression, rule.rungs)


def _of_key(table: Ruled) -> Iterator[Check]:
    keys, ladder, stays = table.columns.keys, key_ladder(table), key_stays(table)
    if keys and ladder != FAILS:
        name = f"KEY ({', '.join(keys)})"
        if stays.past is not None:
            yield Check(f"{name} PAST {stays.past}", Demand.PAST, str(stays.past), ladder, keys)
        yield Check(name, Demand.KEY, ", ".join(map(str, stays.order)), ladder, keys)
