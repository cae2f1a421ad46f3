"""Lists the files that make up a version of a table, as delta-rs shows it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from waterclock.errors import WaterclockError
from waterclock.files.filesystem import entry_path, stat_file
from waterclock.files.object_stores import delta_options
from waterclock.storage.lake import STAGE
from waterclock.storage.log.delta_log import is_recreated, last_version_with_same_rows, require_shallow_commits
from waterclock.timelabel.label import TIMELABEL, label_of_hive_path

_WITH_COLUMN_MAPPING = 2


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A live file of a table: its recorded size, and its partition's label or the range of labels in its statistics."""

    path: str
    size: int
    label: str | None
    low: str | None
    high: str | None

    @property
    def only_label(self) -> str | None:
        """The label of all rows of the file, or None if it may have rows of several."""
        return self.label or (self.low if self.low == self.high else None)


def open_delta(folder: str, version: int | None = None) -> DeltaTable:
    """Open a version of a table with delta-rs, or the newest. Raises E643 for a commit that would crash the process."""
    require_shallow_commits(folder, version)
    return DeltaTable(folder, version=version, storage_options=delta_options(folder))


def live_files(table: DeltaTable) -> list[LiveFile]:
    """List the live files. Cost: some milliseconds for 1,000."""
    actions = pa.table(table.get_add_actions(flatten=True))
    names = set(actions.column_names)

    def column(name: str) -> list[str | None]:
        return actions.column(name).to_pylist() if name in names else [None] * actions.num_rows

    return [
        LiveFile(*parts)
        for parts in zip(
            map(unquote, actions.column("path").to_pylist()),
            actions.column("size_bytes").to_pylist(),
            column(f"partition.{TIMELABEL}"),
            column(f"min.{TIMELABEL}"),
            column(f"max.{TIMELABEL}"),
            strict=True,
        )
    ]


def may_hold(file: LiveFile, label: str) -> bool:
    """Return whether a file that belongs to no slice may contain rows of `label`. For unpartitioned tables."""
    if file.path.startswith(f"{STAGE}/"):
        return False
    return not (file.low and file.high) or file.low <= label <= file.high


def may_contain_range(file: LiveFile, low: str | None, high: str | None) -> bool:
    """Return whether a file may contain rows with labels in `[low, high)`; a bound of None is open."""
    least, most = (file.label, file.label) if file.label else (file.low, file.high)
    return not (least and most) or ((low is None or most >= low) and (high is None or least < high))


def open_kept_version(folder: str, version: int, low: str | None = None, high: str | None = None) -> DeltaTable | None:
    """Open a version that can still be read: its log and all its files that may have labels in `[low, high)` exist.

    If VACUUM removed its files after an OPTIMIZE, open a later version that has the same rows. Return None if no such
    version can be read. Cost: the log is opened at the version, some 10 ms, and a look-up per file. Raises E605 if one
    of its files has another size than the log records.
    """
    if version < 0 or is_recreated(folder, version):
        return None
    table = _open_if_complete(folder, version, low, high)
    same = version if table is not None else last_version_with_same_rows(folder, version)
    return table if same == version else _open_if_complete(folder, same, low, high)


def _open_if_complete(folder: str, version: int, low: str | None, high: str | None) -> DeltaTable | None:
    try:
        table = open_delta(folder, version)
        files = live_files(table)
        if "deletionVectors" in (table.protocol().reader_features or ()):
            files_with_deletion_vectors(table, folder)  # reads the vectors, which fails if one is missing
    except (DeltaError, OSError):
        return None
    is_whole = all(_is_there(folder, file) for file in files if may_contain_range(file, low, high))
    return table if is_whole else None


def _is_there(folder: str, file: LiveFile) -> bool:
    """Return whether a live file exists. Raises E605 if its size differs from the one that the log records."""
    try:
        found = stat_file(entry_path(folder, file.path))
    except FileNotFoundError:
        return False
    if found.size != file.size:
        raise damaged_file_error(folder, file.path, found.size, file.size)
    return True


def damaged_file_error(folder: str, path: str, found: int, recorded: int) -> WaterclockError:
    """Return the error for a data file of `found` bytes that was written with `recorded` bytes."""
    schema, _, name = folder.rstrip("/").rpartition("/")
    name = name if schema.endswith("/publish") else f"{schema.rpartition('/')[2]}.{name}"
    if not path.startswith(f"{STAGE}/"):
        what, fix = f"a file of {name} is damaged", f"run `waterclock rebuild {name}`"
    else:
        batch = f"{name}@{label_of_hive_path(path)}"
        what, fix = f"{batch} is damaged", f"run `waterclock recompute {batch}`"
    return WaterclockError(
        "E605",
        what,
        where=f"{folder}/{path}",
        why=f"{path.rpartition('/')[2]} has {found} bytes, but was written with {recorded} bytes",
        fix=fix,
    )


def is_plain(table: DeltaTable) -> bool:
    """Return whether the files contain the table's rows unchanged: it has no column mapping and no deletion vectors."""
    protocol = table.protocol()
    features = set(protocol.reader_features or ())
    return protocol.min_reader_version != _WITH_COLUMN_MAPPING and not features - {"timestampNtz"}


def files_with_deletion_vectors(table: DeltaTable, folder: str) -> set[str]:
    """Return the paths, relative to the table's folder, of live files that carry a deletion vector."""
    marked = pa.table(table.deletion_vectors()).column("filepath").to_pylist()
    return {relative_path(uri, folder) for uri in marked}


def relative_path(uri: str, folder: str) -> str:
    """Return the path of a file relative to the table's folder, given the URI that Spark or delta-rs use."""
    # Spark writes file:/tmp, delta-rs file:///tmp, and both percent-encode special characters
    path = unquote(urlsplit(uri).path) if ":/" in uri else uri
    return path.removeprefix(folder.rstrip("/") + "/")
