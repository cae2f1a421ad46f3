"""Column types as comparable values, parsed from Spark SQL or from Spark's JSON format of a schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_SPELLINGS = {
    "tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long", "real": "float", "dec": "decimal",
    "numeric": "decimal", "timestamp_ltz": "timestamp", "varchar": "string", "char": "string", "character": "string",
}  # fmt: skip
_PLAIN = frozenset(
    "string byte short integer long float double decimal boolean binary date timestamp timestamp_ntz".split()
)
_SQL_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_WORD = re.compile(r"\s*(`(?:[^`]|``)*`|[A-Za-z_]\w*|\d+|'(?:[^'\\]|\\.)*'|[<>(),:])")


@dataclass(frozen=True, slots=True)
class Member:
    """A field of a STRUCT."""

    name: str
    type: ColumnType
    is_nullable: bool = True


@dataclass(frozen=True, slots=True)
class Struct:
    """A STRUCT type with its fields, in order."""

    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Array:
    """An ARRAY type; `holds_nulls`: elements may be NULL."""

    element: ColumnType
    holds_nulls: bool = True


@dataclass(frozen=True, slots=True)
class Dictionary:
    """A MAP type; `holds_nulls`: values may be NULL."""

    key: ColumnType
    value: ColumnType
    holds_nulls: bool = True


# a simple type is represented by its name in Spark's JSON of a schema: long, decimal(10,2)
ColumnType = str | Struct | Array | Dictionary


def type_of(text: str) -> ColumnType | None:
    """Parse a Spark SQL type, such as `bigint` to `long`. Return None if it is not a type that tables can store."""
    words = _words(text)
    if words is None:
        return None
    try:
        found, rest = _parse_type(words)
    except (IndexError, ValueError):
        return None
    return None if rest else found


def type_of_json(data: Any) -> ColumnType:
    """Parse a type in Spark's JSON format of a schema."""
    if not isinstance(data, Mapping):
        return str(data)
    if data["type"] == "struct":
        return Struct(
            tuple(
                Member(each["name"], type_of_json(each["type"]), is_nullable=each.get("nullable", True))
                for each in data["fields"]
            )
        )
    if data["type"] == "array":
        return Array(type_of_json(data["elementType"]), holds_nulls=data.get("containsNull", True))
    key, value = type_of_json(data["keyType"]), type_of_json(data["valueType"])
    return Dictionary(key, value, holds_nulls=data.get("valueContainsNull", True))


def text_of_type(type_: ColumnType) -> str:
    """Return a type as Spark SQL, which `type_of` can parse."""
    if isinstance(type_, Struct):
        return "struct<" + ",".join(map(_member, type_.members)) + ">"
    if isinstance(type_, Array):
        return f"array<{text_of_type(type_.element)}>"
    if isinstance(type_, Dictionary):
        return f"map<{text_of_type(type_.key)},{text_of_type(type_.value)}>"
    return _SQL_NAMES.get(type_, type_)


def _member(member: Member) -> str:
    name = member.name if re.fullmatch(r"[A-Za-z_]\w*", member.name) else f"`{member.name.replace('`', '``')}`"
    return f"{name}:{text_of_type(member.type)}" + ("" if member.is_nullable else " NOT NULL")


def _words(text: str) -> list[str] | None:
    words, at = [], 0
    text = text.rstrip()
    while at < len(text):
        found = _WORD.match(text, at)
        if found is None:
            return None
        words.append(found[1])
        at = found.end()
    return words


def _parse_type(words: list[str]) -> tuple[ColumnType, list[str]]:
    """Parse the type at the start of the tokens; return it and the remaining tokens."""
    head, rest = words[0].lower(), words[1:]
    if head == "array":
        element, rest = _parse_type(_skip_sign(rest, "<"))
        return Array(element), _skip_sign(rest, ">")
    if head == "map":
        key, rest = _parse_type(_skip_sign(rest, "<"))
        value, rest = _parse_type(_skip_sign(rest, ","))
        return Dictionary(key, value), _skip_sign(rest, ">")
    if head == "struct":
        return _struct(_skip_sign(rest, "<"))
    name = _SPELLINGS.get(head, head)
    if name not in _PLAIN:
        raise ValueError(head)
    if rest[:1] != ["("]:
        return ("decimal(10,0)" if name == "decimal" else name), rest
    numbers: list[str] = []
    while rest[0] != ")":
        numbers, rest = [*numbers, rest[1]], rest[2:]
    if name == "decimal":
        return f"decimal({int(numbers[0])},{int(numbers[1]) if len(numbers) > 1 else 0})", rest[1:]
    return name, rest[1:]


def _struct(rest: list[str]) -> tuple[Struct, list[str]]:
    members: list[Member] = []
    while rest[0] != ">":
        name, rest = rest[0], rest[1:]
        type_, rest = _parse_type(rest[1:] if rest[0] == ":" else rest)
        is_nullable = [word.upper() for word in rest[:2]] != ["NOT", "NULL"]
        rest = rest if is_nullable else rest[2:]
        if rest[0].upper() == "COMMENT":
            rest = rest[2:]
        bare = name[1:-1].replace("``", "`") if name.startswith("`") else name
        members.append(Member(bare, type_, is_nullable))
        rest = rest[1:] if rest[0] == "," else rest
    return Struct(tuple(members)), rest[1:]


def _skip_sign(words: list[str], sign: str) -> list[str]:
    if words[0] != sign:
        raise ValueError(words[0])
    return words[1:]


def is_same_type(one: str, other: str) -> bool:
    """Return whether two texts denote the same type."""
    return one == other or (type_of(one) is not None and type_of(one) == type_of(other))
