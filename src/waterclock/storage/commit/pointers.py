"""Adds sealed slices to their table: one commit that refers to their existing files, without a copy of rows.

Each of the rules M1 to M6 (docs/decisions/commits-are-pointers.md) was found by breaking it: rows were lost, doubled or
hidden without an error.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltalake import Schema
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import CommitProperties

from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.files.filesystem import entry_path, remove_folder
from waterclock.storage.commit.change import build_slice_change, build_state_change, may_rewrite
from waterclock.storage.commit.creation import PROJECT, refuse_other_project
from waterclock.storage.commit.foreign_changes import refuse_foreign_since
from waterclock.storage.commit.row_order import recorded_sort_columns
from waterclock.storage.commit.write_commit import Change, try_commit
from waterclock.storage.log.delta_log import find_commit
from waterclock.storage.log.identity import Identity
from waterclock.storage.log.live_files import LiveFile
from waterclock.storage.log.open_tables import OpenTable, open_table
from waterclock.storage.schema_types import fields_of, schema_text, widen_schema
from waterclock.storage.slices.manifest import DataFile, Manifest, with_columns_of
from waterclock.storage.slices.statistics import read_files
from waterclock.storage.slices.type_checks import check_files

if TYPE_CHECKING:
    from waterclock.storage.schema_types import Schema as AnySchema

_MAX_ATTEMPTS = 200


def commit_slices(
    folder: str,
    identity: Identity,
    manifests: Sequence[Manifest],
    *,
    mode: str,
    schema: AnySchema | None = None,
) -> int:
    """Commit sealed slices to a table, each in place of its label's older slice (mode 'replace': of all files).

    Return the version that carries the claim's id, also if it was committed before. `schema` is the table's new schema;
    without one, the slices' new columns are added to the table. Cost: 10 ms at 100 commits, 20 ms at 1,000.

    Raises:
        ClaimKilledError: The claim was killed first.
        NeedsSpark: The commit cannot just refer to the slices' files; nothing was committed.
        WaterclockError: E601 if the table belongs to another project, E616 or E617 if the slices do not fit it, E622 if
            other commits came first at every attempt, E751 if another writer changed it after the version that the
            batch knew.
    """
    new = [schema_text(schema)] if schema is not None else [manifest.schema for manifest in manifests]
    for attempt in range(_MAX_ATTEMPTS):
        with open_table(folder) as table:
            committed = find_claim_version(table, identity.claim)
            if committed is not None:
                return committed
            refuse_other_project(table, identity.project)
            wide = _widen_by_all(table.schema, new)
            for manifest in manifests:
                check_files(manifest, wide)
            change = build_slice_change(table, manifests, mode)
            if wide != table.schema:
                _add_columns(table, wide, identity)
                continue
            fault("looked")
            version = _try_commit(table, change, identity)
        if version is not None:
            return version
        time.sleep(random.uniform(0, 0.002 * min(attempt + 1, 25)))  # noqa: S311 - only spreads the next attempts
    raise commit_race_error(folder)


@dataclass(frozen=True, slots=True)
class MergeStart:
    """The table as it is before a MERGE. `done` is the version that already carries the claim's id, else None.

    `base` is the version that was read, `schema` and `live` are its columns and its live files. `may_rewrite`: one
    commit may replace all files of the table. `sort_by`: the columns by which the rows of each new file are ordered.
    """

    done: int | None
    base: int
    schema: str
    live: tuple[LiveFile, ...] = ()
    may_rewrite: bool = False
    sort_by: tuple[str, ...] = ()


def prepare_merge(folder: str, identity: Identity, manifests: Sequence[Manifest]) -> MergeStart:
    """Read the table before slices are merged into it, and add their new columns to it.

    Raises the same errors as `commit_slices`.
    """
    for _ in range(_MAX_ATTEMPTS):
        with open_table(folder) as table:
            known = table.schema
            committed = find_claim_version(table, identity.claim)
            if committed is not None:
                return MergeStart(committed, table.version, known)
            refuse_other_project(table, identity.project)
            wide = _widen_by_all(known, [manifest.schema for manifest in manifests])
            for manifest in manifests:
                check_files(manifest, wide)
            if wide == known:
                live = tuple(table.files.values())
                return MergeStart(None, table.version, known, live, may_rewrite(table), recorded_sort_columns(table))
            _add_columns(table, wide, identity)
    raise commit_race_error(folder)


def add_new_columns(folder: str, identity: Identity, manifests: Sequence[Manifest]) -> None:
    """Add the slices' columns that the table does not have."""
    for _ in range(_MAX_ATTEMPTS):
        with open_table(folder) as table:
            wide = with_columns_of(table.schema, manifests)
            if wide == table.schema:
                return
            _add_columns(table, wide, identity)
    raise commit_race_error(folder)


def commit_state(
    folder: str, identity: Identity, path: str, *, base: int, instead_of: Sequence[LiveFile] | None = None
) -> int | None:
    """Commit the files below `path` in place of the files `instead_of`, or of all live files if that is None.

    The replaced files must be live in version `base`.

    Return the version, also if the claim was committed before. Return None and remove the new files if another commit
    came after `base`, because they were computed from outdated rows. Raises ClaimKilledError if the claim was killed
    first.
    """
    with open_table(folder) as table:
        indexed = recorded_sort_columns(table)
    files = read_files(entry_path(folder), path, also=indexed)
    fault("rewritten")
    version = _try_commit_state(folder, identity, files, base, instead_of)
    if version is None:
        remove_folder(entry_path(folder, path))
    return version


def _try_commit_state(
    folder: str, identity: Identity, files: Sequence[DataFile], base: int, instead_of: Sequence[LiveFile] | None
) -> int | None:
    with open_table(folder) as table:
        committed = find_claim_version(table, identity.claim)
        if committed is not None:
            return committed
        if table.version != base:
            return None
        change = build_state_change(table, files, instead_of)
        fault("looked")
        return _try_commit(table, change, identity)


def _try_commit(table: OpenTable, change: Change, identity: Identity) -> int | None:
    """Commit on exactly the version that was read. Raise E751 if another writer changed the table."""
    if identity.known_version is not None and table.version > identity.known_version:
        refuse_foreign_since(table.folder, identity)
    return try_commit(table, change, identity)


def kill_claim(folder: str, claim: int, *, project: str | None = None) -> None:
    """Kill a claim: commit its id without data, so that its data can never be committed.

    No effect if the data was committed first. `project` is the table's owner, if the caller knows it. Cost: that of a
    commit.
    """
    for attempt in range(_MAX_ATTEMPTS):
        with open_table(folder) as table:
            if table.has_claim(claim):
                return
            identity = Identity.for_kill(claim, project=project or table.configuration.get(PROJECT) or "")
            fault("looked")
            if try_commit(table, Change(), identity) is not None:
                return
        time.sleep(random.uniform(0, 0.002 * min(attempt + 1, 25)))  # noqa: S311
    raise commit_race_error(folder)


def commit_nothing(folder: str, identity: Identity) -> int:
    """Commit the claim's id and identity alone, for a batch that changes nothing.

    Otherwise the same as `commit_slices`.
    """
    return commit_slices(folder, identity, (), mode="append")


def commit_older(folder: str, identity: Identity, manifest: Manifest) -> int:
    """Commit a REPLACE state older than the table's: only the claim's id and identity, which name its sealed slice.

    The table's rows stay as they are; only new columns are added. Otherwise the same as `commit_slices`.
    """
    done = prepare_merge(folder, identity, [manifest]).done
    return commit_nothing(folder, identity) if done is None else done


def find_claim_version(table: OpenTable, claim: int) -> int | None:
    """Return the version that carries the claim's id, or None. The Delta log would accept the same id a second time.

    Raises ClaimKilledError if the claim was killed, and E621 if its commit was removed from the log.
    """
    if not table.has_claim(claim):
        return None
    version = find_commit(table.folder, claim)
    if version is None:
        raise WaterclockError(
            "E621",
            f"claim {claim} was used before, and its commit is no longer in the log",
            where=table.folder,
            fix="take a new claim for the batch",
        )
    return version


def _widen_by_all(table: str, new: Sequence[str]) -> str:
    for schema in new:
        table = widen_schema(table, schema) or table
    return table


def _add_columns(table: OpenTable, wide: str, identity: Identity) -> None:
    """Add columns to a table in a commit by delta-rs, which also adds the table features that their types require."""
    known = fields_of(table.schema)
    added = [field for field in Schema.from_json(wide).fields if field.name not in known]
    metadata = {"userMetadata": Identity(identity.project, identity.table, "widen", (), "", 0, "").to_json()}
    delta = table.delta()
    if delta.version() != table.version:
        return  # another commit came first: the caller reads the table again
    with suppress(CommitFailedError):
        delta.alter.add_columns(
            added, commit_properties=CommitProperties(custom_metadata=metadata, max_commit_retries=0)
        )


def commit_race_error(folder: str) -> WaterclockError:
    """Return the error for a commit that lost the race against other commits at every attempt."""
    return WaterclockError(
        "E622",
        f"{_MAX_ATTEMPTS} other commits came between reading the log and committing",
        where=folder,
        fix="try again",
        transient=True,
    )
