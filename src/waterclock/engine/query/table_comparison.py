"""Compares two sides of a table label by label: by digest, and only where digests differ by schema and rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, TypeVar

from waterclock.engine.damage import damaged_file, reporting_damage
from waterclock.engine.query.comparable_values import common_type
from waterclock.engine.query.compared_revisions import (
    ComparedSide,
    are_one_slice,
    are_same_rows,
    compare_measures,
)
from waterclock.engine.query.granted_frames import grant_frame
from waterclock.engine.query.held_rows import group_by_schema
from waterclock.engine.query.row_comparison import (
    ColumnChanges,
    ComparedRows,
    DifferingRow,
    RowCounts,
    compare_rows,
    count_rows,
    match_columns,
)
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.granted_plan import prepare_restricted_session
from waterclock.errors import WaterclockError
from waterclock.flow.grants import Grant
from waterclock.permissions.users_and_roles import Person
from waterclock.similar_names import did_you_mean
from waterclock.spark_sql import fold_case, is_internal, quote_name
from waterclock.storage.schema_types import fields_of, type_text
from waterclock.storage.slices.manifest import Manifest, is_sealed, read_manifest
from waterclock.storage.slices.read import frame_of_slices, no_rows, table_schema
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

R = TypeVar("R")


MOST_ROWS = 10_000
"""The largest number of differing rows of each kind that a user can request."""


@dataclass(frozen=True, slots=True)
class ComparisonOptions:
    """Determines which differences count, and how many differing rows of each kind are returned.

    `key` replaces the KEY of the table. `ignored` are columns that do not count. A FLOAT or DOUBLE may change by
    `tolerance` in rows that have a key.
    """

    key: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    tolerance: float = 0.0
    most_shown: int = 20


@dataclass(frozen=True, slots=True)
class ViewedSides:
    """The person on each side, and their grants on the table. None: the person sees all of that side."""

    before: tuple[Person, Sequence[Grant]] | None
    after: tuple[Person, Sequence[Grant]] | None


@dataclass(frozen=True, slots=True)
class ColumnTypeChange:
    """A column with other types before and after, or which one side does not have (None), in `labels` labels."""

    column: str
    before: str | None
    after: str | None
    labels: int


@dataclass(frozen=True, slots=True)
class LabelDifference:
    """A label that differs: its rows on each side (None if a side does not have it), and the differing rows by kind.

    `has_other_columns`: its columns or their types differ. `measures` are those that differ, before and after.
    """

    label: datetime
    before: int | None
    after: int | None
    counts: RowCounts = field(default_factory=RowCounts)
    has_other_columns: bool = False
    measures: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)

    @property
    def differs(self) -> bool:
        """Whether rows, columns or the presence of the label differ. Measures alone are no difference."""
        is_on_one_side = (self.before is None) != (self.after is None)
        return is_on_one_side or self.has_other_columns or self.counts.differing > 0


@dataclass(frozen=True, slots=True)
class TableComparison:
    """The result of comparing a table's labels.

    `equal` counts the labels without a difference, of which `read` were read. `labels` are the labels with a
    difference, and equal ones whose measures differ. `key` is empty if rows were compared as multisets. `unlike` are
    columns whose types cannot be compared, so that their values were not.
    """

    table: str
    key: tuple[str, ...] = ()
    equal: int = 0
    read: int = 0
    labels: tuple[LabelDifference, ...] = ()
    types: tuple[ColumnTypeChange, ...] = ()
    unlike: tuple[str, ...] = ()
    columns: tuple[ColumnChanges, ...] = ()
    sample: tuple[DifferingRow, ...] = ()

    @property
    def differing(self) -> tuple[LabelDifference, ...]:
        """The labels that differ."""
        return tuple(each for each in self.labels if each.differs)

    @property
    def counts(self) -> RowCounts:
        """The differing rows of all labels that both sides have."""
        return sum((each.counts for each in self.labels), RowCounts())


@reporting_damage
def compare_table(
    work: RunContext,
    before: ComparedSide,
    after: ComparedSide,
    options: ComparisonOptions,
    *,
    viewed: ViewedSides | None = None,
    is_strict: bool = True,
) -> TableComparison:
    """Compare the labels of both sides. `viewed` limits both to what a person sees.

    Labels with one slice or equal digests are equal, and no file of them is read but the manifests of labels without
    rows, whose columns may differ. All others are read by one query. If `viewed`, all labels are read, because digests
    and measures are those of all rows. With `is_strict`, the options may name only columns of the table.

    Raises E640 if slices to read are gone, E605 or E752 for damaged files, E517 for an unknown column, E946 if `viewed`
    does not include the column `timelabel`.
    """
    if viewed is not None:
        return _compare_viewed(work, before, after, options, viewed)
    both = sorted(before.revisions.keys() & after.revisions.keys())
    unequal = _find_unequal(work, before, after, options, both)
    found = [
        _describe_label(before, after, label) for label in sorted(before.revisions.keys() | after.revisions.keys())
    ]
    if not unequal:
        return TableComparison(after.table.name, equal=len(both), labels=tuple(filter(_is_shown, found)))
    read = _read_and_compare(work, work.sessions.own, before, after, options, (unequal, unequal), is_strict=is_strict)
    other_columns = read.other_columns
    found = [
        replace(
            each,
            counts=read.rows.counts.get(label_of(each.label), RowCounts()),
            has_other_columns=each.label in other_columns,
        )
        for each in found
    ]
    is_equal = len(both) - sum(each.differs for each in found if each.before is not None and each.after is not None)
    return TableComparison(
        after.table.name,
        read.key,
        is_equal,
        len(unequal),
        tuple(filter(_is_shown, found)),
        read.types,
        read.unlike,
        read.rows.columns,
        read.rows.sample,
    )


def _find_unequal(
    work: RunContext, before: ComparedSide, after: ComparedSide, options: ComparisonOptions, both: Sequence[datetime]
) -> list[datetime]:
    """Return the labels whose rows or columns differ as far as the ledgers and, without rows, the manifests show."""
    same = [label for label in both if are_same_rows(before, after, label)]
    empty = [label for label in same if not after.revisions[label].rows and not are_one_slice(before, after, label)]
    ignored = _ignored_columns(before, after, options)

    def compare() -> Mapping[datetime, Changes]:
        return _compare_columns(_read_manifests(before, empty), _read_manifests(after, empty), ignored)

    differing = _reporting_damage_of(work, before, compare) if empty else {}
    return sorted({*both} - {*same} | differing.keys())


def _ignored_columns(before: ComparedSide, after: ComparedSide, options: ComparisonOptions) -> frozenset[str]:
    """Return the names (see `fold_case`) of columns that are not compared.

    These are the columns that the options exclude, and HIDDEN columns that are no keys.
    """
    key = {*map(fold_case, options.key or after.table.keys)}
    hidden = {*map(fold_case, (*before.table.hidden_columns, *after.table.hidden_columns))}
    return frozenset({*map(fold_case, options.ignored)} | hidden - key)


def _is_shown(label: LabelDifference) -> bool:
    return label.differs or bool(label.measures)


def _describe_label(before: ComparedSide, after: ComparedSide, label: datetime) -> LabelDifference:
    old, new = before.revisions.get(label), after.revisions.get(label)
    return LabelDifference(
        label,
        None if old is None else old.rows,
        None if new is None else new.rows,
        measures={} if old is None or new is None else compare_measures(old, new),
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """The result for the labels that were read."""

    key: tuple[str, ...]
    rows: ComparedRows
    types: tuple[ColumnTypeChange, ...]
    unlike: tuple[str, ...]
    other_columns: frozenset[datetime] = frozenset()
    row_counts: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {})


def _compare_viewed(
    work: RunContext, before: ComparedSide, after: ComparedSide, options: ComparisonOptions, viewed: ViewedSides
) -> TableComparison:
    """Compare the rows and columns that a person sees. Labels of which they see no row on any side are left out."""
    labels = sorted(before.revisions), sorted(after.revisions)

    def open_session() -> SparkSession:
        spark = work.sessions.own()
        prepare_restricted_session(spark)
        return spark

    try:
        read = _read_and_compare(work, open_session, before, after, options, labels, viewed=viewed, is_strict=False)
    except WaterclockError:
        raise
    except Exception:  # noqa: BLE001 - its text may quote a row
        raise WaterclockError(
            "E947",
            f"the comparison of {after.table.name} failed while it ran",
            where=after.table.name,
            why="the reason is not shown, because it could contain values that are not granted to you",
            fix="ask an administrator to compare the table",
        ) from None
    counted = read.row_counts
    found = [
        LabelDifference(
            label,
            counted[0].get(text),
            counted[1].get(text),
            read.rows.counts.get(text, RowCounts()) if text in counted[0] and text in counted[1] else RowCounts(),
        )
        for label in sorted({*labels[0], *labels[1]})
        if (text := label_of(label)) in counted[0] or text in counted[1]
    ]
    differing = tuple(each for each in found if each.differs)
    rows = read.rows
    return TableComparison(
        after.table.name,
        read.key,
        len(found) - len(differing),
        0,
        differing,
        read.types,
        read.unlike,
        rows.columns,
        rows.sample,
    )


def _read_and_compare(  # noqa: PLR0913 - both sides and the options
    work: RunContext,
    open_session: Callable[[], SparkSession],
    before: ComparedSide,
    after: ComparedSide,
    options: ComparisonOptions,
    labels: tuple[Sequence[datetime], Sequence[datetime]],
    *,
    viewed: ViewedSides | None = None,
    is_strict: bool,
) -> _Read:
    """Compare labels of both sides by their columns and rows. Raises E605 for a damaged file of another environment."""

    def compare() -> _Read:
        olds, news = _read_manifests(before, labels[0]), _read_manifests(after, labels[1])
        return _compare_slices(
            work, open_session, before, after, options, olds, news, viewed=viewed, is_strict=is_strict
        )

    return _reporting_damage_of(work, before, compare)


def _compare_slices(  # noqa: PLR0913 - both sides and the options
    work: RunContext,
    open_session: Callable[[], SparkSession],
    before: ComparedSide,
    after: ComparedSide,
    options: ComparisonOptions,
    olds: Mapping[datetime, Manifest],
    news: Mapping[datetime, Manifest],
    *,
    viewed: ViewedSides | None,
    is_strict: bool,
) -> _Read:
    key, ignored = options.key or after.table.keys, _ignored_columns(before, after, options)
    if is_strict:
        _require_columns((*options.key, *options.ignored), (*olds.values(), *news.values()), after.table.name)
    changed = _compare_columns(olds, news, ignored) if viewed is None else {}
    spark = open_session()
    old_rows = _frame_of(work, spark, before, olds, None if viewed is None else viewed.before)
    new_rows = _frame_of(work, spark, after, news, None if viewed is None else viewed.after)
    columns = match_columns(old_rows, new_rows, key, tuple(ignored))
    most = len({*olds, *news})
    rows = compare_rows(
        old_rows, new_rows, columns, most_labels=most, tolerance=options.tolerance, most_shown=options.most_shown
    )
    counted = ({}, {}) if viewed is None else (count_rows(old_rows, most), count_rows(new_rows, most))
    types = _summarize(changed) if viewed is None else _compare_frames(old_rows, new_rows, ignored, most)
    return _Read(columns.key, rows, types, columns.unlike, frozenset(changed), counted)


def _reporting_damage_of(work: RunContext, side: ComparedSide, compare: Callable[[], R]) -> R:
    """Call a function that reads the files of a side. Raises E605 if one is damaged that is another environment's."""
    try:
        return compare()
    except Exception as raised:
        place = None if side.lake == work.lake else damaged_file(side.lake, raised)
        if place is None:
            raise
        raise WaterclockError(
            "E605",
            f"a file of {side.table.name} {side.name} is damaged or gone",
            where=f"{side.lake.location(place.table)}/{place.path}",
            fix=f"`waterclock maintain{'' if side.env is None else f' --env {side.env}'}` reports the fix; or compare "
            "other labels",
        ) from raised


def _read_manifests(side: ComparedSide, labels: Iterable[datetime]) -> dict[datetime, Manifest]:
    """Read the manifests of a side's slices. Raises E640 if earlier slices are gone, E605 if one is damaged.

    No command removes a current slice. If one is gone, it is damaged.
    """
    paths = {label: side.revisions[label].slice_path for label in labels}
    earlier = {label: path for label, path in paths.items() if not side.revisions[label].is_current}
    gone = [label for label, path in earlier.items() if not is_sealed(side.folder, path)]
    if gone:
        raise _gone_error(side, gone, next((label for label in paths if label not in gone), None))
    return {label: read_manifest(side.folder, path) for label, path in paths.items()}


def _gone_error(side: ComparedSide, gone: Sequence[datetime], kept: datetime | None) -> WaterclockError:
    name, number = side.table.name, len(gone)
    where = ", ".join(f"{name}@{label_of(label)}" for label in gone[:3]) + (", …" if number > 3 else "")
    return WaterclockError(
        "E640",
        f"the rows of {'a label' if number == 1 else f'{number} labels'} {side.name} are gone",
        where=where,
        why="their slices were removed: `waterclock maintain` removes replaced slices after KEEP VERSIONS, or 30 days",
        fix=(
            f"compare labels whose slices are kept{'' if kept is None else f', such as {name}@{label_of(kept)}'}; a "
            "longer KEEP VERSIONS keeps more"
        ),
    )


def _require_columns(named: Iterable[str], manifests: Iterable[Manifest], table: str) -> None:
    """Raise E517 for a name that is no column of any slice."""
    known = {name: None for manifest in manifests for name in fields_of(manifest.schema) if not is_internal(name)}
    folded = {fold_case(name) for name in known}
    for name in named:
        if fold_case(name) not in folded:
            raise WaterclockError(
                "E517",
                f"{table} has no column {name}",
                where=table,
                why=f"the compared rows have {', '.join(known)}",
                fix=did_you_mean(name, known),
            )


def _columns_of(manifest: Manifest, ignored: frozenset[str]) -> dict[str, tuple[str, str]]:
    """Map the folded names of a slice's columns to their names and types."""
    return {
        fold_case(name): (name, type_text(of["type"]))
        for name, of in fields_of(manifest.schema).items()
        if name.lower() != TIMELABEL and not is_internal(name) and fold_case(name) not in ignored
    }


Columns = Mapping[str, tuple[str, str]]
Changes = Mapping[tuple[str, str | None, str | None], None]


def _compare_columns(
    olds: Mapping[datetime, Manifest], news: Mapping[datetime, Manifest], ignored: frozenset[str]
) -> dict[datetime, Changes]:
    """Map each label whose columns differ to the differences: name, type before and type after."""
    found = {
        label: _changed_columns(_columns_of(old, ignored), _columns_of(news[label], ignored))
        for label, old in olds.items()
    }
    return {label: changes for label, changes in found.items() if changes}


def _changed_columns(old: Columns, new: Columns) -> Changes:
    changes = dict[tuple[str, str | None, str | None], None]()
    for folded in dict.fromkeys((*new, *old)):
        name, was = old.get(folded, (None, None))
        name_now, now = new.get(folded, (None, None))
        if was != now:
            changes[name_now or name or folded, was, now] = None
    return changes


def _summarize(changed: Mapping[datetime, Changes]) -> tuple[ColumnTypeChange, ...]:
    labels: dict[tuple[str, str | None, str | None], int] = defaultdict(int)
    for changes in changed.values():
        for change in changes:
            labels[change] += 1
    return tuple(ColumnTypeChange(*change, number) for change, number in labels.items())


def _compare_frames(
    before: DataFrame, after: DataFrame, ignored: frozenset[str], labels: int
) -> tuple[ColumnTypeChange, ...]:
    """Compare the columns that a person sees."""
    old, new = (
        {fold_case(name): (name, kind) for name, kind in rows.dtypes if fold_case(name) not in ignored}
        for rows in (before, after)
    )
    return tuple(ColumnTypeChange(*change, labels) for change in _changed_columns(old, new))


def _frame_of(
    work: RunContext,
    spark: SparkSession,
    side: ComparedSide,
    manifests: Mapping[datetime, Manifest],
    viewer: tuple[Person, Sequence[Grant]] | None,
) -> DataFrame:
    """Return the rows of a side's slices, as a person sees them if `viewer` is given."""
    groups = [frame_of_slices(spark, side.folder, alike) for alike in group_by_schema(manifests.values())]
    rows = _union(groups) if groups else no_rows(spark, table_schema(side.folder))
    if viewer is None:
        return rows
    person, grants = viewer
    granted, seen = grant_frame(work, spark, rows, grants, person, side.table.name)
    if not any(column.name.lower() == TIMELABEL and column.is_plain for column in seen.columns):
        raise WaterclockError(
            "E946",
            f"the labels of {side.table.name} are not granted to {person.name}",
            where=side.table.name,
            why="rows are compared by label, in the column timelabel",
            fix="ask an administrator for a GRANT of timelabel",
        )
    return granted


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all frames. A column with several types gets their common type, or else is text."""
    types: defaultdict[str, list[DataType]] = defaultdict(list)
    for frame in frames:
        for each in frame.schema.fields:
            types[each.name].append(each.dataType)
    common = {name: common_type(of) for name, of in types.items() if len({it.simpleString() for it in of}) > 1}
    texts = {name: "STRING" if kind is None else kind.simpleString() for name, kind in common.items()}
    cast = (
        frame.selectExpr(
            *(
                f"CAST({quote_name(name)} AS {texts[name]}) AS {quote_name(name)}"
                if name in texts
                else quote_name(name)
                for name in frame.columns
            )
        )
        for frame in frames
    )
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), cast)
