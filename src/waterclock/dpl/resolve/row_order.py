"""Checks the clauses that arrange the rows in the files of a table: SORT BY, CLUSTER BY, BUCKET BY, PARTITION BY."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from waterclock.dpl.query.column_scope import unknown_column
from waterclock.dpl.query.visible_columns import Names
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.source_text import Span, find_name
from waterclock.errors import WaterclockError
from waterclock.flow.column_types import type_of
from waterclock.flow.declarations import Column
from waterclock.flow.enums import FOLDS, TableType
from waterclock.flow.row_order import MOST_BUCKETS, MOST_CLUSTER_COLUMNS, WITH_BOUNDS, Buckets, has_bounds, has_order
from waterclock.timelabel.label import TIMELABEL

_SORT, _CLUSTER, _BUCKET, _PARTITION = "SORT BY", "CLUSTER BY", "BUCKET BY", "PARTITION BY"
_CODES = {_SORT: "E384", _CLUSTER: "E372", _BUCKET: "E373", _PARTITION: "E374"}


def check_row_order(
    draft: UnresolvedTable, columns: Names | None, known_types: Mapping[str, str]
) -> Iterator[WaterclockError]:
    """Yield errors for columns of these clauses that are unknown, named twice, or of a type without an order.

    `columns` are the columns that readers of the table see, or None if not all are known. `known_types` has their types
    in the last run; a type in the column list comes first.
    """
    if draft.declared.cluster_by:
        yield from _check_clustering(draft)
    if draft.declared.bucket_by is not None:
        yield from _check_buckets(draft, draft.declared.bucket_by)
    if draft.declared.partition_by:
        yield from _check_partitioning(draft)
    listed = {column.name.lower(): column for column in draft.declared.columns.named}
    types = {name.lower(): text for name, text in known_types.items()}
    types |= {name: column.type for name, column in listed.items() if column.type}
    buckets = draft.declared.bucket_by
    named = {
        _SORT: draft.declared.sort_by,
        _CLUSTER: draft.declared.cluster_by,
        _BUCKET: buckets.columns if buckets is not None else (),
        _PARTITION: draft.declared.partition_by,
    }
    for word, names in named.items():
        yield from _check_columns(draft, word, names, columns, listed, types)


def _check_columns(
    draft: UnresolvedTable,
    word: str,
    names: Sequence[str],
    columns: Names | None,
    listed: Mapping[str, Column],
    types: Mapping[str, str],
) -> Iterator[WaterclockError]:
    whole, code = draft.at(word), _CODES[word]
    seen: dict[str, str] = {}
    for name in names:
        lower, span = name.lower(), find_name(name, whole)
        column = listed.get(lower)
        if lower in seen:
            yield whole.refuse(
                code,
                f"{word} names {name} twice",
                why="rows are in its order already",
                fix="name each column once",
            )
        elif lower == TIMELABEL:
            yield span.refuse(
                code,
                f"{word} names timelabel",
                why="all rows of a slice have the same one, and readers find a label's files without it",
                fix="leave it out, or name the column by which the table is searched",
            )
        elif columns is not None and lower not in columns:
            yield unknown_column(span, name, {each: each for each in columns.values()}, [(draft.name, columns)])
        elif column is not None and column.ending is not None:
            yield span.refuse(
                code,
                f"{word} names {name}, which ends on {column.ending.day}",
                why="from that day on it is NULL",
                fix=f"leave {name} out: batches that are done stay as they are",
            )
        elif lower in types:
            yield from _check_type(name, types[lower], span, word)
        seen[lower] = name


def _check_type(name: str, written: str, span: Span, word: str) -> Iterator[WaterclockError]:
    type_ = type_of(written)
    if type_ is None:
        return
    if not has_order(type_) or (word in WITH_BOUNDS and not has_bounds(type_)):
        yield span.refuse(
            _CODES[word],
            f"{word} names {name}, which has the type {written}",
            why="Spark has no order for a MAP, nor for a value that contains one"
            if word not in WITH_BOUNDS
            else "Delta's log has no least and greatest values of this type, so no file would be skipped",
            fix=f"leave {name} out, or make the value that readers search a column of its own",
        )


def _check_buckets(draft: UnresolvedTable, buckets: Buckets) -> Iterator[WaterclockError]:
    whole, declared = draft.at(_BUCKET), draft.declared
    if declared.type is not TableType.PARTITIONED:
        yield whole.refuse(
            "E373",
            f"{draft.name} is a regular table, and cannot have {_BUCKET}",
            why="Spark reads the buckets of whole labels, and the files of a regular table may have rows of several",
            fix=f"add PARTITIONED after {draft.name}, or leave {_BUCKET} out",
        )
    if not 2 <= buckets.number <= MOST_BUCKETS:
        yield whole.refuse(
            "E373",
            f"{_BUCKET} into {buckets.number}",
            why=f"a label has 2 to {MOST_BUCKETS} buckets, each with a file of its own",
            fix="write about as many as tasks that read a label, so that a bucket has 8 MB or more",
        )
    for word in (_SORT, _CLUSTER, "SHUFFLE"):
        if draft.statement.clause(word) is not None:
            text = "SHUFFLE NONE" if word == "SHUFFLE" else word
            yield draft.at(word).refuse(
                "E373",
                f"{text} beside {_BUCKET}",
                why="to fill the buckets, Spark moves rows between tasks"
                if word == "SHUFFLE"
                else f"the rows of each file are in the order of {_BUCKET}",
                fix=f"leave {text} or {_BUCKET} out",
            )


def _check_clustering(draft: UnresolvedTable) -> Iterator[WaterclockError]:
    whole, declared = draft.at(_CLUSTER), draft.declared
    if len(declared.cluster_by) > MOST_CLUSTER_COLUMNS:
        yield whole.refuse(
            "E372",
            f"{_CLUSTER} names {len(declared.cluster_by)} columns",
            why="with more than three columns, a search for one of them would skip few files",
            fix="name the one to three columns that readers search most",
        )
    if declared.sort_by:
        yield draft.at(_SORT).refuse(
            "E372",
            f"{_SORT} beside {_CLUSTER}",
            why=f"the rows of each file are in the order of {_CLUSTER}",
            fix=f"leave {_SORT} or {_CLUSTER} out",
        )
    yield from _refuse_fold(draft, _CLUSTER)
    if declared.is_unshuffled:
        yield whole.refuse(
            "E372",
            f"{_CLUSTER} beside SHUFFLE NONE",
            why="the rows of a file come from all tasks, so Spark moves rows between tasks",
            fix=f"use {_SORT}, which orders the rows of each task, or leave SHUFFLE NONE out",
        )


def _check_partitioning(draft: UnresolvedTable) -> Iterator[WaterclockError]:
    whole, declared = draft.at(_PARTITION), draft.declared
    if len(declared.partition_by) > 1:
        yield whole.refuse(
            "E374",
            f"{_PARTITION} names {len(declared.partition_by)} columns",
            why="each label would have a file for each combination of values: many small files",
            fix=f"name one column, and the others in {_SORT}; or use {_CLUSTER}",
        )
    yield from _refuse_fold(draft, _PARTITION)
    for word in (_CLUSTER, _BUCKET, "SHUFFLE"):
        if draft.statement.clause(word) is not None:
            text = "SHUFFLE NONE" if word == "SHUFFLE" else word
            yield draft.at(word).refuse(
                "E374",
                f"{text} beside {_PARTITION}",
                why="the rows of a value come from all tasks, so Spark moves rows between tasks"
                if word == "SHUFFLE"
                else "both say into which file a row goes",
                fix=f"leave {text} or {_PARTITION} out",
            )


def _refuse_fold(draft: UnresolvedTable, word: str) -> Iterator[WaterclockError]:
    """Yield the error of a MERGE or TEMPORAL table with a clause that splits the rows of a label into files."""
    if draft.declared.mode in FOLDS:
        yield draft.at(word).refuse(
            _CODES[word],
            f"a {draft.declared.mode.name} table cannot have {word}",
            why="its files are replaced one by one as rows change",
            fix=f"use {_SORT}, which orders the rows of each file",
        )
