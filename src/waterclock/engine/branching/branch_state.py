"""Reads and writes the file of a branch: what it borrows from, as of which tick, and until when."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime

from waterclock.dpl.config.branches import BRANCH_FILE, is_branch_file
from waterclock.dpl.project import Project
from waterclock.engine.storage_access import reach_storage
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import entry_path, path_as_text, read_json, replace_text
from waterclock.files.object_stores import is_remote

_VERSION = 1
"""The version of the file of a branch. A file without a version was written by Waterclock before it had one."""


@dataclass(frozen=True, slots=True)
class BorrowedHead:
    """A table of the base at the time when the branch was created: its newest version, its id and its columns."""

    version: int
    identity: str
    schema: str


@dataclass(frozen=True, slots=True)
class BranchState:
    """A branch: the environment `base` that it borrows from, as of `tick`. It ends at `expires_at`.

    `codes` are the fingerprints of the tables and publishes that the base declares, `statements` their texts, and
    `heads` the tables that it has made. `sandboxed` are the publishes whose deliveries in the base are forgotten, since
    they deliver to a sandbox. `places` are the storages and ledgers of the environments that it borrows from, which
    deleting the branch never touches. A branch that is not complete was interrupted while it was created or deleted.
    """

    name: str
    base: str
    tick: datetime
    created_at: datetime
    expires_at: datetime
    codes: Mapping[str, str] = field(default_factory=dict)
    statements: Mapping[str, str] = field(default_factory=dict)
    heads: Mapping[str, BorrowedHead] = field(default_factory=dict)
    places: tuple[str, ...] = ()
    sandboxed: tuple[str, ...] = ()
    is_complete: bool = False


def read_branch_state(project: Project) -> BranchState | None:
    """Return the state of a branch that was created, complete or not; None if there is none, or its file is invalid.

    The branch's object store is registered first. Raises E225 and E609 if it cannot be, E478 for a file that a newer
    version of Waterclock wrote.
    """
    reach_storage(project)
    path = entry_path(project.storage, BRANCH_FILE)
    try:
        if not is_remote(path) and not is_branch_file(path):
            return None
        found = read_json(path)
        if found is None:
            return None
        if int(found.get("version", 0)) > _VERSION:
            raise _newer_branch_error(project, str(found["version"]))
        return BranchState(
            name=str(found["name"]),
            base=str(found["from"]),
            tick=_parse_instant(found["tick"]),
            created_at=_parse_instant(found["created_at"]),
            expires_at=_parse_instant(found["expires_at"]),
            codes={str(name): str(code) for name, code in found["codes"].items()},
            statements={str(name): str(text) for name, text in found["statements"].items()},
            heads={
                str(name): BorrowedHead(int(head["version"]), str(head["identity"]), str(head["schema"]))
                for name, head in found["heads"].items()
            },
            places=tuple(map(str, found.get("places", ()))),  # older versions recorded none
            sandboxed=tuple(map(str, found.get("sandboxed", ()))),
            is_complete=found["is_complete"] is True,
        )
    except (AttributeError, KeyError, OSError, OverflowError, RecursionError, TypeError, ValueError):
        return None


def write_branch_state(project: Project, state: BranchState) -> None:
    """Replace the file of a branch."""
    fields = {"version": _VERSION, **asdict(state)}
    fields["from"] = fields.pop("base")
    for name in ("tick", "created_at", "expires_at"):
        fields[name] = fields[name].isoformat()
    replace_text(entry_path(project.storage, BRANCH_FILE), json.dumps(fields, indent=1))


def require_branch(project: Project) -> BranchState:
    """Return the state of a branch. Raises E470 if it was not created, or not completely."""
    state = read_branch_state(project)
    if state is None or not state.is_complete:
        raise no_branch_error(project.env)
    return state


def no_branch_error(env: str, *, borrows: bool = True) -> WaterclockError:
    """Build the error for a branch that was not created, or for an environment that borrows no tables."""
    if not borrows:
        return WaterclockError(
            "E470",
            f"{env} is not a branch",
            where=f"[env.{env}]",
            why="it borrows no tables from another environment",
            fix="`waterclock branch list` shows the branches",
        )
    return WaterclockError(
        "E470",
        f"there is no branch {env}",
        where=f"[env.{env}]",
        why="it was not created, or its creation was interrupted",
        fix=f"`waterclock branch create {env}` creates it",
    )


def _newer_branch_error(project: Project, version: str) -> WaterclockError:
    return WaterclockError(
        "E478",
        f"the branch {project.env} was created by a newer version of Waterclock",
        where=path_as_text(entry_path(project.storage, BRANCH_FILE)),
        why=f"its file has version {version}, this version of Waterclock reads {_VERSION}",
        fix=f"use the newer version, or `waterclock branch delete {project.env}`, then create it again",
    )


def _parse_instant(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(text)
    return found
