"""What does a table's Delta log say? Its JSON files, read as files: no listing, no Spark, no delta-rs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from waterclock.errors import WaterclockError
from waterclock.storage.identity import Identity, app_id, identity_in
from waterclock.storage.resolving import CommitRecord
from waterclock.timelabel import instant_of

_NONE = -1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a claim: 'data' or 'killed', whichever came first, or 'none' yet."""

    kind: str
    version: int
    identity: Identity | None


@dataclass(frozen=True, slots=True)
class ForeignCommit:
    """A commit that changed a table's data and is not ours (DESIGN-NOTES F28)."""

    version: int
    operation: str
    at: datetime
    by: str


def table_exists(folder: str) -> bool:
    """Tell whether the folder holds a Delta table."""
    return _file(folder, 0).exists() or _checkpointed(folder) > _NONE


def head(folder: str, *, after_version: int = _NONE) -> int:
    """Give the newest version, -1 without one. Cost: a look-up per commit after `after_version` or the checkpoint."""
    version = max(after_version, _checkpointed(folder))
    while _file(folder, version + 1).exists():
        version += 1
    return version


def outcome(folder: str, claim: int, *, after_version: int) -> Outcome:
    """Say which commit after `after_version` bears the claim's id, walking forward (DESIGN-NOTES F34).

    Raises  E621 where commits after `after_version` have been cleaned away, so that it cannot be known
    """
    sought = f'"{app_id(claim)}"'.encode()
    for version, text in _commits(folder, after_version, claim):
        if sought in text:
            found = _claimed(text, claim)
            if found is not None:
                return Outcome(found.outcome, version, found)
    return Outcome("none", _NONE, None)


def find_claim(folder: str, claim: int, *, newest: int) -> Outcome:
    """Say which commit bears the claim's id, walking back from version `newest`; 'none' where no file tells."""
    sought = f'"{app_id(claim)}"'.encode()
    for version in range(newest, _NONE, -1):
        try:
            text = _file(folder, version).read_bytes()
        except FileNotFoundError:
            break
        if sought in text and (found := _claimed(text, claim)) is not None:
            return Outcome(found.outcome, version, found)
    return Outcome("none", _NONE, None)


def foreign_commits(folder: str, *, after_version: int, project: str) -> list[ForeignCommit]:
    """List the commits after `after_version` that changed data and are not this project's.

    OPTIMIZE, VACUUM and changes of metadata alone are fine.
    """
    found = []
    for version, text in _commits(folder, after_version, None):
        actions = actions_of(text)
        info = info_of(actions)
        identity = identity_in(info)
        if (identity is None or identity.project != project) and any(map(_changes_data, actions)):
            at = datetime.fromtimestamp(info.get("timestamp", 0) / 1000, tz=UTC)
            by = str(info.get("userName") or info.get("engineInfo") or "unknown")
            found.append(ForeignCommit(version, str(info.get("operation", "unknown")), at, by))
    return found


def records_in_log(folder: str, *, project: str) -> list[CommitRecord]:
    """List this project's data commits, oldest first. Cost: 0.1 ms a commit; the ledger gives the same at less.

    Raises  E621 where the log's first commits have been cleaned away: only the ledger knows them then
    """
    found = []
    for version, text in _commits(folder, _NONE, None):
        info = info_of(actions_of(text)) if b'"userMetadata"' in text else {}
        identity = identity_in(info)
        if identity is None or identity.project != project or not identity.slices:
            continue
        slices = {instant_of(label): str(path) for label, path in zip(identity.labels, identity.slices, strict=True)}
        at = datetime.fromtimestamp(info.get("timestamp", 0) / 1000, tz=UTC)
        stands = None if identity.stands_from is None else datetime.fromisoformat(identity.stands_from)
        found.append(CommitRecord(version, at, slices, stands))
    return found


def last_of_same_rows(folder: str, version: int) -> int:
    """Give the newest version up to which no commit after `version` changed data: OPTIMIZE may have moved its rows."""
    try:
        for number, text in _commits(folder, version, None):
            if any(map(_changes_data, actions_of(text))):
                return number - 1
            version = number
    except WaterclockError:
        return version  # what came after was cleaned from the log
    return version


def _commits(folder: str, after_version: int, claim: int | None) -> Iterator[tuple[int, bytes]]:
    version = after_version + 1
    while True:
        try:
            yield version, _file(folder, version).read_bytes()
        except FileNotFoundError:
            if _checkpointed(folder) < version:
                return
            if not _file(folder, version).exists():  # it may have been written since
                raise _expired(folder, version, claim) from None
            continue
        version += 1


def _claimed(text: bytes, claim: int) -> Identity | None:
    actions = actions_of(text)
    if not any(action.get("txn", {}).get("appId") == app_id(claim) for action in actions):
        return None
    return identity_in(info_of(actions)) or Identity.unknown(claim)


def actions_of(text: bytes) -> list[dict[str, Any]]:
    """Read the actions of a commit's file."""
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def info_of(actions: list[dict[str, Any]]) -> dict[str, Any]:
    """Give what a commit says of itself."""
    return next((action["commitInfo"] for action in actions if "commitInfo" in action), {})


def _changes_data(action: dict[str, Any]) -> bool:
    return any(bool(action.get(kind, {}).get("dataChange")) for kind in ("add", "remove"))


def _file(folder: str, version: int) -> Path:
    return Path(folder, "_delta_log", f"{version:020d}.json")


def _checkpointed(folder: str) -> int:
    try:
        return int(json.loads(Path(folder, "_delta_log", "_last_checkpoint").read_bytes())["version"])
    except (OSError, ValueError, KeyError):
        return _NONE


def _expired(folder: str, version: int, claim: int | None) -> WaterclockError:
    what = "commits of the table are gone" if claim is None else f"what became of claim {claim} cannot be known"
    return WaterclockError(
        "E621",
        what,
        where=folder,
        why=f"version {version} was cleaned from the Delta log, though newer ones are there",
        fix="rebuild the ledger from its last export and the commits since",
    )
