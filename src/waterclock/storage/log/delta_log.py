"""Reads a table's Delta log as JSON files: no Spark, no delta-rs, and almost no listings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from waterclock.errors import WaterclockError
from waterclock.files.filesystem import FileInfo, entry_path, file_exists, files_below, names_in, read_bytes, stat_file
from waterclock.files.object_stores import is_remote
from waterclock.flow.enums import Kind
from waterclock.json_depth import MOST_LEVELS, require_depth
from waterclock.storage.log.identity import RECREATED, ClaimKilledError, Identity, app_id, identity_in

_NONE = -1
_MAX_BYTES = 1 << 30  # of a commit: one of a million files
_BATCH_KINDS = frozenset({Kind.COLLECT.value, Kind.TRANSFORM.value})
_CHECKPOINT = re.compile(r".*\.checkpoint.*\.parquet")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a claim: 'data' or 'killed', whichever was committed first, or 'none' if neither is committed."""

    kind: str
    version: int
    identity: Identity | None


@dataclass(frozen=True, slots=True)
class ForeignCommit:
    """A commit by another program that changed data (docs/decisions/foreign-commits-stop-a-table.md)."""

    version: int
    operation: str
    at: datetime
    by: str


def table_exists(folder: str) -> bool:
    """Return whether the folder contains a Delta table."""
    return file_exists(commit_file(folder, 0)) or find_checkpoint_version(folder) > _NONE


def head(folder: str, *, after_version: int = _NONE) -> int:
    """Return the newest version, or -1. Cost: one look-up per commit after `after_version` or the last checkpoint."""
    version = max(after_version, find_checkpoint_version(folder))
    while file_exists(commit_file(folder, version + 1)):
        version += 1
    return version


def outcome(folder: str, claim: int, *, after_version: int) -> Outcome:
    """Return the outcome of a claim: search the commits after `after_version`, oldest first.

    Raises E621 if commits after `after_version` have been removed from the log, so that the outcome is unknown.
    """
    sought = f'"{app_id(claim)}"'.encode()
    for version, text in _commits(folder, after_version, claim):
        if sought in text:
            found = _find_claim_identity(_actions(folder, version, text), claim)
            if found is not None:
                return Outcome(found.outcome, version, found)
    return Outcome("none", _NONE, None)


def find_claim(folder: str, claim: int, *, newest: int) -> Outcome:
    """Return the outcome of a claim: search the commits from version `newest` back. 'none' if no file contains it."""
    sought = f'"{app_id(claim)}"'.encode()
    for version in range(newest, _NONE, -1):
        try:
            text = _read_commit(commit_file(folder, version))
        except FileNotFoundError:
            break
        if sought in text and (found := _find_claim_identity(_actions(folder, version, text), claim)) is not None:
            return Outcome(found.outcome, version, found)
    return Outcome("none", _NONE, None)


def find_commit(folder: str, claim: int) -> int | None:
    """Return the version of a claim's commit, or None. Raises ClaimKilledError if the claim was killed."""
    found = find_claim(folder, claim, newest=head(folder))
    if found.kind == "killed":
        raise ClaimKilledError(claim, where=folder)
    return None if found.kind == "none" else found.version


def foreign_commits(folder: str, *, after_version: int, project: str) -> list[ForeignCommit]:
    """List the commits after `after_version` that changed data and are not this project's. OPTIMIZE changes no data."""
    found = []
    for version, text in _commits(folder, after_version, None):
        actions = _actions(folder, version, text)
        info = info_of(actions)
        identity = identity_in(info)
        if (identity is None or identity.project != project) and any(map(_changes_data, actions)):
            at = time_of(info)
            by = str(info.get("userName") or info.get("engineInfo") or "unknown")
            found.append(ForeignCommit(version, str(info.get("operation", "unknown")), at, by))
    return found


def iterate_commits(folder: str, version: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Yield the commits after a version with their actions, up to the first missing file. Raises E643 if damaged."""
    while True:
        version += 1
        try:
            text = _read_commit(commit_file(folder, version))
        except FileNotFoundError:
            return
        yield version, _actions(folder, version, text)


def read_claims(folder: str, version: int, *, project: str) -> frozenset[int]:
    """Return the claims under which a project's batches committed after a version, as far as the log can be read."""
    found: set[int] = set()
    with suppress(WaterclockError):
        for _, actions in iterate_commits(folder, version):
            identity = identity_in(info_of(actions))
            if identity is not None and identity.project == project and identity.kind in _BATCH_KINDS:
                found.add(identity.claim)
    return frozenset(found)


def last_version_with_same_rows(
    folder: str, version: int, unknown_claims: Callable[[frozenset[int]], Collection[int]] | None = None
) -> int:
    """Return the newest version that has the same rows as `version`.

    Later commits may only have moved rows, as OPTIMIZE does. Commits of claims without rows are among them, except
    those of claims that `unknown_claims` returns: no version from the first of these on is returned.
    """
    try:
        for number, text in _commits(folder, version, None):
            actions = _actions(folder, number, text)
            identity = identity_in(info_of(actions))
            claims = frozenset({identity.claim} if identity is not None and identity.claim else ())
            if any(map(_changes_data, actions)) or (unknown_claims is not None and claims and unknown_claims(claims)):
                return number - 1
            version = number
    except WaterclockError:
        return version  # later commits were cleaned from the log
    return version


def _commits(folder: str, after_version: int, claim: int | None) -> Iterator[tuple[int, bytes]]:
    version = after_version + 1
    while True:
        try:
            yield version, _read_commit(commit_file(folder, version))
        except FileNotFoundError:
            if find_checkpoint_version(folder) < version:
                return
            if not file_exists(commit_file(folder, version)):  # it may have been written since
                raise _expired_log_error(folder, version, claim) from None
            continue
        version += 1


def _find_claim_identity(actions: list[dict[str, Any]], claim: int) -> Identity | None:
    if not any(action.get("txn", {}).get("appId") == app_id(claim) for action in actions):
        return None
    return identity_in(info_of(actions)) or Identity.unknown(claim)


def actions_of(path: Path) -> list[dict[str, Any]]:
    """Return the actions of a commit's file. Raises E643 if it is incomplete or damaged."""
    return _parse_commit(path, _read_commit(path))


def _read_commit(path: Path | str) -> bytes:
    return read_bytes(path, _MAX_BYTES)


def _deep_log_error(path: Path) -> WaterclockError:
    why = f"{path.name} is nested deeper than {MOST_LEVELS:,} levels"
    return damaged_log(str(path.parent.parent), str(path), why)


def damaged_log(folder: str, where: str, why: str | None, *, name: str | None = None) -> WaterclockError:
    """Return the error for a Delta log that cannot be read. `name` is the table's, if its folder has another one."""
    return WaterclockError(
        "E643",
        "the table's Delta log is damaged",
        where=where,
        why=why,
        fix=f"`waterclock rebuild {name or table_of(folder)}` makes the table again from its stage, with a new log",
    )


def table_of(folder: str) -> str:
    """Return the name of the table in a folder."""
    return ".".join(entry_path(folder).parts[-2:])


def _actions(folder: str, version: int, text: bytes) -> list[dict[str, Any]]:
    return _parse_commit(commit_file(folder, version), text)


def _parse_commit(path: Path, text: bytes) -> list[dict[str, Any]]:
    """Parse each line of a commit. Raises E643 if one is damaged, or nested deeper than Spark can read."""
    actions = []
    try:
        for line in filter(bytes.strip, text.splitlines()):
            require_depth(line.decode("latin-1"))  # each byte as one character: brackets and quotes are ASCII
            actions.append(json.loads(line))
    except RecursionError as error:
        raise _deep_log_error(path) from error
    except ValueError as error:
        raise damaged_log(str(path.parent.parent), str(path), f"the commit is not JSON: {error}") from error
    if not actions:
        raise damaged_log(str(path.parent.parent), str(path), "the commit is empty")
    if not all(isinstance(each, dict) and all(isinstance(part, dict) for part in each.values()) for each in actions):
        raise damaged_log(str(path.parent.parent), str(path), "an action of the commit is not a JSON object")
    return actions


def info_of(actions: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a commit's `commitInfo`, or an empty dict."""
    return next((action["commitInfo"] for action in actions if "commitInfo" in action), {})


def time_of(info: Mapping[str, Any]) -> datetime:
    """Return the time in a `commitInfo`, or 1970 if it has no valid time."""
    try:
        return datetime.fromtimestamp(info["timestamp"] / 1000, tz=UTC)
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, tz=UTC)


def _changes_data(action: dict[str, Any]) -> bool:
    return any(bool(action.get(kind, {}).get("dataChange")) for kind in ("add", "remove"))


def commit_file(folder: str, version: int) -> Path:
    """Return the path of a commit's file."""
    return entry_path(folder, "_delta_log", f"{version:020d}.json")


def commit_identity(folder: str, version: int) -> FileInfo | None:
    """Return file metadata that distinguishes a commit from one of the same number in a rebuilt log, or None."""
    try:
        return stat_file(commit_file(folder, version))
    except FileNotFoundError:
        return None


def require_commits(folder: str, newest: int) -> None:
    """Raise E643, naming the file, if a commit since the checkpoint is an empty file, as after a power failure.

    Delta's readers would treat it as a commit that changes nothing. In an object store a file is complete or absent, so
    this is not checked there. Cost: some microseconds a commit.
    """
    if is_remote(folder):
        return
    for version in range(find_checkpoint_version(folder) + 1, newest + 1):
        path = commit_file(folder, version)
        found = commit_identity(folder, version)
        if found is not None and not found.size:
            raise damaged_log(folder, str(path), f"{path.name} is empty")


def require_shallow_commits(folder: str, version: int | None = None) -> None:
    """Raise E643, naming the file, if delta-rs could not safely read a commit because its JSON is nested too deep.

    The error text of delta-rs for such a commit overflows the stack, which ends the process. The commits since the last
    checkpoint before `version`, or before the newest version, are checked. Cost: a listing, and for each of them a stat
    on this machine, and one read in each process.
    """
    log = entry_path(folder, "_delta_log")
    found = {each.path: each for each in files_below(log)} if is_remote(folder) else dict.fromkeys(names_in(log, ""))
    checkpoints = {int(name[:20]) for name in found if _CHECKPOINT.fullmatch(name) and name[:20].isdecimal()}
    commits = {int(name[:20]) for name in found if re.fullmatch(r"\d{20}\.json", name)}
    newest = max(commits, default=_NONE) if version is None else version
    oldest = max((each for each in checkpoints if each <= newest), default=_NONE)
    for number in sorted(each for each in commits if oldest < each <= newest):
        path = commit_file(folder, number)
        with suppress(FileNotFoundError):  # cleaned up since
            _require_shallow_commit(str(path), found[path.name] or _local_identity(path))


def _local_identity(path: Path) -> tuple[int, ...]:
    """Return metadata that changes with the content of a file, even if its modification time is set back."""
    stat = path.stat()
    return stat.st_dev, stat.st_ino, stat.st_ctime_ns, stat.st_size


@lru_cache(maxsize=1 << 14)
def _require_shallow_commit(path: str, identity: object) -> None:
    """Raise E643 if a commit's JSON is nested too deep. `identity` is only a part of the cache key."""
    del identity
    try:
        # as a whole: delta-rs continues a value in the next line
        require_depth(_read_commit(path).decode("latin-1"))
    except RecursionError as error:
        raise _deep_log_error(entry_path(path)) from error


def is_older_than(folder: str, version: int) -> bool:
    """Return whether a log ends before a committed version: an older copy was restored. Cost: one or two look-ups."""
    return (
        version > _NONE and not file_exists(commit_file(folder, version)) and find_checkpoint_version(folder) < version
    )


def is_recreated(folder: str, version: int) -> bool:
    """Return whether a version is an empty placeholder, written when a lost log was recreated."""
    try:
        identity = identity_in(info_of(actions_of(commit_file(folder, version))))
    except FileNotFoundError:
        return False
    return identity is not None and identity.kind == RECREATED


def is_unfinished(folder: str, version: int) -> bool:
    """Return whether the newest committed version is only a placeholder for one that was lost.

    Then the log was recreated, and the process stopped before the table's rows were restored. Cost: a read of one
    commit.
    """
    return find_log_fault(folder, version) == "unfinished"


def find_log_fault(folder: str, version: int) -> Literal["older", "unfinished"] | None:
    """Return what `is_older_than` or `is_unfinished` finds, or None. Cost: a read of one commit."""
    if version < 0:
        return None
    try:
        has_word = RECREATED.encode() in _read_commit(commit_file(folder, version))
        return "unfinished" if has_word and is_recreated(folder, version) else None
    except FileNotFoundError:
        return "older" if find_checkpoint_version(folder) < version else None  # else it was cleaned up
    except WaterclockError:
        return None  # damaged: its reader reports that


def find_checkpoint_version(folder: str) -> int:
    """Return the version of the newest checkpoint, or -1. Cost: a read of a small file."""
    log = entry_path(folder, "_delta_log")
    try:
        return int(json.loads(read_bytes(log / "_last_checkpoint"))["version"])
    except FileNotFoundError:
        return _NONE if file_exists(commit_file(folder, 0)) else _newest_checkpoint(log)
    except (OSError, ValueError, KeyError, TypeError):
        return _newest_checkpoint(log)


def _newest_checkpoint(log: Path) -> int:
    """Return the version of the newest checkpoint file, if `_last_checkpoint` is missing or damaged."""
    names = (name.partition(".")[0] for name in names_in(log, "") if _CHECKPOINT.fullmatch(name))
    return max((int(name) for name in names if name.isdecimal()), default=_NONE)


def _expired_log_error(folder: str, version: int, claim: int | None) -> WaterclockError:
    message = "commits of the table are gone" if claim is None else f"the outcome of claim {claim} cannot be determined"
    return WaterclockError(
        "E621",
        message,
        where=folder,
        why=f"version {version} was removed from the Delta log, but newer versions exist",
        fix="`waterclock ledger rebuild` makes the ledger again from its last export and the commits since",
    )
