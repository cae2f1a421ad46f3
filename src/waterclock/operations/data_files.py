"""Lists the files of a table, now or as of a tick, for engines that do not read Delta. Starts no JVM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from waterclock.engine.branching.base_checks import find_borrowed_version
from waterclock.engine.damage import removed_rows_error, require_log
from waterclock.engine.query.query import require_table
from waterclock.engine.query.ticks import RequestedTick, ResolvedTick, resolve_tick
from waterclock.engine.reads.as_of import commit_records, resolve_as_of
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import entry_path, file_exists, files_below
from waterclock.flow.declarations import Table
from waterclock.operations.project_opening import zone_of
from waterclock.storage.folds.older_states import find_cached_state
from waterclock.storage.lake import STAGE
from waterclock.storage.log.content_as_of import ContentLocation
from waterclock.storage.log.delta_log import table_exists
from waterclock.storage.log.live_files import LiveFile, is_plain, live_files, open_kept_version
from waterclock.storage.log.open_tables import open_table
from waterclock.storage.slices.manifest import read_manifest
from waterclock.storage.symlink_manifests import absolute, indescribable_rows_error, require_plain
from waterclock.timelabel.label import hive_path, label_of, label_of_hive_path
from waterclock.timelabel.zone import parse_instant


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file of a table: its path for other engines, its folder in the table, its size in bytes and its label.

    `label` is None for a file that may have rows of several labels: of a MERGE or TEMPORAL table, or from OPTIMIZE.
    """

    path: str
    folder: str
    bytes: int
    label: str | None


@dataclass(frozen=True, slots=True)
class DataFiles:
    """The files of a table. `labels`: all that a PARTITIONED table ever had. `moment`: the tick, or None for now."""

    table: Table
    files: tuple[ListedFile, ...]
    labels: tuple[str, ...] = ()
    moment: ResolvedTick | None = None


def data_files(work: RunContext, name: str, *, as_of: str | None = None, known_at: str | None = None) -> DataFiles:
    """List the files of a table, now or as of a tick.

    Raises E434 if its files have other rows than the table, as with deletion vectors; E435 if the files are gone.
    """
    table = require_table(work.flow, name)
    require_log(work, name)
    labels = _list_labels(work, table)
    if as_of is None:
        return DataFiles(table, _list_current_files(work, table), labels)
    zone = zone_of(work.flow)
    known = None if known_at is None else parse_instant(known_at, zone)
    moment = resolve_tick(work, [name], RequestedTick(as_of, known, zone))
    found = resolve_as_of(work, table, moment.tick, known_at=moment.known_at)
    return DataFiles(
        table,
        _list_state_files(work, table, found) if table.is_fold else _list_slice_files(work, found),
        labels,
        moment,
    )


def partitions(found: DataFiles, folder: str) -> dict[str, str]:
    """Map each label of a PARTITIONED table to the folder that contains exactly its rows.

    Raises E434 if the table has no partitions, or if a label shares its folder with other files.
    """
    if not found.table.is_partitioned:
        raise WaterclockError(
            "E434",
            f"{found.table.name} has no partitions",
            where=found.table.name,
            why="only the labels of a PARTITIONED table have their own folders",
            fix=f"`waterclock files {found.table.name}` lists its files",
        )
    by_label: dict[str, list[ListedFile]] = {}
    for file in found.files:
        by_label.setdefault(file.label or "", []).append(file)
    return {label: _own_folder(found.table, folder, label, files) for label, files in by_label.items()}


def partition_statements(found: DataFiles, folder: str) -> list[str]:
    """Return the SQL that registers each label's current location in a Hive-style catalogue.

    The SQL also removes the labels that no longer exist from the catalogue.
    """
    locations = partitions(found, folder)
    lines = []
    for label in sorted({*found.labels, *locations}):
        parts = (each.partition("=") for each in hive_path(label).split("/"))
        spec = "PARTITION (" + ", ".join(f"{name}='{value}'" for name, _, value in parts) + ")"
        lines.append(f"ALTER TABLE {found.table.name} DROP IF EXISTS {spec};")
        if label in locations:
            lines.append(f"ALTER TABLE {found.table.name} ADD {spec} LOCATION '{_escape_sql_text(locations[label])}';")
    return lines


def _list_labels(work: RunContext, table: Table) -> tuple[str, ...]:
    if not table.is_partitioned:
        return ()
    slices = (label for record in commit_records(work.ledger, table.name) for label in record.slices)
    return tuple(sorted({label_of(label) for label in slices}))


def _list_current_files(work: RunContext, table: Table) -> tuple[ListedFile, ...]:
    folder = work.folder(table)
    if not table_exists(folder):
        return ()
    borrowed = find_borrowed_version(work.ledger, work.lake, table.name)
    with open_table(folder) as shown:
        if borrowed is None or borrowed == shown.version:
            require_plain(shown)
            return _list_files(folder, list(shown.files.values()))
    return _list_borrowed_files(work, table, borrowed)


def _list_borrowed_files(work: RunContext, table: Table, version: int) -> tuple[ListedFile, ...]:
    """Return the files of a borrowed version. Raises E475 if they are gone, E434 as `data_files` does."""
    folder = work.folder(table)
    if version < 0:  # the table was not made when the branch was created
        return ()
    kept = open_kept_version(folder, version)
    if kept is None:
        raise removed_rows_error(work, table.name, folder)
    if not is_plain(kept):
        raise indescribable_rows_error(folder)
    return _list_files(folder, live_files(kept))


def _list_files(folder: str, files: Sequence[LiveFile]) -> tuple[ListedFile, ...]:
    found = [
        ListedFile(absolute(folder, file.path), file.path.rpartition("/")[0], file.size, _label_of_file(file))
        for file in files
    ]
    return tuple(sorted(found, key=lambda file: (file.label or "", file.path)))


def _label_of_file(file: LiveFile) -> str | None:
    if file.label:
        return file.label
    return label_of_hive_path(file.path) if file.path.startswith(f"{STAGE}/") else None


def _list_slice_files(work: RunContext, found: ContentLocation) -> tuple[ListedFile, ...]:
    """Return the files of the sealed slices that make up a table as of a tick."""
    folder = work.lake.folder(found.table)
    files = []
    for step in found.steps:
        try:
            manifest = read_manifest(folder, step.slice_path)
        except WaterclockError as error:
            raise _missing_files_error(found, f"the slice of {label_of(step.label)} is gone") from error
        for file in manifest.files:
            if not file_exists(entry_path(folder, file.path)):
                raise _missing_files_error(found, f"a file of the slice of {label_of(step.label)} is gone")
            label = label_of(step.label)
            files.append(ListedFile(absolute(folder, file.path), step.slice_path, file.size, label))
    return tuple(files)


def _list_state_files(work: RunContext, table: Table, found: ContentLocation) -> tuple[ListedFile, ...]:
    """Return the files of the Delta version with the state of a MERGE or TEMPORAL table as of a tick."""
    folder = work.folder(table)
    if not found.steps:
        return ()
    kept = open_kept_version(folder, found.version)
    if kept is not None and is_plain(kept):
        return _list_files(folder, live_files(kept))
    made = find_cached_state(work.lake, table, found.steps)
    if made is None:
        raise _missing_files_error(found, "no kept version has the state, and no query has made it again")
    written = (file for file in files_below(made) if file.path.endswith(".parquet"))
    return tuple(ListedFile(str(made / file.path), str(made), file.size, None) for file in written)


def _own_folder(table: Table, folder: str, label: str, files: Sequence[ListedFile]) -> str:
    """Return the folder of a label's files. Raises E434 if they are in several folders, or share it with others."""
    folders = {file.folder for file in files}
    if len(folders) == 1 and (only := folders.pop()):
        there = {file.path for file in files_below(entry_path(folder, only)) if file.path.endswith(".parquet")}
        if there == {file.path.rpartition("/")[2] for file in files}:
            return absolute(folder, only)
    raise WaterclockError(
        "E434",
        f"{table.name}@{label} does not have its own folder",
        where=f"{table.name}@{label}",
        why="its files were joined or rewritten since it was sealed, and share a folder with replaced ones",
        fix=f"list its files (`waterclock files {table.name}`), or declare OPTIONS (manifest 'symlink')",
    )


def _missing_files_error(found: ContentLocation, why: str) -> WaterclockError:
    tick: datetime = found.tick
    return WaterclockError(
        "E435",
        f"the files of {found.table} as of {label_of(tick)} are no longer stored",
        where=found.table,
        why=why,
        fix=f'`waterclock query --as-of {label_of(tick)} "SELECT * FROM {found.table}"` recomputes the '
        "state if possible; then repeat this command",
    )


def _escape_sql_text(path: str) -> str:
    return path.replace("\\", "\\\\").replace("'", "\\'")
