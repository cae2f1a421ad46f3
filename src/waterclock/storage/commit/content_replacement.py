"""Replaces the content of a table by content built elsewhere: links its files, and commits references to them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from waterclock.faults import fault
from waterclock.files.filesystem import entry_path, link_file, make_folder, remove_folder
from waterclock.storage.commit.change import NeedsSpark, require_known_layout
from waterclock.storage.commit.creation import create_table, refuse_other_project
from waterclock.storage.commit.pointers import commit_race_error, find_claim_version
from waterclock.storage.commit.row_order import recorded_sort_columns
from waterclock.storage.commit.write_commit import (
    Action,
    Change,
    build_add_action,
    build_remove_actions,
    metadata_of,
    needed_protocol,
    path_in_log,
    protocol_of,
    try_commit,
)
from waterclock.storage.log.delta_log import table_exists
from waterclock.storage.log.open_tables import OpenTable, open_table
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.statistics import read_files
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from waterclock.storage.log.identity import Identity

_MAX_ATTEMPTS = 200


@dataclass(frozen=True, slots=True)
class Content:
    """The whole content of a table: its files, its columns, and metadata for its log.

    The files are in its folder already. `adds` are Delta's `add` actions, one per file; `protocol` is the Delta
    protocol of the table that the files come from.
    """

    adds: tuple[Action, ...]
    schema: str
    partition_columns: tuple[str, ...]
    protocol: Action

    def to_dict(self) -> dict[str, Any]:
        """Return the content as a dict for JSON."""
        return asdict(self)

    @classmethod
    def of_dict(cls, parts: Mapping[str, Any]) -> Content:
        """Read the result of `to_dict`."""
        return cls(tuple(parts["adds"]), parts["schema"], tuple(parts["partition_columns"]), parts["protocol"])


def link_content(made: str, folder: str, linked: Sequence[tuple[Manifest, Manifest]], claim: int) -> Content:
    """Create links in `folder` to the live files of the table at `made`. Return the content that `folder` then has.

    `linked` lists the slices that are linked already: for each its manifest in `made` and its manifest in `folder`.
    Other live files, such as those of a MERGE state, are linked below `state/`. Cost: a link per file, and a read of
    the footers of these other files.
    """
    linked_files = {
        old.path: (new, int(after.sealed_at.timestamp() * 1000))
        for before, after in linked
        for old, new in zip(before.files, after.files, strict=True)
    }
    place = f"state/c={claim}/set"
    remove_folder(entry_path(folder, place))
    with open_table(made) as table:
        schema, columns = table.schema, tuple(table.partition_columns)
        protocol = protocol_of(table)
        live, indexed = list(table.files.values()), recorded_sort_columns(table)
    adds: list[Action] = []
    labels: dict[str, str | None] = {}
    for number, file in enumerate(live):
        if file.path in linked_files:
            new, sealed = linked_files[file.path]
            adds.append(build_add_action(new, file.label, sealed))
            continue
        name = f"part-{number:05d}.parquet"
        make_folder(entry_path(folder, place))
        link_file(entry_path(made, file.path), entry_path(folder, place, name))
        labels[f"{place}/{name}"] = file.label
    now = int(time.time() * 1000)
    if labels:
        found = read_files(entry_path(folder), place, also=indexed)
        adds += [build_add_action(file, labels[file.path], now) for file in found]
    return Content(tuple(adds), schema, columns, protocol)


def build_empty_content(folder: str, *, is_partitioned: bool) -> Content:
    """Return the content of a table without rows, with its own columns."""
    with open_table(folder) as table:
        return Content((), table.schema, (TIMELABEL,) if is_partitioned else (), protocol_of(table))


def remove_linked_content(folder: str, claim: int) -> None:
    """Remove the links that `link_content` has made below `state/`."""
    remove_folder(entry_path(folder, f"state/c={claim}"))


def commit_content(folder: str, identity: Identity, content: Content) -> int:
    """Make `content` a table's only content, in one commit that writes no data. Return its version.

    A missing table is created. If the claim's id was committed before, that version is returned and nothing is written.

    Raises:
        ClaimKilledError: The claim was killed first.
        NeedsSpark: The commit cannot just refer to the files; nothing was committed.
        WaterclockError: E601 if the table belongs to another project.
    """
    _create_if_absent(folder, content, project=identity.project)
    for attempt in range(_MAX_ATTEMPTS):
        with open_table(folder) as table:
            if (committed := find_claim_version(table, identity.claim)) is not None:
                return committed
            refuse_other_project(table, identity.project)
            change = _build_content_change(table, content)
            fault("looked")
            version = try_commit(table, change, identity)
        if version is not None:
            return version
        time.sleep(0.002 * min(attempt + 1, 25))
    raise commit_race_error(folder)


def _create_if_absent(folder: str, content: Content, *, project: str) -> None:
    """Create the table if it does not exist. The layout of an existing one changes only by the commit."""
    if not table_exists(folder):
        create_table(folder, content.schema, is_partitioned=bool(content.partition_columns), project=project)


def _build_content_change(table: OpenTable, content: Content) -> Change:
    require_known_layout(table)
    if table.marked_paths:
        raise NeedsSpark("files carry deletion vectors", where=table.folder)  # M4
    wanted = {action["add"]["path"] for action in content.adds}
    live = {path_in_log(path): file for path, file in table.files.items()}
    if tuple(table.partition_columns) != content.partition_columns and wanted & live.keys():
        raise NeedsSpark("a file is live already in another layout", where=table.folder)
    return Change(
        # live files stay: added again they would be hidden from Spark (M5)
        [action for action in content.adds if action["add"]["path"] not in live],
        build_remove_actions([file for path, file in live.items() if path not in wanted]),
        is_overwrite=True,
        metadata=_build_metadata_actions(table, content),
    )


def _build_metadata_actions(table: OpenTable, content: Content) -> list[Action]:
    """Return the actions that change columns, partitions and protocol of the table to those of the content."""
    actions: list[Action] = []
    protocol = protocol_of(table)
    if wanted := needed_protocol(protocol, content.protocol):
        actions.append({"protocol": wanted})
    if (
        json.loads(table.schema) != json.loads(content.schema)
        or tuple(table.partition_columns) != content.partition_columns
    ):
        actions.append(metadata_of(table, content.schema, content.partition_columns))
    return actions
