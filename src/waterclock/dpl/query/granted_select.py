"""Computes the SELECT through which a user sees a table, from the grants to the user. Pure logic.

Several grants combine by these rules. A row is visible if the condition of one grant is true for it. Of the grants that
include the row, one without a mask shows a column unchanged; else the first declared one that names the column masks
it; else the column is NULL. So each value is granted for its own row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlglot.tokens import Token, TokenType

from waterclock.dpl.query.builtins import STRINGS
from waterclock.dpl.syntax.tokens import dialect
from waterclock.flow.grants import Grant
from waterclock.spark_sql import quote_name

USER = "USER"
"""The function that returns an attribute of the current user. Only grants can call it."""


@dataclass(frozen=True, slots=True)
class SeenColumn:
    """A column as a user sees it: SQL over the table's columns. `is_plain`: its value is that of the table.

    `masks`: the SQL of its possible values if not `is_plain`; their types may differ.
    """

    name: str
    sql: str
    is_plain: bool
    masks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GrantedSelect:
    """The columns of a table that a user sees, and the condition on its rows; None for all rows."""

    columns: tuple[SeenColumn, ...]
    where: str | None


def granted_select(
    grants: Sequence[Grant], columns: Sequence[str], attributes: Mapping[str, str], *, as_text: Sequence[str] = ()
) -> GrantedSelect:
    """Combine the grants of a user on a table with these columns into one SELECT.

    `attributes` are those of the user, as SQL literals. A grant whose condition or mask uses an attribute that the user
    does not have is ignored. Columns in `as_text` are cast to STRING, because the types of their masks differ.
    """
    used = usable_grants(grants, attributes)
    conditions = [_with_attributes(grant.where, attributes) if grant.where is not None else None for grant in used]
    seen: list[SeenColumn] = []
    for column in columns:
        found = _seen_column(column, used, conditions, attributes, is_text=column in as_text)
        if found is not None:
            seen.append(found)
    if not used:
        return GrantedSelect(tuple(seen), "FALSE")
    is_all = any(condition is None for condition in conditions)
    where = None if is_all else " OR ".join(f"({condition})" for condition in conditions)
    return GrantedSelect(tuple(seen), where)


def usable_grants(grants: Sequence[Grant], attributes: Mapping[str, str]) -> list[Grant]:
    """Return the grants of which the user has all attributes, in conditions and masks."""
    return [grant for grant in grants if all(_can_use(text, attributes) for text in _texts(grant))]


def attributes_in(expression: str) -> tuple[tuple[str, ...], bool]:
    """Return the names of the attributes in an expression's calls USER('name'), and whether all have this form."""
    tokens = dialect().tokenize(expression)
    calls = [index for index in range(len(tokens)) if _is_call(tokens, index)]
    names = {index: _attribute_at(tokens, index) for index in calls}
    return tuple(dict.fromkeys(name for name in names.values() if name is not None)), None not in names.values()


def _seen_column(
    column: str,
    grants: Sequence[Grant],
    conditions: Sequence[str | None],
    attributes: Mapping[str, str],
    *,
    is_text: bool,
) -> SeenColumn | None:
    """Return one column as the grants show it; None if no grant includes it."""
    plain: list[str | None] = []
    masked: list[tuple[str | None, str]] = []
    for grant, condition in zip(grants, conditions, strict=True):
        own = next((each for each in grant.columns if each.name.lower() == column.lower()), None)
        if own is not None and own.mask is not None:
            masked.append((condition, _with_attributes(own.mask, attributes)))
        elif own is not None or (grant.is_open and column.lower() not in grant.excepted):
            plain.append(condition)
    if not plain and not masked:
        return None
    name, masks = quote_name(column), tuple(dict.fromkeys(mask for _, mask in masked))
    has_all = len(plain) + len(masked) == len(grants)
    if plain and has_all and (None in plain or not masked):
        return SeenColumn(column, name, is_plain=True)
    opening, closing = ("CAST(", " AS STRING)") if is_text else ("(", ")")
    if len(masks) == 1 and not plain and has_all:
        return SeenColumn(column, f"{opening}{masks[0]}{closing}", is_plain=False, masks=masks)
    shown = f"{opening}{name}{closing}"
    branches = [(" OR ".join(f"({each or 'TRUE'})" for each in plain), shown)] if plain else []
    branches += [(f"({condition or 'TRUE'})", f"{opening}{mask}{closing}") for condition, mask in masked]
    cases = " ".join(f"WHEN {condition} THEN {sql}" for condition, sql in branches)
    return SeenColumn(column, f"CASE {cases} END", is_plain=False, masks=(*((name,) if plain else ()), *masks))


def _texts(grant: Grant) -> list[str]:
    texts = [grant.where, *(column.mask for column in grant.columns)]
    return [text for text in texts if text is not None]


def _can_use(text: str, attributes: Mapping[str, str]) -> bool:
    names, is_valid = attributes_in(text)
    return is_valid and all(name in attributes for name in names)


def _with_attributes(text: str, attributes: Mapping[str, str]) -> str:
    """Return an expression with each USER('name') replaced by the literal of that attribute."""
    tokens, copied = dialect().tokenize(text), 0
    parts: list[str] = []
    for index, token in enumerate(tokens):
        if _is_call(tokens, index):
            parts += [text[copied : token.start], attributes[_attribute_at(tokens, index) or ""]]
            copied = tokens[index + 3].end + 1
    return "".join([*parts, text[copied:]])


def _is_call(tokens: Sequence[Token], index: int) -> bool:
    return any(
        token.text.upper() == USER and token.token_type not in STRINGS and following.token_type is TokenType.L_PAREN
        for token, following in pairwise(tokens[index : index + 2])
    )


def _attribute_at(tokens: Sequence[Token], index: int) -> str | None:
    """Return the attribute of a call `USER('name')` at an index; None for a call of another form."""
    if index + 3 >= len(tokens):
        return None
    name, closing = tokens[index + 2], tokens[index + 3]
    is_valid = name.token_type is TokenType.STRING and closing.token_type is TokenType.R_PAREN
    return name.text if is_valid else None
