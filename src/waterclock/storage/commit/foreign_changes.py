"""Finds changes of a table by other programs. A batch never commits on top of such a change.

See docs/decisions/foreign-commits-stop-a-table.md.
"""

from __future__ import annotations

from waterclock.errors import WaterclockError
from waterclock.storage.log.delta_log import foreign_commits
from waterclock.storage.log.identity import Identity
from waterclock.storage.log.undone_changes import is_undone


def refuse_foreign_since(folder: str, identity: Identity) -> None:
    """Raise E751 if another writer changed the table after the version that a batch knew."""
    if identity.known_version is None:
        return
    error = foreign_change(folder, identity.table, project=identity.project, after_version=identity.known_version)
    if error is not None:
        raise error


def foreign_change(folder: str, name: str, *, project: str, after_version: int) -> WaterclockError | None:
    """Return error E751 if another writer changed a table's data after a version.

    Return None if there is no such change, or if it was undone.
    """
    strangers = foreign_commits(folder, after_version=after_version, project=project)
    if not strangers:
        return None
    first, last = strangers[0], strangers[-1]
    if is_undone(folder, before=first.version - 1, after=last.version):
        return None
    return WaterclockError(
        "E751",
        f"another writer changed {name}: {first.operation} at version {first.version}",
        where=f"{folder} version {first.version}",
        why=f"by {first.by} at {first.at:%Y-%m-%d %H:%M:%S} UTC; no batch of this project wrote it",
        fix=f"undo it: RESTORE TABLE … TO VERSION AS OF {first.version - 1}; or make the table again from its slices: "
        f"`waterclock rebuild {name}`",
    )
