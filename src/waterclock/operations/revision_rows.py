"""Reads and compares the rows of a batch's revisions directly from sealed files.

No Spark is started: the rows of a label are in separate files, which stay as they were sealed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from waterclock.batches.audit_records import Attempt, Audit, Revision
from waterclock.engine.branching.known_branches import missing_branch_error
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.flow.open_windows import open_table_of
from waterclock.flow.table_visibility import TableVisibility, form_of
from waterclock.operations.branch_plans import related_environments
from waterclock.operations.compared_environment import query_other_ledger, require_declared
from waterclock.operations.project_opening import OpenedProject, open_project
from waterclock.permissions.users_and_roles import Right, SignIn
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from waterclock.dpl.project import Project
    from waterclock.ledger.ledger import Ledger
    from waterclock.permissions.users_and_roles import Person
    from waterclock.storage.slices.manifest import Manifest

MOST_COMPARED = 200_000  # rows of a revision that are loaded for a comparison
MOST_COMPARED_BYTES = 128 << 20  # of the values of a revision that are loaded for a comparison
MOST_SHOWN = 50
_MOST_OPEN = 20  # open windows that are searched for rows
_ROWS_AT_ONCE = 1000  # a small file may have large values: equal ones are stored once
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class RowDifference:
    """A row for display: `same`, `changed`, `new` or `gone`. `was` contains the previous values of a changed row."""

    kind: str
    values: Row
    was: Row | None = None


@dataclass(frozen=True, slots=True)
class RevisionRows:
    """The rows of a revision, compared with those of another.

    `compared` counts the rows of both revisions, `differing` those that are not the same in both. Without a
    comparison, `differing` is None: if there is no other revision, or if one of them has more than MOST_COMPARED rows
    or MOST_COMPARED_BYTES.
    """

    columns: tuple[str, ...]
    rows: int
    shown: tuple[RowDifference, ...]
    differing: int | None = None
    compared: int = 0


@dataclass(frozen=True, slots=True)
class StoredRevision:
    """A revision and the folder of its table, of this environment or of another one."""

    folder: str
    revision: Revision


def revisions_of(audit: Audit) -> tuple[Attempt, ...]:
    """Return the attempts that committed the label, newest first."""
    return tuple(attempt for attempt in reversed(audit.attempts) if attempt.revision is not None)


def revision_rows(
    at: OpenedProject,
    table: Table,
    audit: Audit,
    claim: int,
    against: StoredRevision | None = None,
    *,
    only_differing: bool = False,
) -> RevisionRows:
    """Return rows of a label's revision by claim, compared with another revision, label or environment.

    Cost: the first rows of a slice; with `against`, all rows of both slices, each up to MOST_COMPARED and
    MOST_COMPARED_BYTES.
    Raises E516 if the claim committed no revision of the label, E605 if its files are gone or damaged.
    """
    found = find_stored_revision(at, table, audit, claim)
    folder, one = found.folder, _read_manifest_of(found)
    other = None if against is None else _read_manifest_of(against)
    both = None
    if against is not None and other is not None and max(one.rows, other.rows) <= MOST_COMPARED:
        both = _read_all_rows(folder, one), _read_all_rows(against.folder, other)
    if both is None or both[0] is None or both[1] is None:
        columns, rows = _convert(_read_columns(folder, one, MOST_SHOWN))
        return RevisionRows(columns, one.rows, tuple(RowDifference("same", row) for row in rows))
    (columns, rows), (before, old) = both[0], both[1]
    columns = columns or before  # a revision without rows may have no file
    old = _reorder_columns(old, before, columns)
    compared = list(compare_rows(rows, old, [columns.index(key) for key in table.keys if key in columns]))
    differing = sum(1 for row in compared if row.kind != "same")
    shown = [row for row in compared if row.kind != "same"] if only_differing else compared
    return RevisionRows(columns, one.rows, tuple(shown[:MOST_SHOWN]), differing, len(compared))


def open_window_rows(at: OpenedProject, table: Table) -> tuple[datetime, RevisionRows] | None:
    """Return the newest open window of a table with CONTINUOUS that has rows, and its first rows; None without one.

    Rows of a window that is done or held, or that reads a held one, are not returned. A tick can replace the rows while
    they are read. They stay on disk for minutes, so the rows of one tick are returned. Cost: the first rows of a slice.
    Raises E605 if a file is gone or damaged.
    """
    from waterclock.engine.continuous.open_labels import reads_held_label
    from waterclock.engine.ledger_opening import lake_of
    from waterclock.storage.commit.speed_tables import read_slices, read_state

    folder = lake_of(at.project, at.ledger).folder(open_table_of(table.name))
    state, facts = read_state(folder), at.snapshot.of(table.name)
    for label in sorted(state.slices, reverse=True)[:_MOST_OPEN]:
        if facts.covered.covers_instant(label):
            continue
        if reads_held_label(at.flow, at.snapshot, table.name, label, table.cadence.next(label)):
            continue  # as `<table>_view`, also if no tick has withdrawn the rows yet
        manifest = read_slices(folder, replace(state, slices={label: state.slices[label]})).get(label)
        if manifest is not None and manifest.rows:
            columns, rows = _convert(_read_columns(folder, manifest, MOST_SHOWN))
            return label, RevisionRows(columns, manifest.rows, tuple(RowDifference("same", row) for row in rows))
    return None


def find_stored_revision(at: OpenedProject, table: Table, audit: Audit, claim: int) -> StoredRevision:
    """Return the revision that a claim committed. Raises E516 if it committed none of the label."""
    return StoredRevision(_table_folder(at, table), _find_revision(table, audit, claim))


def find_revision_elsewhere(
    at: OpenedProject, table: Table, label: datetime, env: str, person: Person | None
) -> StoredRevision:
    """Return the current revision of a label in the environment that a branch borrows from, or in a branch of this one.

    The person must see the whole table there, too. Its ledger is opened read-only.

    Raises E470 for an environment that is neither, E511 if it does not declare the table, E516 if it has not made the
    label, E946 without the right, and as `query_other_ledger`.
    """
    from waterclock.engine.ledger_opening import lake_of

    if env not in related_environments(at.project):
        raise missing_branch_error(at.project.root, env)
    other = open_project(at.project.root, env)
    _require_whole_table(at.project, other, person, table.name)
    require_declared(other, table.name)

    def read(ledger: Ledger) -> list[StoredRevision]:
        if ledger.reads.find_table(table.name) is None or not ledger.past.made_labels(
            table.name, label, table.cadence.next(label)
        ):
            return []
        current = ledger.past.audit(table.name, label).current
        if current is None or current.revision is None:
            return []
        return [StoredRevision(lake_of(other, ledger).folder(table.name), current.revision)]

    found = query_other_ledger(other, read)
    if not found:
        where = f"{table.name}@{label_of(label)}"
        raise WaterclockError(
            "E516",
            f"{where} was not made in {env}",
            where=where,
            why="there are no rows to compare with",
            fix=f"`waterclock plan {table.name} --env {env}` shows the due batches",
        )
    return found[0]


def _require_whole_table(own: Project, other: Project, person: Person | None, name: str) -> None:
    """Raise E946 unless a person sees the whole table in another environment. Its users may be other ones."""
    if person is not None and person.sign_in is SignIn.OWNER:
        return
    there = find_person_in(own, other, person)
    if there is None or form_of(other.flow, there, name) is not TableVisibility.WHOLE:
        raise WaterclockError(
            "E946",
            f"the rows of {name} in {other.env} are only for users who may read the whole table there",
            where=f"[env.{other.env}]",
            why="it is not known who asks" if person is None else f"{person.name} may not",
            fix="ask an administrator for a role in that environment",
        )


def find_person_in(own: Project, other: Project, person: Person | None) -> Person | None:
    """Return a person with the rights in another environment, whose users may be other ones; None without LOOK."""
    is_alike = own.access == other.access
    there = person if person is None or is_alike else other.access.person(person.name, person.sign_in)
    return there if there is not None and there.may(Right.LOOK) else None


def _table_folder(at: OpenedProject, table: Table) -> str:
    from waterclock.engine.ledger_opening import lake_of

    return lake_of(at.project, at.ledger).folder(table.name)


def _find_revision(table: Table, audit: Audit, claim: int) -> Revision:
    found = next((each.revision for each in audit.attempts if each.claim == claim), None)
    if found is None:
        where = f"{table.name}@{label_of(audit.cell.label)}"
        raise WaterclockError(
            "E516",
            f"claim {claim} is not a revision of {where}",
            where=where,
            why="a revision is the claim that committed it",
            fix=f"`waterclock audit {where}` lists them",
        )
    return found


def _read_manifest_of(stored: StoredRevision) -> Manifest:
    from waterclock.storage.slices.manifest import read_manifest

    return read_manifest(stored.folder, stored.revision.slice_path)


def _read_all_rows(folder: str, manifest: Manifest) -> tuple[tuple[str, ...], list[Row]] | None:
    """Read all rows of a slice, without the label column; None if they are too large for a comparison."""
    parts = _read_columns(folder, manifest, MOST_COMPARED)
    return None if sum(part.nbytes for part in parts) > MOST_COMPARED_BYTES else _convert(parts)


def _read_columns(folder: str, manifest: Manifest, most: int) -> list[pa.Table]:
    """Read the first rows of a slice, up to a row at which their values exceed MOST_COMPARED_BYTES.

    Raises E605 if a file is gone or damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from waterclock.files.filesystem import arrow_source, entry_path

    parts: list[pa.Table] = []
    left, bytes_left = most, MOST_COMPARED_BYTES
    try:
        for file in manifest.files:
            if left <= 0 or bytes_left < 0:
                break
            with pq.ParquetFile(arrow_source(entry_path(folder, file.path), file.size)) as parquet:
                for batch in parquet.iter_batches(batch_size=min(left, _ROWS_AT_ONCE)):
                    parts.append(pa.Table.from_batches([batch]).slice(0, left))
                    left -= parts[-1].num_rows
                    bytes_left -= parts[-1].nbytes
                    if left <= 0 or bytes_left < 0:
                        break
    except (OSError, pa.ArrowException) as error:
        raise WaterclockError(
            "E605",
            "the rows of a revision cannot be read",
            where=f"{manifest.table}@{label_of(manifest.label)}",
            why=f"a file of claim {manifest.claim} is gone or damaged: {error}",
            fix="`waterclock audit` lists its other revisions",
        ) from error
    return parts


def _convert(parts: Sequence[pa.Table]) -> tuple[tuple[str, ...], list[Row]]:
    """Return the names of columns, and rows, without the label column."""
    import pyarrow as pa

    from waterclock.spark_sql import INTERNAL_PREFIX

    if not parts:
        return (), []
    found = pa.concat_tables(parts, promote_options="permissive")
    # a slice with quarantine rules also has the column that marks quarantined rows
    names = tuple(name for name in found.column_names if name != TIMELABEL and not name.startswith(INTERNAL_PREFIX))
    values = [found.column(name).to_pylist(maps_as_pydicts="lossy") for name in names]
    return names, list(zip(*values, strict=True))


def _reorder_columns(rows: Sequence[Row], have: Sequence[str], wanted: Sequence[str]) -> list[Row]:
    """Reorder the values of older rows to the columns `wanted`. Columns that they do not have become None."""
    places = [have.index(name) if name in have else None for name in wanted]
    return [tuple(None if place is None else row[place] for place in places) for row in rows]


def compare_rows(rows: Sequence[Row], old: Sequence[Row], keys: Sequence[int]) -> Iterator[RowDifference]:
    """Compare rows with older rows, in the same way as `waterclock diff`. Yield `rows`, then removed rows.

    Equal rows are paired first. `keys` are the places of the key's columns: of the remaining rows with a key, one on
    each side is a changed row; all others are new or gone.
    """
    left = Counter(map(_to_hashable, old))
    are_same = [_take(left, row) for row in rows]
    removed = [row for row in old if _take(left, row)]
    news = Counter(_key_of(row, keys) for row, is_same in zip(rows, are_same, strict=True) if not is_same)
    olds: defaultdict[Any, list[Row]] = defaultdict(list)
    for row in removed:
        olds[_key_of(row, keys)].append(row)
    paired = {key for key, of_key in olds.items() if keys and len(of_key) == news[key] == 1}
    for row, is_same in zip(rows, are_same, strict=True):
        key = _key_of(row, keys)
        if is_same:
            yield RowDifference("same", row)
        else:
            yield RowDifference("changed", row, olds[key][0]) if key in paired else RowDifference("new", row)
    yield from (RowDifference("gone", row) for row in removed if _key_of(row, keys) not in paired)


def _take(left: Counter[Any], row: Row) -> bool:
    """Return whether a row is among those that are left, and remove it from them."""
    found = _to_hashable(row)
    is_there = left[found] > 0
    left[found] -= is_there
    return is_there


def _key_of(row: Row, keys: Sequence[int]) -> Any:
    return _to_hashable(tuple(row[key] for key in keys))


def _to_hashable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return frozenset((_to_hashable(name), _to_hashable(inner)) for name, inner in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_to_hashable, value))
    return "nan" if isinstance(value, float) and value != value else value  # noqa: PLR0124 - NaN differs from itself
