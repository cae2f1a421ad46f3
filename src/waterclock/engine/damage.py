"""Finds the batch or table of a damaged file, and the command that fixes it."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from waterclock.batches.former_names import is_borrowed
from waterclock.batches.ledger_snapshot import RECOMPUTE
from waterclock.batches.records import Slice, TableRecord
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError, causes_of
from waterclock.files.filesystem import entry_path, file_exists, is_folder, map_each
from waterclock.files.object_stores import is_remote, store_error_from_spark
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Batching, Kind
from waterclock.planner.plan import RECOLLECT
from waterclock.storage.lake import Lake
from waterclock.storage.log.delta_log import (
    commit_file,
    damaged_log,
    find_log_fault,
    head,
    is_older_than,
    read_claims,
)
from waterclock.storage.slices.damage import FilePlace, place_in
from waterclock.timelabel.label import label_of

# error codes of damage that a person fixes outside of the run; the next run tries the batch again by itself
CODES_FIXED_ELSEWHERE = frozenset({"E605", "E752", "E753", "E643", "E754", "E758"})
_SLICE_CODES = frozenset({"E605", "E640"})
_WORDS = (
    "failed_read_file",
    "cannot_read_file_footer",
    "path_not_found",
    "filenotfoundexception",
    "file not found",
    "no such file",
    "checksum error",
    "is not a parquet file",
    "could not read footer",
    "parquet magic bytes",
)
_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")


def damaged_file(lake: Lake, error: BaseException) -> FilePlace | None:
    """Return the file of a table that an error reports as missing or damaged, or None if it reports none."""
    for seen in causes_of(error):
        if isinstance(seen, WaterclockError):
            if seen.code in _SLICE_CODES:
                return _find_place(lake, seen.where or "")
        else:
            text = str(seen)
            if store_error_from_spark(text, lake.root) is not None:
                return None  # the error names a file that could not be accessed, so its state is unknown
            if any(word in text.lower() for word in _WORDS) and (place := _find_place(lake, text)) is not None:
                return place
    return None


def _find_place(lake: Lake, text: str) -> FilePlace | None:
    """Return the file of a table that a text names, with the current name of a renamed table."""
    place = place_in(lake.root, text)
    if place is None or not lake.folders:
        return place
    folder = "tables/" + place.table.replace(".", "/", 1)
    return replace(place, table=next((name for name, own in lake.folders.items() if own == folder), place.table))


def damage_error(work: RunContext, error: BaseException) -> WaterclockError | None:
    """Convert an error to that of a damaged batch (E752), table (E753) or log (E643). None if no file is damaged.

    Only files of current slices and of the table's newest version count. Other states may be removed: reading one that
    is no longer kept is E640. In a branch, a missing file that it borrows is E475.
    """
    has_borrowed = any(map(is_borrowed, work.lake.folders.values()))
    borrowed = _borrowed_file_error(work, error) if has_borrowed else None
    return borrowed or _own_file_error(work, error)


def _own_file_error(work: RunContext, error: BaseException) -> WaterclockError | None:
    of_log = error if isinstance(error, WaterclockError) and error.code == "E643" else None
    place = damaged_file(work.lake, error) if of_log is None else _find_place(work.lake, of_log.where or "")
    table = None if place is None else work.flow.tables.get(place.table.removeprefix("publish/"))
    if place is None or table is None:
        return None
    where = f"{work.lake.location(place.table)}/{place.path}"
    if place.is_of_log:
        if of_log is not None:
            return damaged_log(work.lake.folder(table.name), of_log.where or where, of_log.why, name=table.name)
        return damaged_log(work.lake.folder(table.name), where, _damage_reason(work, place), name=table.name)
    why = error.why if isinstance(error, WaterclockError) and error.code == "E605" else _damage_reason(work, place)
    if place.label is None:
        return _damaged_table_error(table, where, why)
    piece = current_slice(work, table.name, place.label)
    if piece is None or piece.slice_path != place.slice_path:
        # imports delta-rs, which a run with nothing to do should not load
        from waterclock.storage.log.open_tables import is_live

        return _damaged_table_error(table, where, why) if is_live(work.lake.folder(place.table), place.path) else None
    is_manifest = place.path.endswith(".json") or place.path == place.slice_path
    return slice_error(work, table, piece, where=where, why=why, is_manifest=is_manifest)


def _borrowed_file_error(work: RunContext, error: BaseException) -> WaterclockError | None:
    """Return the error for a file that a branch borrows and cannot read; None if the error reports no such file."""
    for seen in causes_of(error):
        if isinstance(seen, WaterclockError) and seen.code == "E643":
            of_log = _find_borrowed_file(work.lake, seen.where or "")
            if of_log is not None and _has_lost_version(work, of_log[0]):
                return removed_rows_error(work, *of_log)
        is_slice = isinstance(seen, WaterclockError) and seen.code == "E605"
        text = f"{seen.where}" if isinstance(seen, WaterclockError) else str(seen)
        if not is_slice and not any(word in text.lower() for word in _WORDS):
            continue
        found = _find_borrowed_file(work.lake, text)
        if found is not None:
            return removed_rows_error(work, *found)
    return None


def _has_lost_version(work: RunContext, name: str) -> bool:
    """Return whether the log of a borrowed table has no commit of the version that is read, as after an erasure."""
    version = work.ledger.reads.table(name).head_version
    return not file_exists(commit_file(work.lake.folder(name), version))


def removed_state_error(work: RunContext, error: BaseException) -> WaterclockError | None:
    """Return the error for a state that a batch of a branch reads and that can no longer be computed (E640).

    Nothing is removed from a branch's own tables, so its base has removed the slices. None for any other error.
    """
    states = (seen for seen in causes_of(error) if isinstance(seen, WaterclockError) and seen.code == "E640")
    state = next(states, None) if work.project.bases else None
    if state is None:
        return None
    where = state.where or ""
    if (borrowed := _find_borrowed_file(work.lake, where)) is not None:
        return removed_rows_error(work, *borrowed)
    place = _find_place(work.lake, where)
    if place is None:
        return None
    return removed_rows_error(work, place.table, f"{work.lake.location(place.table)}/{place.path}")


def removed_rows_error(work: RunContext, table: str, where: str) -> WaterclockError:
    """Build the error for rows of a borrowed table that the base of a branch has removed."""
    return WaterclockError(
        "E475",
        f"{work.project.bases[0].env} has removed rows of {table} that the branch {work.project.env} borrows",
        where=where,
        why="a branch reads the versions that existed when it was created, and holds none of their files",
        fix=f"`waterclock branch delete {work.project.env}`, then create it again",
    )


def _find_borrowed_file(lake: Lake, text: str) -> tuple[str, str] | None:
    """Return the table and the path of a borrowed file that a text names: in a borrowed table, or behind a link."""
    for name, folder in lake.folders.items():
        if is_borrowed(folder) and (named := re.search(rf"{re.escape(folder)}/[^\s'\",;)]+", text)) is not None:
            return name, named[0]
    place = _find_place(lake, text)
    if place is None or is_remote(lake.root):
        return None
    path = Path(lake.folder(place.table), place.path)
    return (place.table, str(path)) if path.is_symlink() and not path.exists() else None


def _earlier_revision_error(work: RunContext, error: BaseException) -> WaterclockError | None:
    """Convert an error of a damaged or missing file that only an earlier revision of a batch contains.

    None for any other error, and for a state that is no longer kept (E640), which has its own fix.
    """
    if isinstance(error, WaterclockError) and error.code != "E605":
        return None
    place = damaged_file(work.lake, error)
    if place is None or place.label is None or place.slice_path is None or place.path == place.slice_path:
        return None
    claim = place.slice_path.rpartition("=")[2]
    return WaterclockError(
        "E605",
        f"{place.table}@{label_of(place.label)} is damaged: its revision of claim {claim}",
        where=f"{work.lake.location(place.table)}/{place.path}",
        why=error.why if isinstance(error, WaterclockError) else _damage_reason(work, place),
        fix="restore the file from a backup: no command makes the rows of an earlier revision again; or query as known "
        "at a later time, which reads a newer revision",
    )


def _damaged_table_error(table: Table, where: str, why: str | None) -> WaterclockError:
    return WaterclockError(
        "E753",
        f"a file of {table.name} is damaged",
        where=where,
        why=why,
        fix=f"`waterclock rebuild {table.name}` makes the table again from its stage",
    )


def slice_error(
    work: RunContext, table: Table, piece: Slice, *, where: str, why: str | None, is_manifest: bool
) -> WaterclockError:
    """Build the error for a batch whose sealed slice is damaged, with the command that fixes it."""
    return WaterclockError(
        "E752",
        f"{table.name}@{label_of(piece.label)} is damaged",
        where=where,
        why=why,
        fix=_suggest_fix(work, table, piece, is_manifest=is_manifest),
    )


def reporting_damage(
    ask: Callable[Concatenate[RunContext, _Given], _Answer],
) -> Callable[Concatenate[RunContext, _Given], _Answer]:
    """Decorate a function that reads tables, so that it raises E752 or E753 when a damaged file stops it."""

    @functools.wraps(ask)
    def wrapper(work: RunContext, /, *args: _Given.args, **options: _Given.kwargs) -> _Answer:
        try:
            return ask(work, *args, **options)
        except Exception as raised:
            damage = damage_error(work, raised) or _earlier_revision_error(work, raised)
            if damage is None:
                raise
            raise damage from raised

    return wrapper


def current_slice(work: RunContext, table: str, label: datetime) -> Slice | None:
    """Return the current slice of a batch, which readers use, or None if the batch is not done."""
    end = work.flow.tables[table].cadence.next(label)
    return next((piece for piece in work.ledger.reads.slices(table, label, end) if piece.label == label), None)


def find_repair_verb(work: RunContext, table: Table, label: datetime) -> str | None:
    """Return the command that restores a damaged slice: `recompute`, `recollect`, or None if no source has the rows."""
    batching = None if table.source is None else table.source.batching
    if table.kind is not Kind.COLLECT or batching in {Batching.ARRIVAL_TIME, Batching.EACH}:
        return RECOMPUTE
    if batching is Batching.CHANGES:
        return None  # the source may have discarded changes once their batch was committed
    if batching is Batching.SNAPSHOT:
        newest_due = table.cadence.previous(table.cadence.last_due(work.real_now()))
        return RECOLLECT if label == newest_due else None
    return RECOLLECT


def require_log(work: RunContext, name: str) -> None:
    """Check that a table's log and the ledger know the same commits, and that its rows exist.

    Raises E754 and E758, and E475 for a table that a branch borrows.
    """
    error = find_log_error(work, name)
    if error is not None:
        raise error


def find_log_error(work: RunContext, name: str) -> WaterclockError | None:
    """Return the error that `require_log` would raise, or None if log and ledger agree."""
    record = work.ledger.reads.find_table(name)
    return None if record is None else _log_errors(work, [record]).get(name)


def require_versions(work: RunContext, name: str) -> None:
    """Check that a table's log contains every version that the ledger knows. Raises E754 if it is older or gone."""
    folder, known = work.lake.folder(name), work.ledger.reads.table(name).head_version
    if is_older_than(folder, known):
        raise _older_log_error(work, name, known, head(folder))


def find_log_errors(work: RunContext, names: Collection[str] | None = None) -> dict[str, WaterclockError]:
    """Map each table of `names`, or of all, whose Delta log disagrees with the ledger to its error.

    A log is older than the ledger, missing or recreated without rows (E754), or newer than the ledger (E758). It is
    newer if it has commits of batches whose claims the ledger does not know: an older copy of the ledger was restored.
    Cost: one read of the ledger, one scan of each table's log.
    """
    records = [each for each in work.ledger.reads.tables() if each.head_version >= 0]
    return _log_errors(work, [each for each in records if names is None or each.name in names])


def _log_errors(work: RunContext, records: Sequence[TableRecord]) -> dict[str, WaterclockError]:
    looked = map_each(records, lambda record: _check_log(work, record), at=work.lake.root)
    errors = {record.name: it for record, it in zip(records, looked, strict=True) if isinstance(it, WaterclockError)}
    claims = {record.name: it for record, it in zip(records, looked, strict=True) if isinstance(it, frozenset) and it}
    # queried after the logs were read: a claim is recorded before it commits
    unknown = work.ledger.reads.unknown_claims(frozenset().union(*claims.values())) if claims else frozenset()
    return errors | {name: _older_ledger_error(work, name, of & unknown) for name, of in claims.items() if of & unknown}


def _check_log(work: RunContext, record: TableRecord) -> WaterclockError | frozenset[int]:
    """Return an error if a log is older than the ledger or unfinished. Otherwise return the claims of newer commits.

    A borrowed table has no claims: its environment goes on making batches. If its log was put back or recreated, the
    version that the branch reads is gone (E475).
    """
    folder, location = work.lake.folder(record.name), work.lake.location(record.name)
    found = find_log_fault(folder, record.head_version)
    if is_borrowed(location):  # a branch does not read the newer commits of its base
        return frozenset() if found is None else removed_rows_error(work, record.name, f"{location}/_delta_log")
    if found == "older":
        return _older_log_error(work, record.name, record.head_version, head(folder))
    if found == "unfinished":
        return _unfinished_log_error(work, record.name, record.head_version)
    return read_claims(folder, record.head_version, project=work.flow.project)


def _older_log_error(work: RunContext, name: str, known: int, found: int) -> WaterclockError:
    return WaterclockError(
        "E754",
        f"the log of {name} is older than the ledger" if found >= 0 else f"the log of {name} is gone",
        where=f"{work.lake.location(name)}/_delta_log",
        why=f"the ledger has recorded its version {known}, "
        + (f"and the log ends at {found}: an older copy was restored" if found >= 0 else "and the log has no version"),
        fix=(
            f"restore the newer copy; or `waterclock rebuild {name}` makes the table again from its stage, and "
            "requests the batches whose slices are gone"
        ),
    )


def _older_ledger_error(work: RunContext, name: str, claims: frozenset[int]) -> WaterclockError:
    return WaterclockError(
        "E758",
        f"the ledger is older than {name}",
        where=f"{work.lake.location(name)}/_delta_log",
        why=(
            f"the table has commits of claims that the ledger does not know, the newest of claim {max(claims)}: an "
            "older copy of the ledger was restored"
        ),
        fix=(
            "restore the newer ledger; or `waterclock ledger rebuild --force` moves this one aside, and makes a "
            "new one from the newest export and the commits since"
        ),
    )


def _unfinished_log_error(work: RunContext, name: str, known: int) -> WaterclockError:
    return WaterclockError(
        "E754",
        f"the log of {name} was recreated, but its rows are missing",
        where=f"{work.lake.location(name)}/_delta_log",
        why=f"its version {known} replaces one that was lost: a rebuild was interrupted",
        fix=f"run `waterclock rebuild {name}` again",
    )


def _suggest_fix(work: RunContext, table: Table, piece: Slice, *, is_manifest: bool) -> str:
    if is_manifest and table.kind is not Kind.PUBLISH:
        return (
            f"`waterclock rebuild {table.name}` seals it again if its rows are intact, and requests the batch "
            "again if not"
        )
    which = f"{table.name}@{label_of(piece.label)}"
    verb = find_repair_verb(work, table, piece.label)
    without = f"`waterclock skip {table.name} {label_of(piece.label)} --why '…'`"
    if verb is None:
        return f"{without}: its source no longer has that snapshot, so the next snapshot is used for its window"
    if table.kind is not Kind.COLLECT:
        return f"`waterclock {verb} {which}` makes it again"
    asks = "reads its source again" if verb == RECOLLECT else "reads its items in the archive again"
    return f"`waterclock {verb} {which}` {asks}; if they were removed, {without} continues without its rows"


def _damage_reason(work: RunContext, place: FilePlace) -> str:
    path = entry_path(work.lake.folder(place.table), place.path)
    if place.path == place.slice_path:
        return "its manifest is missing" if is_folder(path) else "its folder is gone"
    return "the file was cut off or changed since it was written" if file_exists(path) else "the file is gone"
