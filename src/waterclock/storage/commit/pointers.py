"""Makes a sealed slice part of its table: one commit of pointers to it, by delta-rs.

Each rule M1 to M6 (docs/decisions/commits-are-pointers.md) was found by breaking it: rows were lost, doubled or
hidden without an error.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction

from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.storage.commit.change import Change, change_for, change_of_state, may_rewrite
from waterclock.storage.commit.creation import PROJECT, refuse_stranger
from waterclock.storage.log.delta_log import find_claim, head
from waterclock.storage.log.identity import Identity, Killed, app_id
from waterclock.storage.log.live_files import LiveFile, live_files
from waterclock.storage.log.open_tables import opened
from waterclock.storage.slices.manifest import DataFile, Manifest
from waterclock.storage.slices.statistics import read_files
from waterclock.storage.slices.type_checks import check_files
from waterclock.storage.types import schema_text, widened
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from waterclock.storage.types import Schema as AnySchema

_MOST_LOOKS = 200


def commit_slices(
    folder: str,
    identity: Identity,
    manifests: Sequence[Manifest],
    *,
    mode: str,
    schema: AnySchema | None = None,
) -> int:
    """Commit sealed slices, each in place of its label's older one (or of all there is: mode 'replace').

    Gives the version that bears the claim's id, also where it was there already. `schema` is the table's from now on;
    without one the table takes the slices' new columns. Cost: 10 ms at 100 commits, 20 ms at 1,000.

    Raises  Killed       where the claim was killed first
            NeedsSpark   where delta-rs must not write; nothing was committed then
            E601, E616, E617 where the table is another's, or the slices do not fit it
            E622         where others commit so often that none of our looks was still true
    """
    new = [schema_text(schema)] if schema is not None else [manifest.schema for manifest in manifests]
    for look in range(_MOST_LOOKS):
        with opened(folder) as table:
            seen = _seen(table, folder, identity.claim)
            if seen is not None:
                return seen
            refuse_stranger(table, folder, identity.project)
            wide = _schema_with(table.schema().to_json(), new)
            for manifest in manifests:
                check_files(manifest, wide)
            change = change_for(table, folder, manifests, mode)
            if change.mode == "append" and wide != table.schema().to_json():
                _add_columns(table, wide, identity)
                continue
            fault("looked")
            version = _try_commit(table, change, wide, identity)
        if version is not None:
            return version
        time.sleep(random.uniform(0, 0.002 * min(look + 1, 25)))  # noqa: S311 - only spreads the next looks
    raise _too_busy(folder)


@dataclass(frozen=True, slots=True)
class MergeLook:
    """What a MERGE finds: the version under its claim's id if there is one (`done`), else the table as it is.

    `base` is the version looked at, `schema` the table's. `may_rewrite`: delta-rs may commit a whole new state.
    """

    done: int | None
    base: int
    schema: str
    live: tuple[LiveFile, ...] = ()
    may_rewrite: bool = False


def prepare_merge(folder: str, identity: Identity, manifest: Manifest) -> MergeLook:
    """Look at the table before a slice is merged into it, and widen it by the slice's new columns.

    Raises  as `commit_slices`
    """
    for _ in range(_MOST_LOOKS):
        with opened(folder) as table:
            known = table.schema().to_json()
            seen = _seen(table, folder, identity.claim)
            if seen is not None:
                return MergeLook(seen, table.version(), known)
            refuse_stranger(table, folder, identity.project)
            wide = _schema_with(known, [manifest.schema])
            check_files(manifest, wide)
            if wide == known:
                live = tuple(live_files(table))
                return MergeLook(None, table.version(), known, live, may_rewrite(table, folder))
            _add_columns(table, wide, identity)
    raise _too_busy(folder)


def commit_state(
    folder: str, identity: Identity, path: str, *, base: int, instead_of: Sequence[LiveFile] | None = None
) -> int | None:
    """Commit the files written below `path` in place of those live at version `base`, of all unless they are named.

    Gives the version, also where the claim was committed before; None where another commit came after `base`: the
    files were made from what is no longer so, and are removed.

    Raises  Killed where the claim was killed first
    """
    files = read_files(Path(folder), path)
    fault("rewritten")
    version = _try_state(folder, identity, files, base, instead_of)
    if version is None:
        shutil.rmtree(Path(folder, path))
    return version


def _try_state(
    folder: str, identity: Identity, files: Sequence[DataFile], base: int, instead_of: Sequence[LiveFile] | None
) -> int | None:
    with opened(folder) as table:
        seen = _seen(table, folder, identity.claim)
        if seen is not None:
            return seen
        if table.version() != base:
            return None
        change = change_of_state(files, instead_of)
        fault("looked")
        return _try_commit(table, change, table.schema().to_json(), identity)


def kill(folder: str, claim: int, *, project: str | None = None) -> None:
    """Commit nothing under the claim's id, so that its data can never come; too late, it changes nothing.

    `project` is the owner's, where the caller knows it. Cost: as a commit.
    """
    for look in range(_MOST_LOOKS):
        with opened(folder) as table:
            if table.transaction_version(app_id(claim)) is not None:
                return
            owner = project or table.metadata().configuration.get(PROJECT) or ""
            identity = Identity.of_kill(claim, project=owner)
            fault("looked")
            if _try_commit(table, Change(), table.schema().to_json(), identity) is not None:
                return
        time.sleep(random.uniform(0, 0.002 * min(look + 1, 25)))  # noqa: S311
    raise _too_busy(folder)


def commit_nothing(folder: str, identity: Identity) -> int:
    """Commit the claim's id and identity alone: its batch changes nothing. As `commit_slices` otherwise."""
    return commit_slices(folder, identity, (), mode="append")


def commit_older(folder: str, identity: Identity, manifest: Manifest) -> int:
    """Commit a REPLACE state older than the head: the claim's id and identity, which point at its sealed slice.

    The table shows what it did; only columns that are new are added. As `commit_slices` otherwise.
    """
    done = prepare_merge(folder, identity, manifest).done
    return commit_nothing(folder, identity) if done is None else done


def _try_commit(table: DeltaTable, change: Change, schema: str, identity: Identity) -> int | None:
    """Commit on exactly the version that `table` shows; None where another commit came first (M1)."""
    shown = table.version()
    actions: list[AddAction | RemoveAction] = [*change.removes, *change.adds]
    partitioned = table.metadata().partition_columns
    filters: Any = [(TIMELABEL, "in", change.labels)] if change.labels and change.mode == "overwrite" else None
    try:
        table.create_write_transaction(
            actions,
            change.mode,
            Schema.from_json(schema),
            partition_by=partitioned or None,
            partition_filters=filters,
            commit_properties=_properties(identity),
        )
    except CommitFailedError:
        table.update_incremental()
        if table.version() == shown:
            raise
        return None
    return shown + 1


def _properties(identity: Identity) -> CommitProperties:
    now = int(time.time() * 1000)
    return CommitProperties(
        custom_metadata={"userMetadata": identity.to_json()},
        max_commit_retries=0,  # delta-rs's own retries accept what the look no longer holds for (M1)
        app_transactions=[Transaction(app_id(identity.claim), 1, now)],  # without a time Spark does not see it (M2)
    )


def _seen(table: DeltaTable, folder: str, claim: int) -> int | None:
    """Return the version that bears the claim's id; delta-rs would not refuse it a second time."""
    if table.transaction_version(app_id(claim)) is None:
        return None
    found = find_claim(folder, claim, newest=head(folder))
    if found.kind == "killed":
        raise Killed(claim, where=folder)
    if found.kind == "none":
        raise WaterclockError(
            "E621",
            f"claim {claim} was used, and what it did is no longer in the log",
            where=folder,
            fix="take a new claim for the batch",
        )
    return found.version


def _schema_with(table: str, new: Sequence[str]) -> str:
    for schema in new:
        table = widened(table, schema) or table
    return table


def _add_columns(table: DeltaTable, wide: str, identity: Identity) -> None:
    """Widen an unpartitioned table that is appended to: only an overwrite can do so with its data."""
    known = {field.name for field in table.schema().fields}
    added = [field for field in Schema.from_json(wide).fields if field.name not in known]
    metadata = {"userMetadata": Identity(identity.project, identity.table, "widen", (), "", 0, "").to_json()}
    try:
        table.alter.add_columns(
            added, commit_properties=CommitProperties(custom_metadata=metadata, max_commit_retries=0)
        )
    except CommitFailedError:
        table.update_incremental()


def _too_busy(folder: str) -> WaterclockError:
    return WaterclockError(
        "E622",
        f"{_MOST_LOOKS} commits of others came between looking and committing",
        where=folder,
        fix="try again",
        transient=True,
    )
