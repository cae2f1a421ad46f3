"""Indexes of the columns of forms, by which their lists are sorted and filtered, and the order that they have.

Rows are ordered by the order key of a column, then by their key: texts by their first 100 characters, by code points,
numbers by their value. Rows without a value are first. An index is for the rows of one form, and its name contains a
digest of its statement, so a changed declaration has other names. Indexes of SQLite and PostgreSQL are kept by the
database itself, also when a person is erased.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from hashlib import sha256

from waterclock.connectors.forms.condition_sql import SqlTerm
from waterclock.connectors.forms.database import PREFIX, ROWS, FormsSession
from waterclock.flow.form_views import FormGrant
from waterclock.flow.forms import Entity, FormField
from waterclock.flow.row_conditions import (
    BoundCombination,
    BoundComparison,
    BoundCondition,
    Operator,
    ValueKind,
    kind_of_type,
)

MOST_INDEXED = 16
"""The number of columns of a form that have an index, the first ones of its declaration."""

MOST_PARTS = 16
"""The maximum number of values by which the rows of a person are looked up in indexes."""

ORDERED_CHARACTERS = 100
"""The number of characters of a text by which rows are sorted."""

_BY = f"{PREFIX}_by"
_NUMBER = "'^[-+]?0*[0-9]{1,60}(?:[.][0-9]{0,60}0*)?(?:[eE][-+]?[0-9]{1,3})?$'"
_INT64 = 1 << 63


@dataclass(frozen=True, slots=True)
class IndexEquality:
    """The condition that the order key of a column is that of a value, which is a stored text. `index` is its index.

    `is_exact`: only rows with this value match, and not others with the same order key.
    """

    field: FormField
    value: str
    index: str
    is_exact: bool


def stored_text(session: FormsSession, name: str) -> str:
    """Return the SQL of the stored text of a field, which is compared by code points."""
    text = session.json_field("content", name)
    return f'({text} COLLATE "C")' if session.is_server else text


def order_key(session: FormsSession, field: FormField, text: str) -> str:
    """Return the SQL of the order key of a field, from the SQL of its stored text. It is never NULL."""
    kind = kind_of_type(field.type)
    if kind is not ValueKind.NUMBER and field.type not in {"FLOAT", "DOUBLE"}:
        cut = f"left({text}, {ORDERED_CHARACTERS})" if session.is_server else f"substr({text}, 1, {ORDERED_CHARACTERS})"
        return f"coalesce({cut}, '')"
    if session.is_server:
        return f"coalesce(substring({text} from {_NUMBER})::numeric, -1e400)"
    return f"coalesce(CAST({text} AS {'INTEGER' if is_whole_number(field) else 'REAL'}), -9e999)"


def is_whole_number(field: FormField) -> bool:
    """Return whether the type of a field has whole numbers only."""
    return kind_of_type(field.type) is ValueKind.NUMBER and not field.type.startswith("DECIMAL")


def order_key_of(session: FormsSession, field: FormField, value: str | None) -> SqlTerm:
    """Return the order key of a stored text as SQL with a bound value."""
    place = '(CAST(? AS TEXT) COLLATE "C")' if session.is_server else "?"
    return SqlTerm(order_key(session, field, place), (value,))


def entity_literal(entity: Entity) -> str:
    """Return the name of a form as an SQL literal: a database uses an index of some rows only for a literal."""
    return "'" + entity.name.replace("'", "''") + "'"


def find_indexes(session: FormsSession, entity: Entity) -> Mapping[str, str]:
    """Map the names of fields to the indexes that they have in the database."""
    there = _names_of(session, entity)
    return {field: name for field, (name, _) in _wanted(session, entity).items() if name in there}


def is_row_key(entity: Entity, field: FormField) -> bool:
    """Return whether a field is the key of the row as it is stored, in the same order."""
    return field.is_key and len(entity.keys) == 1 and field.type == "STRING"


def has_indexes(session: FormsSession, entity: Entity) -> bool:
    """Return whether the indexes of a form are those of its declaration, or cannot be created by this user."""
    wanted = {name for name, _ in _wanted(session, entity).values()}
    return _names_of(session, entity) == wanted or not _may_create(session)


def create_indexes(session: FormsSession, entity: Entity) -> None:
    """Create missing indexes of a form, and drop those of former declarations. Cost: a read of the form for each."""
    if not _may_create(session):
        return
    wanted, there = dict(_wanted(session, entity).values()), _names_of(session, entity)
    for name in sorted(there - wanted.keys()):
        session.execute(f"DROP INDEX IF EXISTS {name}")
    for name in sorted(wanted.keys() - there):
        session.execute(f"CREATE INDEX IF NOT EXISTS {name} {wanted[name]}")


def _wanted(session: FormsSession, entity: Entity) -> dict[str, tuple[str, str]]:
    """Map the fields that have an index by the declaration to its name, and the text after it in its statement.

    A KEY of one text needs none: it is the key of the row.
    """
    found = {}
    for field in [field for field in entity.fields if not is_row_key(entity, field)][:MOST_INDEXED]:
        key = order_key(session, field, stored_text(session, field.name))
        listed = f"({key}), key" if session.is_server else f"{key}, key"
        text = f"ON {ROWS} ({listed}) WHERE entity = {entity_literal(entity)}"
        found[field.name] = (f"{_prefix(entity)}{_digest(text)}", text)
    return found


def _names_of(session: FormsSession, entity: Entity) -> set[str]:
    if session.is_server:
        sql = "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() AND starts_with(indexname::text, ?)"
    else:
        sql = "SELECT name FROM sqlite_master WHERE type = 'index' AND instr(name, ?) = 1"
    return {str(name) for (name,) in session.rows_of(sql, (_prefix(entity),))}


def _may_create(session: FormsSession) -> bool:
    owned = f"SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass('{ROWS}')"
    return not session.is_server or bool(session.first_of(owned)[0])


def _prefix(entity: Entity) -> str:
    return f"{_BY}_{_digest(entity.name)}_"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]


def equalities_of_grants(
    session: FormsSession, entity: Entity, indexes: Mapping[str, str], grants: Sequence[FormGrant]
) -> tuple[IndexEquality, ...] | None:
    """Return equalities of which each row that grants have satisfies one; None if an index does not find these rows."""
    fields = {name: (entity.fields_by_name[name.lower()], index) for name, index in indexes.items()}
    found: list[IndexEquality] = []
    for grant in grants:
        own = None if grant.condition is None else _equalities(session, fields, grant.condition)
        if own is None:
            return None
        found += own
    distinct = tuple(dict.fromkeys(found))
    return distinct if len(distinct) <= MOST_PARTS else None


def _equalities(
    session: FormsSession, fields: Mapping[str, tuple[FormField, str]], condition: BoundCondition
) -> list[IndexEquality] | None:
    if isinstance(condition, BoundCombination):
        parts = [_equalities(session, fields, part) for part in condition.parts]
        known = [part for part in parts if part is not None]
        if condition.is_all:
            fewest = min(known, key=len, default=None)
            return None if fewest is None else [replace(it, is_exact=False) for it in fewest]
        return [each for part in known for each in part] if len(known) == len(parts) else None
    if not isinstance(condition, BoundComparison) or condition.operator is not Operator.EQUAL:
        return None
    if condition.column not in fields:
        return None
    field, index = fields[condition.column]
    values = [value for value in condition.values if value is not None]
    if not all(_is_findable(session, field, condition.kind, value) for value in values):
        return None
    is_text = condition.kind is not ValueKind.NUMBER
    return [
        IndexEquality(field, value, index, is_exact=is_text and 0 < len(value) < ORDERED_CHARACTERS) for value in values
    ]


def _is_findable(session: FormsSession, field: FormField, kind: ValueKind, value: str) -> bool:
    """Return whether all texts that are equal to a value, as values of the field's type, have its order key."""
    if kind is not ValueKind.NUMBER or session.is_server:
        return True
    return is_whole_number(field) and abs(Decimal(value)) < _INT64
