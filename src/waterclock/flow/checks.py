"""Lists the row checks of a table, from its rules and column declarations, with the actions for failed rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from waterclock.flow.checked_references import checked_references
from waterclock.flow.declarations import Column, Columns, Read, Rule, Table
from waterclock.flow.enums import Action, ReadKind, Scope
from waterclock.flow.key_options import KeyOptions
from waterclock.flow.origins import IN_ROWS, TYPES
from waterclock.flow.rule_actions import FAILS, RuleActions, find_row_action

MOST_CHECKS = 62
"""The maximum number of checks of a table that quarantines or drops rows. Each check is a bit of a BIGINT."""


class Requirement(StrEnum):
    """The requirement that a check tests.

    - PARSED: the line can be parsed.
    - REFERENCE: the row's parent exists.
    - EXPRESSION: an EXPECT is TRUE.
    - TYPE: the value has the declared type.
    - VALUE: the value is not NULL.
    - PAST: the table's own earlier labels do not contain the key.
    - KEY: the key is not NULL and unique.
    """

    PARSED = "parsed"
    REFERENCE = "reference"
    EXPRESSION = "expression"
    TYPE = "type"
    VALUE = "value"
    PAST = "past"
    KEY = "key"


class TableWithRules(Protocol):
    """A table with rules: a declaration or a compiled table."""

    @property
    def columns(self) -> Columns:
        """The column list."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules on the rows that a batch makes."""

    @property
    def input_rules(self) -> tuple[Rule, ...]:
        """The rules on the rows that a batch reads (EXPECT ... OF)."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check of each row of a batch; `columns` are the checked columns.

    `text` depends on the requirement, `demand`: the expression, the type, the parent table, the duration of PAST, or
    for KEY the order that determines which of several rows with the same key stays.
    """

    name: str
    demand: Requirement
    text: str
    actions: RuleActions
    columns: tuple[str, ...] = ()

    @property
    def row_action(self) -> Action | None:
        """The action on a single row that fails, QUARANTINE or DROP; None if the row stays in the batch."""
        return find_row_action(self.actions)

    @property
    def broken_words(self) -> str:
        """The predicate of a message about rows that fail the check, such as "violate (a > 0)"."""
        if self.demand is Requirement.KEY:
            others = "whose key another row has" if self.text else "that occurs more than once"
            return f"have no key, or one {others}"
        return {
            Requirement.PARSED: "could not be read",
            Requirement.REFERENCE: f"have no row in {self.text}",
            Requirement.EXPRESSION: f"violate ({self.text})",
            Requirement.TYPE: f"have no valid {self.text} in {', '.join(self.columns)}",
            Requirement.VALUE: f"have no value in {', '.join(self.columns)}",
            Requirement.PAST: f"have a key that also occurs in the {self.text} before",
        }[self.demand]


def list_batch_rules(table: TableWithRules) -> tuple[Rule, ...]:
    """Return the rules on the rows that a batch makes: those of the table, then those of its columns."""
    return (*table.rules, *(rule for column in table.columns.named for rule in column.rules))


def every_rule(table: TableWithRules) -> tuple[Rule, ...]:
    """Return all rules of a table: those on the rows that a batch reads, then those on the rows that it makes."""
    return (*table.input_rules, *list_batch_rules(table))


def asks_rows(table: TableWithRules) -> bool:
    """Return whether a rule checks the rows that a batch makes, one by one or together.

    Rules OVER TABLE alone do not count.
    """
    return any(rule.scope is not Scope.TABLE for rule in list_batch_rules(table))


def checks_of(table: TableWithRules) -> tuple[Check, ...]:
    """Return the checks of each row: parsed lines, columns, rules, and last the key, for rows that pass all others.

    Checks of types and of parsed lines that fail the batch are not included, because reading such a row fails anyway.
    Failed rows are counted by name. So a check of a column or key that has the name of a rule, parsed() included, gets
    another name, such as `ok (value)`.
    """
    rules = {rule.name for rule in (*list_batch_rules(table), *table.input_rules) if rule.scope is Scope.ROW}
    rules |= {table.columns.unread.name} if table.columns.unread is not None else set()
    return (
        *_format_checks(table.columns),
        *(_rename_check(check, rules) for check in _columns_checks(table)),
        *_rule_checks(table.rules),
        *(_rename_check(check, rules) for check in _key_checks(table)),
    )


def _rename_check(check: Check, rules: AbstractSet[str]) -> Check:
    """Return a check under a name that no rule has: NOT NULL of the column `ok` is `ok (value)` next to EXPECT ok."""
    if check.demand is Requirement.EXPRESSION or check.name not in rules:
        return check
    return replace(check, name=f"{check.name} ({check.demand})")


def has_row_actions(table: TableWithRules) -> bool:
    """Return whether a check of the rows that a batch makes may quarantine or drop single rows."""
    return any(check.row_action for check in checks_of(table))


def marks_rows(table: TableWithRules) -> bool:
    """Return whether a batch records which checks each row fails, for the rows that it makes."""
    is_loose = keeps_unread(table.columns) or loose_types(table) or checked_references(table.columns)
    return bool(is_loose) or has_row_actions(table)


def can_quarantine_rows(table: TableWithRules) -> bool:
    """Return whether batches of the table may quarantine rows that they make or rows that they read."""
    return any(check.row_action is Action.QUARANTINE for check in (*checks_of(table), *input_checks(table.input_rules)))


def input_rules_of(table: TableWithRules) -> dict[str, tuple[Rule, ...]]:
    """Map each input table to the rules on its rows, in the order written."""
    found: dict[str, tuple[Rule, ...]] = {}
    for rule in table.input_rules:
        found[rule.of] = (*found.get(rule.of, ()), rule)
    return found


def input_checks(rules: Iterable[Rule]) -> tuple[Check, ...]:
    """Build the checks for rules on inputs, except rules with an aggregate, which apply to no single row."""
    return tuple(_rule_checks(rules))


def list_marked_checks(table: TableWithRules) -> tuple[Check, ...]:
    """Return the checks that a quarantined row records as bits: those of rows that a batch makes, then of inputs.

    The first are included only if a batch records which of them a row fails (`marks_rows`).
    """
    return (*(checks_of(table) if marks_rows(table) else ()), *input_checks(table.input_rules))


def loose_types(table: TableWithRules) -> dict[str, str]:
    """Map the columns whose invalid values do not fail the batch, in lower case, to the names of their type checks."""
    return {check.columns[0].lower(): check.name for check in checks_of(table) if check.demand is Requirement.TYPE}


def keeps_unread(columns: Columns) -> bool:
    """Return whether lines that cannot be parsed are read as separate rows; otherwise they fail the batch."""
    return columns.unread is not None and columns.unread.actions != FAILS


def rules_without_expression(table: Table) -> tuple[Rule, ...]:
    """Return the checks of parsed lines and references as rules, so that they can be listed with the EXPECT rules."""
    listed = (check for check in checks_of(table) if check.demand in {Requirement.PARSED, Requirement.REFERENCE})
    return tuple(
        Rule(check.text if check.demand is Requirement.PARSED else check.name, check.name, Scope.ROW,
             check.actions[0].action, table.place, limited_actions=check.actions)
        for check in listed
    )  # fmt: skip


def columns_to_request(table: Table) -> Columns:
    """Return the columns, with types, to read from a source.

    A column whose invalid values do not fail the batch is read as STRING, which can represent any value; for a time or
    date, no type is requested. Columns with the origin of a row have internal names; they are always read if rows may
    be quarantined.
    """
    loose, of = loose_types(table), table.columns
    origins = {column.metadata_field: column.place for column in of.named if column.metadata_field in IN_ROWS}
    if not loose and not origins and not can_quarantine_rows(table):
        return of
    if can_quarantine_rows(table):
        origins = dict.fromkeys(IN_ROWS, table.place)
    own = (
        replace(it, type=_choose_read_type(it.type)) if it.name.lower() in loose else it
        for it in of.named
        if not it.metadata_field
    )
    origin_columns = (Column(IN_ROWS[what], place, TYPES[what], metadata_field=what) for what, place in origins.items())
    return replace(of, named=(*own, *origin_columns))


def is_nested(type_text: str) -> bool:
    """Return whether a type is ARRAY, MAP, STRUCT or BINARY, whose values cannot be read as text."""
    return type_text.lstrip().upper().startswith(("ARRAY", "MAP", "STRUCT", "BINARY"))


def _choose_read_type(type_text: str | None) -> str | None:
    is_time = (type_text or "").strip().upper().startswith(("TIMESTAMP", "DATE"))
    return None if is_time else "STRING"


def key_actions(table: TableWithRules) -> RuleActions:
    """Return the actions for keys that are NULL or not unique: those of the first KEY column with an ELSE."""
    return next((column.else_of_key for column in table.columns.named if column.else_of_key), FAILS)


def may_repeat_keys(table: TableWithRules) -> bool:
    """Return whether several visible rows may have the same key, because the KEY's action is WARN or HOLD."""
    return key_actions(table)[0].action in {Action.WARN, Action.HOLD}


def _format_checks(columns: Columns) -> Iterator[Check]:
    if columns.unread is not None and keeps_unread(columns):
        yield Check(columns.unread.name, Requirement.PARSED, "parsed()", columns.unread.actions)


def key_options_of(table: TableWithRules) -> KeyOptions:
    """Return the rule for rows with the same key (PAST and ORDER BY), combined from all KEY columns."""
    key_options = [column.key_options for column in table.columns.named if column.key_options]
    return KeyOptions(
        next((each.order for each in key_options if each.order), ()),
        next((each.past for each in key_options if each.past), None),
    )


def is_key_past_read(read: Read) -> bool:
    """Return whether a read comes from KEY ... PAST, which reads the table's own earlier labels."""
    return read.kind is ReadKind.PREVIOUS and read.span is not None


def _columns_checks(table: TableWithRules) -> Iterator[Check]:
    in_key = key_actions(table) != FAILS
    checked = {each.columns[0]: each for each in checked_references(table.columns)}
    for column in table.columns.named:
        yield from _column_checks(column, in_key=in_key)
        if column.name in checked:
            of = checked[column.name]
            yield Check(of.name, Requirement.REFERENCE, of.table, of.actions, of.columns)
        yield from _rule_checks(column.rules)


def _column_checks(column: Column, *, in_key: bool) -> Iterator[Check]:
    if column.type and column.else_of_type not in ((), FAILS):
        yield Check(f"{column.name} {column.type}", Requirement.TYPE, column.type, column.else_of_type, (column.name,))
    if column.is_not_null or (column.is_key and not in_key):
        yield Check(column.name, Requirement.VALUE, "", column.else_of_null or FAILS, (column.name,))


def _rule_checks(rules: Iterable[Rule]) -> Iterator[Check]:
    for rule in rules:
        if rule.scope is Scope.ROW:
            yield Check(rule.name, Requirement.EXPRESSION, rule.expression, rule.actions)


def _key_checks(table: TableWithRules) -> Iterator[Check]:
    keys, actions, key_options = table.columns.keys, key_actions(table), key_options_of(table)
    if keys and actions != FAILS:
        name = f"KEY ({', '.join(keys)})"
        if key_options.past is not None:
            yield Check(f"{name} PAST {key_options.past}", Requirement.PAST, str(key_options.past), actions, keys)
        yield Check(name, Requirement.KEY, ", ".join(map(str, key_options.order)), actions, keys)
