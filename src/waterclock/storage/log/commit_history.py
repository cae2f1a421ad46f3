"""Lists the commits that a table's Delta log still contains, with their identities, to rebuild the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from waterclock.files.filesystem import entry_path, names_in
from waterclock.storage.log.delta_log import actions_of, info_of, time_of
from waterclock.storage.log.identity import Identity, identity_in


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit: its identity (None for other writers), its time, and whether it only rewrote files (OPTIMIZE)."""

    version: int
    at: datetime
    identity: Identity | None
    is_rewrite: bool


@dataclass(frozen=True, slots=True)
class Commits:
    """The commits after a version, oldest first; `missing` counts those that were cleaned from the log."""

    found: tuple[Commit, ...]
    missing: int


def read_new_commits(folder: str, version: int) -> Commits:
    """Read the commits after a version from the log's JSON files. Cost: one listing, 0.1 ms a commit."""
    log = entry_path(folder, "_delta_log")
    numbers = sorted(int(name[:-5]) for name in names_in(log, "") if name.endswith(".json") and name[:-5].isdecimal())
    wanted = [number for number in numbers if number > version]
    found = tuple(_commit(log / f"{number:020d}.json", number) for number in wanted)
    return Commits(found, wanted[-1] - version - len(wanted) if wanted else 0)


def _commit(path: Path, version: int) -> Commit:
    actions = actions_of(path)
    info = info_of(actions)
    files = [action[kind] for action in actions for kind in ("add", "remove") if kind in action]
    return Commit(
        version=version,
        at=time_of(info),
        identity=identity_in(info),
        is_rewrite=bool(files) and not any(file.get("dataChange") for file in files),
    )
