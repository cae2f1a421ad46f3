"""Checks the files of a slice against the types of their table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from waterclock.errors import WaterclockError
from waterclock.storage.schema_types import fields_of, readable_as, type_text
from waterclock.storage.slices.manifest import Manifest


def check_files(manifest: Manifest, table_schema: str) -> None:
    """Check the slice's Parquet files against the table's schema. Raises E616 for nulls, E617 for names or types."""
    table = fields_of(table_schema)
    broken = list(_list_type_mismatches(manifest, table))
    if broken:
        raise WaterclockError(
            "E617",
            f"the slice does not fit {manifest.table}: {broken[0]}",
            where=manifest.slice_path,
            why="; ".join(broken[1:]) or "a commit of it would break later reads of the table",
            fix="give the columns the table's names and types",
        )
    nulls = _forbidden_nulls(manifest, table)
    if nulls:
        raise WaterclockError(
            "E616",
            f"{manifest.table} has NULL in {', '.join(nulls)}",
            where=manifest.slice_path,
            why="the table declares NOT NULL",
            fix="fix the source, or remove NOT NULL",
        )


def _list_type_mismatches(manifest: Manifest, table: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    by_lower = {name.lower(): name for name in table}
    types = {name: type_ for file in manifest.files for name, type_ in file.types.items()}
    for name, type_ in types.items():
        if name not in table:
            other = by_lower.get(name.lower())
            yield f"column {name} is {'written ' + other if other else 'unknown'} in the table"
        elif not readable_as(type_, table[name]["type"]):
            yield f"column {name} is {type_text(type_)} in the slice and {type_text(table[name]['type'])} in the table"
    if any(file.types != types for file in manifest.files):
        yield "its files differ in their columns"


def _forbidden_nulls(manifest: Manifest, table: Mapping[str, Mapping[str, Any]]) -> list[str]:
    never = [name for name, field in table.items() if not field["nullable"]]
    return [name for name in never if any(file.nulls.get(name) or name not in file.types for file in manifest.files)]
