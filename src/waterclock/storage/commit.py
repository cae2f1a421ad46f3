"""How does a sealed slice become part of its table? One commit of pointers to it, by delta-rs (DESIGN-NOTES 3).

Every rule M1 to M6 there was found by breaking it: rows were lost, doubled or hidden without an error.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction

from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.storage.identity import Identity, Killed, app_id
from waterclock.storage.live import LiveFile, files_with_deletion_vectors, is_plain, live_files, may_hold
from waterclock.storage.log import find_claim, head, table_exists
from waterclock.storage.manifest import DataFile, Manifest
from waterclock.storage.opened import opened
from waterclock.storage.types import TIMELABEL, check_files, schema_text, widened
from waterclock.timelabel import label_of

if TYPE_CHECKING:
    from waterclock.storage.types import Schema as AnySchema

_PROJECT = "waterclock.project"
_MOST_LOOKS = 200
_DATA_CHANGE = True
_PROPERTIES = {
    "delta.enableDeletionVectors": "false",
    "delta.columnMapping.mode": "none",
    "delta.enableTypeWidening": "false",
    "delta.enableRowTracking": "false",
    "delta.enableInCommitTimestamps": "false",
    "delta.checkpointInterval": "10",
    # VACUUM LITE works from the log and knows nothing of sealed slices: it must never find one old enough (M3)
    "delta.deletedFileRetentionDuration": "interval 36500 days",
    "delta.logRetentionDuration": "interval 30 days",
    "delta.setTransactionRetentionDuration": "interval 30 days",
}
# features of a table on which delta-rs's commits of ready files were seen to be right
_KNOWN_FEATURES = frozenset(
    {"appendOnly", "invariants", "timestampNtz", "changeDataFeed", "deletionVectors", "v2Checkpoint"}
)


class NeedsSpark(WaterclockError):
    """Delta-rs must not write this commit: Spark does, under the same claim's id."""

    def __init__(self, reason: str, *, where: str | None = None) -> None:
        super().__init__("E631", f"the commit needs Spark: {reason}", where=where, fix="commit it by Spark")
        self.reason = reason


@dataclass(slots=True)
class _Change:
    """What one commit does to the table as it was looked at."""

    adds: list[AddAction] = field(default_factory=list)
    removes: list[RemoveAction] = field(default_factory=list)
    mode: str = "append"
    labels: list[str] = field(default_factory=list)


def create_table(folder: str, schema: AnySchema, *, is_partitioned: bool, project: str) -> None:
    """Create the table, once; what stands there already is left as it is. Cost: 10 ms.

    Raises  E601 where the table is another project's
            E624 where it is partitioned otherwise
            E615 where a type cannot be stored
    """
    wanted = [TIMELABEL] if is_partitioned else []
    if not table_exists(folder):
        try:
            DeltaTable.create(
                folder,
                Schema.from_json(schema_text(schema)),
                mode="error",
                partition_by=wanted,
                configuration=_PROPERTIES | {_PROJECT: project},
                raise_if_key_not_exists=False,
                # else the loser of a race writes its metadata over the winner's, at the next version
                commit_properties=CommitProperties(max_commit_retries=0),
            )
        except DeltaError as error:
            if not table_exists(folder):  # else somebody was quicker
                raise WaterclockError("E615", "the table cannot be created", where=folder, why=str(error)) from error
    with opened(folder) as table:
        _require_owner(table, folder, project)
        if table.metadata().partition_columns != wanted:
            raise _partitioned_otherwise(folder, table.metadata().partition_columns, wanted)


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
            _require_owner(table, folder, identity.project)
            wide = _schema_with(table.schema().to_json(), new)
            for manifest in manifests:
                check_files(manifest, wide)
            change = _change(table, folder, manifests, mode)
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
            _require_owner(table, folder, identity.project)
            wide = _schema_with(known, [manifest.schema])
            check_files(manifest, wide)
            if wide == known:
                live = tuple(live_files(table))
                return MergeLook(None, table.version(), known, live, _may_rewrite(table, folder))
            _add_columns(table, wide, identity)
    raise _too_busy(folder)


def commit_state(folder: str, identity: Identity, files: Sequence[DataFile], *, base: int) -> int | None:
    """Commit files as the table's whole state, in place of all that was live at version `base`.

    Gives the version, also where the claim was committed before; None where another commit came after `base`: the
    state was made from what is no longer so.

    Raises  Killed where the claim was killed first
    """
    with opened(folder) as table:
        seen = _seen(table, folder, identity.claim)
        if seen is not None:
            return seen
        if table.version() != base:
            return None
        change = _Change(adds=[_add(file, {}, int(time.time() * 1000)) for file in files], mode="overwrite")
        fault("looked")
        return _try_commit(table, change, table.schema().to_json(), identity)


def _may_rewrite(table: DeltaTable, folder: str) -> bool:
    """Tell whether a whole new state may be committed: nobody then learns from a change feed which rows changed."""
    try:
        _require_known_layout(table, folder)
    except NeedsSpark:
        return False
    has_feed = table.metadata().configuration.get("delta.enableChangeDataFeed") == "true"
    return is_plain(table) and not has_feed and not table.metadata().partition_columns


def require_owner(folder: str, project: str) -> None:
    """Refuse a table that another project has created.

    Raises  E601 naming the owner
    """
    with opened(folder) as table:
        _require_owner(table, folder, project)


def kill(folder: str, claim: int, *, project: str | None = None) -> None:
    """Commit nothing under the claim's id, so that its data can never come; too late, it changes nothing.

    `project` is the owner's, where the caller knows it. Cost: as a commit.
    """
    for look in range(_MOST_LOOKS):
        with opened(folder) as table:
            if table.transaction_version(app_id(claim)) is not None:
                return
            owner = project or table.metadata().configuration.get(_PROJECT) or ""
            identity = Identity.of_kill(claim, project=owner)
            fault("looked")
            if _try_commit(table, _Change(), table.schema().to_json(), identity) is not None:
                return
        time.sleep(random.uniform(0, 0.002 * min(look + 1, 25)))  # noqa: S311
    raise _too_busy(folder)


def commit_nothing(folder: str, identity: Identity) -> int:
    """Commit the claim's id and identity alone: its batch changes nothing. As `commit_slices` otherwise."""
    return commit_slices(folder, identity, (), mode="append")


def _try_commit(table: DeltaTable, change: _Change, schema: str, identity: Identity) -> int | None:
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
    """Give the version that bears the claim's id; delta-rs would not refuse it a second time."""
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


def _change(table: DeltaTable, folder: str, manifests: Sequence[Manifest], mode: str) -> _Change:
    if not manifests:
        return _Change()
    _require_known_layout(table, folder)
    live = live_files(table)
    if mode == "replace":
        return _replacing(table, folder, live, manifests)
    if table.metadata().partition_columns == [TIMELABEL]:
        return _by_partition(table, folder, live, manifests)
    return _by_path(table, folder, live, manifests)


def _replacing(table: DeltaTable, folder: str, live: Sequence[LiveFile], manifests: Sequence[Manifest]) -> _Change:
    new = {file.path for manifest in manifests for file in manifest.files}
    old = {file.path for file in live}
    if old == new:
        return _Change()  # all of it is live already: adding it again would hide it from Spark (M5)
    if old & new:
        raise NeedsSpark("a part of the slice is live already", where=folder)
    _require_no_deletion_vectors(table, folder, old)
    return _Change(adds=[add for manifest in manifests for add in _adds(manifest, partitioned=False)], mode="overwrite")


def _by_partition(table: DeltaTable, folder: str, live: Sequence[LiveFile], manifests: Sequence[Manifest]) -> _Change:
    change = _Change(mode="overwrite")
    for manifest in manifests:
        label = label_of(manifest.label)
        old = {file.path for file in live if file.label == label}
        new = {file.path for file in manifest.files}
        if old == new and new:
            continue  # M5
        if old & new:
            raise NeedsSpark(f"a part of the slice of {label} is live already", where=folder)
        _require_no_deletion_vectors(table, folder, old)
        change.labels.append(label)
        change.adds += _adds(manifest, partitioned=True)
    return change if change.labels else _Change()


def _by_path(table: DeltaTable, folder: str, live: Sequence[LiveFile], manifests: Sequence[Manifest]) -> _Change:
    change = _Change()
    for manifest in manifests:
        label = label_of(manifest.label)
        own = manifest.slice_path.rsplit("/", 1)[0] + "/"
        old = {file.path: file for file in live if file.path.startswith(own)}
        joined = [file for file in live if file.path not in old and may_hold(file, label)]
        if joined:
            raise NeedsSpark(f"rows of {label} lie in {joined[0].path}, joined with others", where=folder)
        new = {file.path for file in manifest.files}
        gone = [old[path] for path in old if path not in new]
        _require_no_deletion_vectors(table, folder, {file.path for file in gone})
        now = int(time.time() * 1000)
        # of what is live on this very snapshot, with its true size: anything else removes nothing (M6)
        change.removes += [RemoveAction(file.path, _DATA_CHANGE, now, file.size, {}) for file in gone]
        change.adds += [add for add in _adds(manifest, partitioned=False) if add.path not in old]
    return change


def _adds(manifest: Manifest, *, partitioned: bool) -> list[AddAction]:
    values: dict[str, str | None] = {TIMELABEL: label_of(manifest.label)} if partitioned else {}
    at = int(manifest.sealed_at.timestamp() * 1000)
    return [_add(file, values, at) for file in manifest.files]


def _add(file: DataFile, values: dict[str, str | None], at: int) -> AddAction:
    return AddAction(file.path, file.size, values, at, _DATA_CHANGE, file.stats)


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


def _require_owner(table: DeltaTable, folder: str, project: str) -> None:
    owner = table.metadata().configuration.get(_PROJECT)
    if owner == project:
        return
    raise WaterclockError(
        "E601",
        f"the table belongs to project {owner}" if owner else "the table belongs to no project",
        where=folder,
        why=f"project {project} may not write it: a table has one writer",
        fix="read it through a connection of type waterclock, or store this project elsewhere",
    )


def _require_known_layout(table: DeltaTable, folder: str) -> None:
    protocol = table.protocol()
    features = {*(protocol.writer_features or ()), *(protocol.reader_features or ())}
    unknown = sorted(features - _KNOWN_FEATURES)
    configured = sorted(key for key in table.metadata().configuration if key.startswith("delta.constraints."))
    if unknown or configured:
        raise NeedsSpark(f"the table has {', '.join(unknown or configured)}", where=folder)
    columns = table.metadata().partition_columns
    if columns not in ([], [TIMELABEL]):
        raise _partitioned_otherwise(folder, columns, [])


def _require_no_deletion_vectors(table: DeltaTable, folder: str, removed: set[str]) -> None:
    if removed and "deletionVectors" in (table.protocol().reader_features or ()):
        marked = removed & files_with_deletion_vectors(table, folder)
        if marked:
            raise NeedsSpark(f"{min(marked)} carries a deletion vector", where=folder)  # M4


def _partitioned_otherwise(folder: str, found: Sequence[str], wanted: Sequence[str]) -> WaterclockError:
    return WaterclockError(
        "E624",
        f"the table is partitioned by {', '.join(found) or 'nothing'}, not by {', '.join(wanted) or 'nothing'}",
        where=folder,
        why="PARTITIONED and regular tables lie differently on disk",
        fix="`waterclock rebuild` makes the table anew from its stage",
    )


def _too_busy(folder: str) -> WaterclockError:
    return WaterclockError(
        "E622",
        f"{_MOST_LOOKS} commits of others came between looking and committing",
        where=folder,
        fix="try again",
        transient=True,
    )


__all__ = [
    "Identity",
    "Killed",
    "NeedsSpark",
    "TableNotFoundError",
    "commit_nothing",
    "commit_slices",
    "create_table",
    "kill",
]
