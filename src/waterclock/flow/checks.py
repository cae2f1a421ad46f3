"""All that a table demands of each of its rows, in one list, with what happens to rows that break it. Pure."""

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
"""As many checks as one number holds a bit for, and its sign stays free."""


class Demand(StrEnum):
    """What a check asks of a row: to be readable, an expression, a value of the declared type, any at all, its key.

    REFERENCE: that its parent is there. PAST: that the table's own earlier labels did not hold the key.
    """

    PARSED = "parsed"
    REFERENCE = "reference"
    EXPRESSION = "expression"
    TYPE = "type"
    VALUE = "value"
    PAST = "past"
    KEY = "key"


class Ruled(Protocol):
    """What demands something of its rows: a table, also one that is being settled."""

    @property
    def columns(self) -> Columns:
        """Its column list."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Its EXPECTs of what a batch makes."""

    @property
    def input_rules(self) -> tuple[Rule, ...]:
        """Its EXPECTs of what a batch reads."""


@dataclass(frozen=True, slots=True)
class Check:
    """One demand. `text` is the expression, the type, or what a KEY says of which row stays; `columns` are asked."""

    name: str
    demand: Demand
    text: str
    ladder: Ladder
    columns: tuple[str, ...] = ()

    @property
    def takes_out(self) -> Action | None:
        """What is done with a row that breaks it, as it is written; None: the row stays."""
        return sets_aside(self.ladder)

    @property
    def broken_words(self) -> str:
        """Say of rows that they break it."""
        if self.demand is Demand.KEY:
            others = "of which another row stays" if self.text else "that occurs more than once"
            return f"have no key, or one {others}"
        return {
            Demand.PARSED: "could not be read",
            Demand.REFERENCE: f"have no row in {self.text}",
            Demand.EXPRESSION: f"are not ({self.text})",
            Demand.TYPE: f"hold no {self.text} in {', '.join(self.columns)}",
            Demand.VALUE: f"hold nothing in {', '.join(self.columns)}",
            Demand.PAST: f"have a key that was there in the {self.text} before",
        }[self.demand]


def all_rules(table: Ruled) -> tuple[Rule, ...]:
    """Return the EXPECTs of what a batch makes, of the table and of its columns, in the order written."""
    return (*table.rules, *(rule for column in table.columns.named for rule in column.rules))


def every_rule(table: Ruled) -> tuple[Rule, ...]:
    """Return all EXPECTs: those of what a batch reads, then those of what it makes."""
    return (*table.input_rules, *all_rules(table))


def asks_rows(table: Ruled) -> bool:
    """Tell whether a rule is asked of the rows that a batch brings, one by one or together."""
    return any(rule.scope is not Scope.TABLE for rule in all_rules(table))


def checks_of(table: Ruled) -> tuple[Check, ...]:
    """Return what is asked of each row, in the order written, the key last: of what all others let through.

    Whether it could be read at all comes first. A type whose breach fails the batch is none of them: such a value
    fails the rows' own pass, and so does an unreadable line where nothing else is said.
    """
    return (*_of_format(table.columns), *_of_columns(table), *_of_rules(table.rules), *_of_key(table))


def takes_rows_out(table: Ruled) -> bool:
    """Tell whether single rows may be set aside or dropped as the table's batches are written."""
    return any(check.takes_out for check in checks_of(table))


def marks_rows(table: Ruled) -> bool:
    """Tell whether each row is marked by what it breaks as it is written: not each demand is an expression over it."""
    is_loose = keeps_unread(table.columns) or loose_types(table) or checked_references(table.columns)
    return bool(is_loose) or takes_rows_out(table)


def keeps_aside(table: Ruled) -> bool:
    """Tell whether the table's batches may have rows in its quarantine, of what they make or of what they read."""
    return any(check.takes_out is Action.QUARANTINE for check in (*checks_of(table), *input_checks(table.input_rules)))


def inputs_asked(table: Ruled) -> dict[str, tuple[Rule, ...]]:
    """Return by table which rules are asked of the rows that batches read of it, in the order written."""
    found: dict[str, tuple[Rule, ...]] = {}
    for rule in table.input_rules:
        found[rule.of] = (*found.get(rule.of, ()), rule)
    return found


def input_checks(rules: Iterable[Rule]) -> tuple[Check, ...]:
    """Return what is asked of each row that is read, of the rules of one input or of all."""
    return tuple(_of_rules(rules))


def marks(table: Ruled) -> tuple[Check, ...]:
    """Return what the bits of a row that was set aside stand for: what is asked of what is made, then of what is read.

    What is made has bits only where its rows are marked as they are written.
    """
    return (*(checks_of(table) if marks_rows(table) else ()), *input_checks(table.input_rules))


def loose_types(table: Ruled) -> dict[str, str]:
    """Return the columns, in lower case, whose values may be of another type than declared, and the check of each."""
    return {check.columns[0].lower(): check.name for check in checks_of(table) if check.demand is Demand.TYPE}


def keeps_unread(columns: Columns) -> bool:
    """Tell whether lines that cannot be read come as rows of their own; else they fail their batch."""
    return columns.unread is not None and columns.unread.ladder != FAILS


def rules_without_expression(table: Table) -> tuple[Rule, ...]:
    """Return as rules what is asked of rows and no expression says, for whoever shows rules."""
    asked = (check for check in checks_of(table) if check.demand in {Demand.PARSED, Demand.REFERENCE})
    return tuple(
        Rule(check.text if check.demand is Demand.PARSED else check.name, check.name, Scope.ROW,
             check.ladder[0].action, table.place, ladder=check.ladder)
        for check in asked
    )  # fmt: skip


def columns_as_asked(table: Table) -> Columns:
    """Return the columns as a source is asked for them: of another type where such a value is to be set aside.

    Numbers and truths are asked for as text then, which any value is; times and dates as the source has them. Where a
    row came from is asked under the names that this has in collected rows, also where rows are set aside.
    """
    loose, of = loose_types(table), table.columns
    tells = {column.tells: column.place for column in of.named if column.tells in IN_ROWS}
    if not loose and not tells and not keeps_aside(table):
        return of
    if keeps_aside(table):
        tells = dict.fromkeys(IN_ROWS, table.place)
    own = (replace(it, type=_asked(it.type)) if it.name.lower() in loose else it for it in of.named if not it.tells)
    beside = (Column(IN_ROWS[what], place, TYPES[what], tells=what) for what, place in tells.items())
    return replace(of, named=(*own, *beside))


def is_nested(type_text: str) -> bool:
    """Tell whether a type holds others: such a value cannot come as text."""
    return type_text.lstrip().upper().startswith(("ARRAY", "MAP", "STRUCT", "BINARY"))


def _asked(type_text: str | None) -> str | None:
    is_time = (type_text or "").strip().upper().startswith(("TIMESTAMP", "DATE"))
    return None if is_time else "STRING"


def key_ladder(table: Ruled) -> Ladder:
    """Return what happens where the key is NULL or not unique; all columns of it say the same, or nothing."""
    return next((column.else_of_key for column in table.columns.named if column.else_of_key), FAILS)


def _of_format(columns: Columns) -> Iterator[Check]:
    if columns.unread is not None and keeps_unread(columns):
        yield Check(columns.unread.name, Demand.PARSED, "parsed()", columns.unread.ladder)


def key_stays(table: Ruled) -> KeyStays:
    """Return which row of a key stays; what several columns of it say adds up."""
    said = [column.stays for column in table.columns.named if column.stays]
    return KeyStays(
        next((each.order for each in said if each.order), ()), next((each.past for each in said if each.past), None)
    )


def is_of_key(read: Read) -> bool:
    """Tell whether a read is the one by which a table's KEY looks back at its own earlier labels."""
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
