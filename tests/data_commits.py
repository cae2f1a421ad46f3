"""Reads the data commits of a table from its own log, for comparison with the ledger."""

from __future__ import annotations

from datetime import UTC, datetime

from waterclock.storage.log import delta_log
from waterclock.storage.log.content_as_of import DataCommit
from waterclock.storage.log.identity import identity_in
from waterclock.timelabel.label import instant_of


def records_in_log(folder: str, *, project: str) -> list[DataCommit]:
    """List this project's data commits, oldest first.

    Raises  E621 if the log's first commits have been cleaned up: then only the ledger knows them
    """
    found = []
    for version, text in delta_log._commits(folder, -1, None):
        info = delta_log.info_of(delta_log._actions(folder, version, text)) if b'"userMetadata"' in text else {}
        identity = identity_in(info)
        if identity is None or identity.project != project or not identity.slices:
            continue
        slices = {instant_of(label): str(path) for label, path in zip(identity.labels, identity.slices, strict=True)}
        at = datetime.fromtimestamp(info.get("timestamp", 0) / 1000, tz=UTC)
        stands = None if identity.stands_from is None else datetime.fromisoformat(identity.stands_from)
        found.append(DataCommit(version, at, slices, stands))
    return found
