"""Stores the rows of open windows next to a table: a Delta table `spd_<table>` with a partition for each open label.

Each tick replaces partitions by one commit, which is refused if another commit came after the version that the tick
started from. A commit lists all labels with the slices that have their rows, so readers need only the commit. A batch
of the table ends the ticks that are running, by an empty commit before its own. Otherwise a tick that was stopped for a
while could show fewer rows of a label than a reader has seen in the table.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import unquote

from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.files.filesystem import (
    entry_path,
    file_exists,
    make_folder,
    read_bytes,
    read_text,
    remove_folder,
    replace_text,
)
from waterclock.printable import printable_line
from waterclock.storage.commit.change import build_slice_change
from waterclock.storage.commit.creation import build_columns_change, create_table
from waterclock.storage.commit.pointers import commit_race_error
from waterclock.storage.commit.write_commit import Change, build_remove_actions, try_commit
from waterclock.storage.log.delta_log import actions_of, commit_file, head, info_of, table_exists, time_of
from waterclock.storage.log.identity import Identity, identity_in
from waterclock.storage.log.open_tables import forget_open_table, open_table
from waterclock.storage.schema_types import schema_text
from waterclock.storage.slices.appended import folder_of
from waterclock.storage.slices.inventory import list_slice_folders
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.timelabel.label import instant_of, label_of

if TYPE_CHECKING:
    from waterclock.storage.schema_types import Schema as AnySchema

TICKS_KEPT = 20
"""The number of newest ticks of a table that queries can read."""
KEPT_FOR = timedelta(minutes=10)
"""How long the rows of an older tick stay on disk, for queries that read them."""

_KIND, _END = "open windows", "end of ticks"
_CHECKED = "_waterclock_checked"  # Delta ignores names that begin with an underscore
_HIDDEN = "_waterclock_hidden"
_MOST_HIDDEN = 100  # labels
_LONGEST_REASON = 300  # characters
_MAX_ATTEMPTS = 200
_MICROS = 1_000_000
# A tick adds a file to the log and removes files from the table. Delta would keep both for 30 days.
_PROPERTIES = {
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
}


@dataclass(frozen=True, slots=True)
class SpeedState:
    """The open labels of a table at one tick, each with the folder of the slice that has its rows.

    `version` is the Delta version of the tick's commit, -1 before the first, and `head` the newest version when the
    state was read. `code` is the fingerprint of the query that made the rows; `at` is when it was committed, by the
    clock of the runner.
    """

    version: int = -1
    head: int = -1
    tick: int = 0
    code: str = ""
    slices: Mapping[datetime, str] = field(default_factory=dict)
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TickHistory:
    """The newest ticks of a table, newest first. `is_whole`: they are all ticks that the table ever had."""

    states: tuple[SpeedState, ...]
    is_whole: bool

    def at(self, tick: int) -> SpeedState | None:
        """Return the state at a tick, an empty one before the first tick; None if it is not known."""
        found = next((state for state in self.states if state.tick == tick), None)
        if found is not None or not self.is_whole:
            return found
        return SpeedState() if all(tick < state.tick for state in self.states) else None


@dataclass(frozen=True, slots=True)
class TableOutage:
    """A table whose source cannot be read, or whose query fails: from which tick on it has no new rows, and why."""

    table: str
    since: datetime
    why: str


@dataclass(frozen=True, slots=True)
class TableCheck:
    """When a table and its inputs were last read for its ticks, None if it is not known, and their outages."""

    at: datetime | None = None
    outages: tuple[TableOutage, ...] = ()


def read_history(folder: str) -> TickHistory:
    """Return the newest ticks of a table. Cost: a small file for each of them."""
    states = tuple(iterate_states(folder))
    is_whole = len(states) < TICKS_KEPT and (file_exists(commit_file(folder, 0)) or not table_exists(folder))
    return TickHistory(states, is_whole)


def read_state(folder: str) -> SpeedState:
    """Return the newest state of a table's open windows; an empty one before the first tick."""
    newest = head(folder) if table_exists(folder) else -1
    found = next(iterate_states(folder), SpeedState())
    return replace(found, head=newest)


def iterate_states(folder: str) -> Iterator[SpeedState]:
    """Yield the states of the newest ticks, newest first, at most `TICKS_KEPT`. Cost: a small file for each.

    Raises E643 for a commit that cannot be read.
    """
    if not table_exists(folder):
        return
    found = 0
    version = newest = head(folder)
    while version >= 0 and found < TICKS_KEPT:
        try:
            state = _parse_commit(read_bytes(commit_file(folder, version)), version, newest)
        except FileNotFoundError:
            return
        except ValueError as error:
            raise _damaged_table_error(folder, version, error) from error
        if state is not None:
            found += 1
            yield state
        version -= 1


def read_slices(folder: str, state: SpeedState) -> dict[datetime, Manifest]:
    """Return the manifest of each open label of a state, without those that are missing or damaged.

    A tick that finds no slice of a label makes a new one.
    """
    found: dict[datetime, Manifest] = {}
    for label, path in state.slices.items():
        with suppress(WaterclockError):
            found[label] = read_manifest(folder, path)
    return found


def new_slice_number() -> int:
    """Return a number for the slices of a tick: the time in microseconds, and so their age."""
    return time.time_ns() // 1000


def commit_state(  # noqa: PLR0913 - each argument is a part of the commit
    folder: str,
    base: SpeedState,
    kept: Mapping[datetime, Manifest],
    made: Mapping[datetime, Manifest],
    *,
    tick: int,
    table: str,
    project: str,
    code: str,
    schema: AnySchema | None,
) -> SpeedState | None:
    """Commit the open labels of a tick. Return the new state, or None if another commit came after `base`.

    `kept` are labels whose slices stay, `made` those with new slices; other labels of the table are removed. `schema`
    has the columns of new slices, None if there are none. Cost: a small file.
    """
    if schema is not None:
        create_table(folder, schema, is_partitioned=True, project=project, properties=_PROPERTIES)
    slices = {label: manifest.slice_path for label, manifest in sorted({**kept, **made}.items())}
    labels = tuple(map(label_of, slices))
    identity = Identity(
        project, table, _KIND, labels, labels[-1] if labels else "", 0, code, (tick,), tuple(slices.values())
    )
    with open_table(folder) as opened:
        if opened.version != max(base.head, 0):
            return None
        change = build_slice_change(opened, list(made.values()), "append")
        for label in sorted({file.label for file in opened.files.values() if file.label} - {*labels}):
            change.removes += build_remove_actions(opened.files_at(label))
        text = opened.schema if schema is None else schema_text(schema)
        if text != opened.schema:
            change.metadata = build_columns_change(opened, text, opened.partition_columns).metadata
        fault("speed.looked")
        version = try_commit(opened, change, identity)
    return None if version is None else SpeedState(version, version, tick, code, slices)


def end_running_ticks(folder: str, schema: AnySchema, *, table: str, project: str) -> None:
    """Make the commits of all ticks fail that have started before this call. `schema` is used for a new table.

    Cost: a small file.
    """
    create_table(folder, schema, is_partitioned=True, project=project, properties=_PROPERTIES)
    identity = Identity(project, table, _END, (), "", 0, "")
    for _ in range(_MAX_ATTEMPTS):
        with open_table(folder) as opened:
            if try_commit(opened, Change(), identity) is not None:
                fault("speed.ended")
                return
    raise commit_race_error(folder)


def record_check(folder: str, at: datetime | None, outages: Sequence[TableOutage] = ()) -> None:
    """Record when a table was last read, also if a tick found nothing new, and which of its inputs cannot be.

    Without outages, nothing is recorded before the first tick. Long reasons are cut. Cost: a small file.
    """
    path = entry_path(folder, _CHECKED)
    if not (outages or table_exists(folder) or file_exists(path)):
        return
    make_folder(entry_path(folder))
    found = {
        each.table: {"since": each.since.isoformat(), "why": printable_line(each.why)[:_LONGEST_REASON]}
        for each in outages
    }
    replace_text(path, json.dumps({"at": None if at is None else at.isoformat(), "outages": found}))


def read_check(folder: str) -> TableCheck:
    """Return when a table was last read for a tick, and the outages of its inputs. Cost: a small file."""
    try:
        found = json.loads(read_text(entry_path(folder, _CHECKED)))
        at = None if found["at"] is None else _aware(found["at"])
        outages = ((str(name), _aware(each["since"]), str(each["why"])) for name, each in found["outages"].items())
        return TableCheck(at, tuple(TableOutage(*each) for each in outages))
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):  # the next check writes it again
        return TableCheck()


def _aware(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text} has no time zone")
    return found


def record_hidden_labels(folder: str, reasons: Mapping[datetime, str]) -> None:
    """Record the open labels whose rows a tick does not show, with the reason, if it is not recorded yet.

    The newest labels are kept, and long reasons are cut. Cost: a small file.
    """
    newest = sorted(reasons)[-_MOST_HIDDEN:]
    kept = {label: printable_line(reasons[label])[:_LONGEST_REASON] for label in newest}
    if kept != read_hidden_labels(folder):
        make_folder(entry_path(folder))
        text = json.dumps({label_of(label): reason for label, reason in kept.items()})
        replace_text(entry_path(folder, _HIDDEN), text)


def read_hidden_labels(folder: str) -> dict[datetime, str]:
    """Return the open labels whose rows the newest tick does not show, with the reason. Cost: a small file."""
    try:
        found = json.loads(read_text(entry_path(folder, _HIDDEN)))
        return {instant_of(label): str(reason) for label, reason in found.items()}
    except (FileNotFoundError, ValueError, AttributeError, WaterclockError):  # the next tick writes it again
        return {}


def is_open_windows_table(folder: str, project: str) -> bool:
    """Return whether the newest commit of a folder's table is of a project's ticks, or ends them."""
    if not table_exists(folder):
        return False
    try:
        content = read_bytes(commit_file(folder, head(folder)))
        actions = [json.loads(line) for line in content.splitlines() if line]
    except (FileNotFoundError, ValueError):
        return False
    identity = identity_in(info_of(actions))
    return identity is not None and identity.project == project and identity.kind in {_KIND, _END}


def remove_open_windows(folder: str) -> None:
    """Remove all ticks of a table, with their rows. A tick that is running fails, and the next one starts over."""
    forget_open_table(folder)
    remove_folder(entry_path(folder))


def remove_old_slices(folder: str) -> None:
    """Remove slices that are older than `KEPT_FOR`, and whose rows no kept tick has, nor a tick had within that time.

    Cost: a listing of the stage, and a small file for each slice of a kept tick and for each tick within that time.
    """
    states = list(iterate_states(folder))
    used = {path for state in states for path in state.slices.values()}
    for state in states:
        for manifest in read_slices(folder, state).values():
            used.update(map(folder_of, manifest.files))
    limit = new_slice_number() - int(KEPT_FOR.total_seconds()) * _MICROS
    used |= _find_removed_folders(folder, datetime.fromtimestamp(limit / _MICROS, tz=UTC))
    for found in list_slice_folders(folder):
        if found.path not in used and found.claim < limit:
            with suppress(FileNotFoundError):
                remove_folder(entry_path(folder, found.path))


def _find_removed_folders(folder: str, since: datetime) -> set[str]:
    """Return the folders of files that ticks since a time removed from the table. A slow query may still read them."""
    found: set[str] = set()
    newest = head(folder) if table_exists(folder) else -1
    for version in range(newest, -1, -1):
        try:
            actions = actions_of(commit_file(folder, version))
        except FileNotFoundError:  # it was cleaned from the log
            break
        if time_of(info_of(actions)) < since:
            break
        removed = (action["remove"]["path"] for action in actions if "remove" in action)
        found.update(unquote(path).rpartition("/")[0] for path in removed)
    return found


def _damaged_table_error(folder: str, version: int, error: ValueError) -> WaterclockError:
    return WaterclockError(
        "E643",
        "the log of a table with open windows is damaged",
        where=str(commit_file(folder, version)),
        why=f"{type(error).__name__}: {error}",
        fix=f"remove the folder {folder}: the next tick makes it again, and no batch depends on it",
    )


def _parse_commit(content: bytes, version: int, newest: int) -> SpeedState | None:
    """Return the state that a commit lists, or None for a commit that is not one of a tick."""
    actions = [json.loads(line) for line in content.splitlines() if line]
    info = info_of(actions)
    identity = identity_in(info)
    if identity is None or identity.kind != _KIND or len(identity.inputs) != 1:
        return None
    slices = {instant_of(label): str(path) for label, path in zip(identity.labels, identity.slices, strict=True)}
    return SpeedState(version, newest, int(identity.inputs[0]), identity.code, slices, time_of(info))
