"""Entities of master data: tables that people edit, each declared by a COLLECT from a connection of type `forms`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from waterclock.flow.declarations import Column, Flow, Rule, Table
from waterclock.flow.enums import Action, Scope
from waterclock.flow.form_rules import FormRule, form_rules_of
from waterclock.flow.references import Reference

FORMS = "forms"
"""The connection type whose tables are edited by people."""

APPROVAL = "approval"
"""The option of a COLLECT by which another person than the editor approves each change."""

_TYPE = re.compile(
    r"STRING|TINYINT|SMALLINT|INT|INTEGER|BIGINT|FLOAT|DOUBLE|BOOLEAN|DATE|TIMESTAMP|DECIMAL\(\d+(,\d+)?\)"
)
_LITERAL = r"'[^'\\]*'"


@dataclass(frozen=True, slots=True)
class FormField:
    """A column of an entity as a field to edit.

    - `type`: the Spark type in upper case without blanks; STRING if the column declares none.
    - `is_required`: the column is NOT NULL or part of the KEY.
    - `choices`: the texts of an `EXPECT (column IN ('a', 'b'))` that does not only warn, or empty if any value is
      allowed.
    """

    name: str
    type: str
    is_key: bool = False
    is_required: bool = False
    choices: tuple[str, ...] = ()
    comment: str | None = None
    reference: Reference | None = None


@dataclass(frozen=True, slots=True)
class Entity:
    """A table that people edit. `name` is its name in the connection `connection`, `table` that of the COLLECT.

    `zone` is the zone of times that are entered without one. With `needs_approval`, changes are proposals until another
    person approves them. `rules` are the rules on its rows, without those that are choices of a field. Opening the form
    gives them their conditions.
    """

    name: str
    connection: str
    table: str
    fields: tuple[FormField, ...]
    zone: str = "UTC"
    needs_approval: bool = False
    rules: tuple[FormRule, ...] = ()

    @property
    def keys(self) -> tuple[FormField, ...]:
        """The fields of the KEY, in the declared order."""
        return tuple(field for field in self.fields if field.is_key)

    @property
    def values(self) -> tuple[FormField, ...]:
        """The fields that are not part of the KEY, in the declared order."""
        return tuple(field for field in self.fields if not field.is_key)

    @property
    def required(self) -> tuple[str, ...]:
        """The names of the fields outside of the KEY that need a value before the row is collected."""
        return tuple(field.name for field in self.values if field.is_required)

    @property
    def fields_by_name(self) -> Mapping[str, FormField]:
        """The fields by their names in lower case."""
        return {field.name.lower(): field for field in self.fields}

    def field(self, name: str) -> FormField | None:
        """Return the field of a name in any case; None if there is none."""
        return next((field for field in self.fields if field.name.lower() == name.lower()), None)


def entities_of(flow: Flow) -> Mapping[str, Entity]:
    """Map the name of each table that collects from a connection of type `forms` to its entity."""
    found = {}
    for name, table in flow.tables.items():
        unit = None if table.source is None else table.source.unit
        connection = None if unit is None else flow.connections.get(unit.connection)
        if connection is not None and connection.type == FORMS:
            found[name] = entity_of(table)
    return found


def entity_of(table: Table) -> Entity:
    """Build the entity that a COLLECT from a connection of type `forms` declares."""
    if table.source is None:
        raise AssertionError(f"{table.name} has no source, which the caller checks")
    unit = table.source.unit
    needs_approval = unit.options.get(APPROVAL) is True
    fields = fields_of(table.columns.named)
    choices = {rule.name for column in table.columns.named if (rule := _rule_of_choices(column)) is not None}
    rules = form_rules_of(table, choices)
    return Entity(unit.path, unit.connection, table.name, fields, table.cadence.zone, needs_approval, rules)


def fields_of(columns: Iterable[Column]) -> tuple[FormField, ...]:
    """Return the fields of a form whose COLLECT declares these columns."""
    return tuple(map(_field_of, columns))


def normal_type(type_text: str | None) -> str | None:
    """Return a column's type in upper case without blanks, STRING if it declares none; None if no form can edit it."""
    text = re.sub(r"\s+", "", type_text or "STRING").upper()
    return text if _TYPE.fullmatch(text) else None


def _field_of(column: Column) -> FormField:
    rule = _rule_of_choices(column)
    return FormField(
        column.name,
        normal_type(column.type) or "STRING",
        is_key=column.is_key,
        is_required=column.is_key or column.is_not_null,
        choices=() if rule is None else _parse_choices(rule.expression, column.name),
        comment=column.comment,
        reference=column.references,
    )


def _rule_of_choices(column: Column) -> Rule | None:
    """Return the first rule of a column that lists its values, and refuses all others; None if there is none."""
    rules = (rule for rule in column.rules if rule.scope is Scope.ROW and rule.actions[0].action is not Action.WARN)
    return next((rule for rule in rules if _parse_choices(rule.expression, column.name)), None)


def _parse_choices(expression: str, column: str) -> tuple[str, ...]:
    """Return the texts of `column IN ('a', 'b')`; empty for any other expression."""
    text = expression.strip()
    while text.startswith("(") and text.endswith(")"):
        text = text[1:-1].strip()
    shape = rf"`?{re.escape(column)}`?\s+IN\s*\(\s*({_LITERAL}(?:\s*,\s*{_LITERAL})*)\s*"
    found = re.fullmatch(shape + r"\)", text, re.IGNORECASE)
    return () if found is None else tuple(each[1:-1] for each in re.findall(_LITERAL, found[1]))
