"""Describes the schema versions of a table and of its source, and which of them a batch had."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from waterclock.batches.schemas import SchemaVersion, Side, changes_of
from waterclock.flow.schema_changes import SchemaChange
from waterclock.operations.formatting import count_words

OF_SIDE = {Side.SOURCE: "its source's columns", Side.TABLE: "its own columns"}


def list_schema_changes(
    versions: Sequence[SchemaVersion], side: Side
) -> list[tuple[SchemaVersion, SchemaChange | None]]:
    """Return the schema versions of the source or of the table, oldest first, each with its changes."""
    return changes_of([each for each in versions if each.side is side])


def change_words(version: SchemaVersion, change: SchemaChange | None) -> str:
    """Return the changes of a schema version in words, as in `the first: 3 columns`."""
    if change is None:
        return f"the first: {count_words(len(version.columns), 'column')}"
    return "; ".join(change.words()) or "as the one before"


def batch_versions(versions: Iterable[SchemaVersion], claim: int) -> dict[Side, SchemaVersion]:
    """Map source and table to their schema versions as of a claim: the newest that no later claim introduced."""
    known: dict[Side, SchemaVersion] = {}
    for each in sorted(versions, key=lambda one: one.number):
        if each.claim <= claim:
            known[each.side] = each
    return known


def batch_words(versions: Sequence[SchemaVersion], claim: int) -> list[str]:
    """Describe the versions of a batch, and the changes of those that it introduced."""
    lines = []
    for side, version in sorted(batch_versions(versions, claim).items(), reverse=True):
        change = {each.number: change for each, change in list_schema_changes(versions, side)}[version.number]
        changes = f": {change_words(version, change)}" if version.claim == claim else ""
        lines.append(f"version {version.number} of {OF_SIDE[side]}{changes}")
    return lines


def versions_json(versions: Sequence[SchemaVersion]) -> list[dict[str, Any]]:
    """Return all schema versions for JSON: those of the source first, then those of the table, oldest first."""
    from waterclock.json_models.tables import ColumnsVersion

    return [
        ColumnsVersion.build(
            version,
            of=str(side),
            version=version.number,
            new=change.new if change else {},
            gone=change.gone if change else {},
            changed=change.changed if change else {},
        ).to_json()
        for side in Side
        for version, change in list_schema_changes(versions, side)
    ]
