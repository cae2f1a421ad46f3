"""The list of schema versions of a table and of its source: the changes and the first label of each."""

from __future__ import annotations

from waterclock.batches.schemas import Side
from waterclock.flow.declarations import Table
from waterclock.operations.formatting import local_label, page_time
from waterclock.operations.project_opening import OpenedProject
from waterclock.operations.schema_versions import OF_SIDE, change_words, list_schema_changes, versions_json
from waterclock.timelabel.label import label_of
from waterclock.ui.page_query import Content, batch_address

_MOST = 50


def list_versions(at: OpenedProject, table: Table) -> Content:
    """Return the newest schema versions of the source and of the table, newest first. Cost: a query."""
    found = () if at.ledger is None else at.ledger.past.newest_schemas(table.name, _MOST + 1)
    described = {
        (side, version.number): (change_words(version, change), version)
        for side in Side
        for version, change in list_schema_changes(found, side)
    }
    oldest = {side: min((each.number for each in found if each.side is side), default=0) for side in Side}
    many = {side for side in Side if sum(1 for each in found if each.side is side) > _MOST}
    versions = []
    for each in reversed(versions_json(found)):
        side = Side(each["of"])
        if side in many and each["version"] == oldest[side]:
            continue  # only read to compute the changes of the next version
        words, version = described[side, each["version"]]
        label = label_of(version.label)
        versions.append(
            each
            | {
                "of_words": OF_SIDE[side].capitalize(),
                "words": local_label(version.label, table.cadence),
                "at_words": page_time(version.at, table.cadence.zone),
                "description": words,
                "address": batch_address(table.name, label),
            }
        )
    return {"schemas": versions, "more_schemas": bool(many)}
