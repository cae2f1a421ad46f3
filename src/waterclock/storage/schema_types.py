"""Compares schemas in the JSON of Spark, which Delta also uses. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from waterclock.spark_sql import quote_name
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    Schema = StructType | str

_TIMELABEL_FIELD = {"name": TIMELABEL, "type": "string", "nullable": True, "metadata": {}}
_INTEGER_RANKS = {"byte": 1, "short": 2, "integer": 3, "long": 4}
_FLOAT_RANKS = {"float": 1, "double": 2}


def schema_text(schema: Schema) -> str:
    """Return the JSON of a table's schema: `timelabel` first, no metadata, everything nullable.

    A column that one query declares as not nullable may contain NULL in later batches. Spark also rejects a table that
    delta-rs created with both NOT NULL and TIMESTAMP_NTZ: its protocol does not list the feature. NOT NULL is enforced
    when a sealed slice is audited.
    """
    parsed = json.loads(schema if isinstance(schema, str) else schema.json())
    fields = [_loosen_field(field) for field in parsed["fields"] if field["name"].lower() != TIMELABEL]
    return json.dumps({"type": "struct", "fields": [_TIMELABEL_FIELD, *fields]}, separators=(",", ":"))


def fields_of(schema: str) -> dict[str, dict[str, Any]]:
    """Return the fields of a schema's JSON by name."""
    return {field["name"]: field for field in json.loads(schema)["fields"]}


def widen_schema(table: str, new: str) -> str | None:
    """Return the table's schema with the columns that only `new` has, nullable, at its end. None if there are none."""
    known = {name.lower() for name in fields_of(table)}
    added = [field | {"nullable": True} for name, field in fields_of(new).items() if name.lower() not in known]
    if not added:
        return None
    parsed = json.loads(table)
    return json.dumps(parsed | {"fields": [*parsed["fields"], *added]}, separators=(",", ":"))


def readable_as(file_type: Any, table_type: Any) -> bool:
    """Return whether Spark and delta-rs can both read a file's column of `file_type` as the table's `table_type`."""
    if isinstance(file_type, str) and isinstance(table_type, str):
        return file_type == table_type or _is_narrower(file_type, table_type)
    if isinstance(file_type, Mapping) and isinstance(table_type, Mapping):
        return _nested_readable_as(file_type, table_type)
    return False


def type_text(type_: Any) -> str:
    """Return a type of a schema's JSON in the notation of Spark SQL."""
    if isinstance(type_, str):
        return {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}.get(type_, type_)
    if type_["type"] == "struct":
        return "struct<" + ",".join(f"{f['name']}:{type_text(f['type'])}" for f in type_["fields"]) + ">"
    if type_["type"] == "array":
        return f"array<{type_text(type_['elementType'])}>"
    return f"map<{type_text(type_['keyType'])},{type_text(type_['valueType'])}>"


def sql_type(type_: Any) -> str:
    """Return a type of a schema's JSON in a notation that Spark SQL can parse, whatever its fields' names are."""
    if isinstance(type_, str):
        return type_text(type_)
    if type_["type"] == "struct":
        return "struct<" + ",".join(f"{quote_name(f['name'])}:{sql_type(f['type'])}" for f in type_["fields"]) + ">"
    if type_["type"] == "array":
        return f"array<{sql_type(type_['elementType'])}>"
    return f"map<{sql_type(type_['keyType'])},{sql_type(type_['valueType'])}>"


def find_name_clashes(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of names that Spark treats as the same name, since it ignores case."""
    seen: dict[str, str] = {}
    found = []
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other is not name or names.count(name) > 1:
            found.append((other, name))
    return list(dict.fromkeys(pair for pair in found if pair[0] != pair[1] or names.count(pair[0]) > 1))


def _loosen_field(field: Mapping[str, Any]) -> dict[str, Any]:
    return {**field, "nullable": True, "metadata": {}, "type": _nullable_within(field["type"])}


def _nullable_within(type_: Any) -> Any:
    if isinstance(type_, str):
        return type_
    if type_["type"] == "struct":
        return type_ | {"fields": [_loosen_field(field) for field in type_["fields"]]}
    if type_["type"] == "array":
        return type_ | {"containsNull": True, "elementType": _nullable_within(type_["elementType"])}
    parts = {part: _nullable_within(type_[part]) for part in ("keyType", "valueType")}
    return type_ | {"valueContainsNull": True} | parts


def _is_narrower(file_type: str, table_type: str) -> bool:
    for ranks in (_INTEGER_RANKS, _FLOAT_RANKS):
        if file_type in ranks and table_type in ranks:
            return ranks[file_type] <= ranks[table_type]
    file_decimal, table_decimal = _parse_decimal(file_type), _parse_decimal(table_type)
    if file_decimal and table_decimal:
        return file_decimal[1] == table_decimal[1] and file_decimal[0] <= table_decimal[0]
    return False


def _parse_decimal(type_: str) -> tuple[int, int] | None:
    if not type_.startswith("decimal("):
        return None
    precision, scale = type_[8:-1].split(",")
    return int(precision), int(scale)


def _nested_readable_as(file_type: Mapping[str, Any], table_type: Mapping[str, Any]) -> bool:
    if file_type["type"] != table_type["type"]:
        return False
    if file_type["type"] == "struct":
        wanted = {field["name"]: field["type"] for field in table_type["fields"]}
        return all(
            field["name"] in wanted and readable_as(field["type"], wanted[field["name"]])
            for field in file_type["fields"]
        )
    parts = ("elementType",) if file_type["type"] == "array" else ("keyType", "valueType")
    return all(readable_as(file_type[part], table_type[part]) for part in parts)
