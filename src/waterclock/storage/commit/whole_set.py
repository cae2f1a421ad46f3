"""Puts the content of a table that was made elsewhere in place of another's, by links and one commit of pointers."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from waterclock.faults import fault
from waterclock.filesystem import at, link_file, make_folder, remove_folder
from waterclock.storage.commit.change import NeedsSpark, require_known_layout
from waterclock.storage.commit.creation import create_table, refuse_stranger
from waterclock.storage.commit.pointers import seen_claim, too_busy
from waterclock.storage.commit.write_commit import (
    Action,
    Change,
    add_of,
    metadata_of,
    needed_protocol,
    path_in_log,
    protocol_of,
    removes_of,
    try_commit,
)
from waterclock.storage.log.delta_log import table_exists
from waterclock.storage.log.open_tables import OpenTable, opened
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.statistics import read_files
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from waterclock.storage.log.identity import Identity

_MOST_LOOKS = 200


@dataclass(frozen=True, slots=True)
class Content:
    """All that a table is to show: files that lie in its folder already, its columns, and what its log must know.

    `adds` are Delta's actions, `protocol` is that of the table the files come from.
    """

    adds: tuple[Action, ...]
    schema: str
    partition_columns: tuple[str, ...]
    protocol: Action

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)

    @classmethod
    def of_dict(cls, said: Mapping[str, Any]) -> Content:
        """Read what `to_dict` wrote."""
        return cls(tuple(said["adds"]), said["schema"], tuple(said["partition_columns"]), said["protocol"])


def content_brought(made: str, folder: str, linked: Sequence[tuple[Manifest, Manifest]], claim: int) -> Content:
    """Have what a table at `made` shows lie in `folder` too, and return it as its content.

    `linked` are slices as they are there and as they were linked here already. Other live files, such as those of a
    state, are linked below `state/`. Cost: a link a file, and the footers of the latter.
    """
    here = {
        old.path: (new, int(after.sealed_at.timestamp() * 1000))
        for before, after in linked
        for old, new in zip(before.files, after.files, strict=True)
    }
    place = f"state/c={claim}/set"
    remove_folder(at(folder, place))
    with opened(made) as table:
        schema, columns = table.schema, tuple(table.partition_columns)
        protocol = protocol_of(table)
        live = list(table.files.values())
    adds: list[Action] = []
    labels: dict[str, str | None] = {}
    for number, file in enumerate(live):
        if file.path in here:
            new, sealed = here[file.path]
            adds.append(add_of(new, file.label, sealed))
            continue
        name = f"part-{number:05d}.parquet"
        make_folder(at(folder, place))
        link_file(at(made, file.path), at(folder, place, name))
        labels[f"{place}/{name}"] = file.label
    now = int(time.time() * 1000)
    if labels:
        adds += [add_of(file, labels[file.path], now) for file in read_files(at(folder), place)]
    return Content(tuple(adds), schema, columns, protocol)


def emptied(folder: str, *, is_partitioned: bool) -> Content:
    """Return the content of a table without a row, in its own columns."""
    with opened(folder) as table:
        return Content((), table.schema, (TIMELABEL,) if is_partitioned else (), protocol_of(table))


def remove_brought(folder: str, claim: int) -> None:
    """Remove what `content_brought` has linked below `state/`."""
    remove_folder(at(folder, f"state/c={claim}"))


def commit_content(folder: str, identity: Identity, content: Content) -> int:
    """Have a table show this content and nothing else, in one commit of metadata alone; gives its version.

    A table that is not there is made. A commit under the claim's id that is there already is left as it is.

    Raises  Killed       where the claim was killed first
            NeedsSpark   where pointers alone will not do; nothing was committed then
            E601         where the table is another's
    """
    _create_if_absent(folder, content, project=identity.project)
    for look in range(_MOST_LOOKS):
        with opened(folder) as table:
            if (seen := seen_claim(table, identity.claim)) is not None:
                return seen
            refuse_stranger(table, identity.project)
            change = _change(table, content)
            fault("looked")
            version = try_commit(table, change, identity)
        if version is not None:
            return version
        time.sleep(0.002 * min(look + 1, 25))
    raise too_busy(folder)


def _create_if_absent(folder: str, content: Content, *, project: str) -> None:
    """Create the table where there is none; one that lies otherwise is laid out anew by the commit."""
    if not table_exists(folder):
        create_table(folder, content.schema, is_partitioned=bool(content.partition_columns), project=project)


def _change(table: OpenTable, content: Content) -> Change:
    require_known_layout(table)
    if table.marked:
        raise NeedsSpark("files carry deletion vectors", where=table.folder)  # M4
    wanted = {action["add"]["path"] for action in content.adds}
    live = {path_in_log(path): file for path, file in table.files.items()}
    if tuple(table.partition_columns) != content.partition_columns and wanted & live.keys():
        raise NeedsSpark("a file is live already in another layout", where=table.folder)
    return Change(
        # what is live stays so: added again it would be hidden from Spark (M5)
        [action for action in content.adds if action["add"]["path"] not in live],
        removes_of([file for path, file in live.items() if path not in wanted]),
        is_overwrite=True,
        metadata=_metadata(table, content),
    )


def _metadata(table: OpenTable, content: Content) -> list[Action]:
    """Return what the log must say of columns, partitions and features, where it says otherwise."""
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
