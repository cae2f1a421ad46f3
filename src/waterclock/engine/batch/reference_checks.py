"""Marks rows whose parent is missing while they are written, by a join with the parent's keys (REFERENCES)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - F is the usual name

from waterclock.engine.batch.row_filters import orphan_marks
from waterclock.engine.reads.pin import PinnedRead, frame_of
from waterclock.engine.run_context import RunContext
from waterclock.flow.checked_references import CheckedReference, checked_references
from waterclock.flow.declarations import Table
from waterclock.spark_sql import INTERNAL_PREFIX, quote_name, sql_text
from waterclock.storage.lake import vault_folder
from waterclock.storage.token_vault import TOKEN, VALUE, read_tokens, with_tokens_as_values
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STATE, _FOUND = f"{INTERNAL_PREFIX}state", f"{INTERNAL_PREFIX}found"


def mark_orphans(
    work: RunContext,
    spark: SparkSession,
    table: Table,
    rows: DataFrame,
    pins: Mapping[datetime, Sequence[PinnedRead]],
) -> DataFrame:
    """Add a hidden column for each checked reference, TRUE for rows whose parent is missing.

    A row with NULL in a referring column has no parent to check. A column with TOKENS is checked by the token that the
    row will have; a value that has none yet is in no parent with tokens. Each label is checked against the state of the
    parent that its own batch reads. Cost: no job here. The query gets a join for each reference, with the distinct keys
    of all parent states that the labels read, and one with the vault for each column with TOKENS.
    """
    marks = orphan_marks(table)
    for checked in checked_references(table.columns):
        rows = _mark_orphans(work, spark, table, rows, checked, pins, marks[checked.columns])
    return rows


def _mark_orphans(
    work: RunContext,
    spark: SparkSession,
    table: Table,
    rows: DataFrame,
    checked: CheckedReference,
    pins: Mapping[datetime, Sequence[PinnedRead]],
    mark: str,
) -> DataFrame:
    keys = checked.parent_columns
    states: dict[object, tuple[PinnedRead, list[str]]] = {}
    for label, pinned in pins.items():
        parent = next(each for each in pinned if each.read == checked.read)
        state = (parent.bound.low, parent.bound.high, parent.slices, parent.steps)
        states.setdefault(state, (parent, []))[1].append(label_of(label))
    named = [f"{INTERNAL_PREFIX}key_{at}" for at in range(len(keys))]
    types = {field.name.lower(): field.dataType.simpleString() for field in rows.schema.fields}
    own = [types[column.lower()] for column in checked.columns]
    frames = [
        _select_parent_keys(frame_of(spark, work.lake, work.flow, parent), keys, own, named).selectExpr(
            *named, f"{at} AS {_STATE}"
        )
        for at, (parent, _) in enumerate(states.values())
    ]
    known = reduce(lambda left, right: left.unionByName(right), frames).dropDuplicates()
    known = known.selectExpr("*", f"TRUE AS {_FOUND}")
    before = rows.columns
    rows, tokens = _find_tokens(work, spark, table, rows, checked.columns)
    matches = [
        f"{_comparable_sql(tokens.get(column, quote_name(column)), kind, of.dataType.simpleString())} = {of.name}"
        for column, kind, of in zip(checked.columns, own, (known.schema[name] for name in named), strict=True)
    ]
    if len(states) > 1:
        matches.append(f"{_STATE} = {_state_number_sql([labels for _, labels in states.values()])}")
    joined = rows.join(known, F.expr(" AND ".join(matches)), "left")
    there = " AND ".join(f"{quote_name(column)} IS NOT NULL" for column in checked.columns)
    return joined.selectExpr(*map(quote_name, before), f"({there} AND {_FOUND} IS NULL) AS {mark}")


def _find_tokens(
    work: RunContext, spark: SparkSession, table: Table, rows: DataFrame, columns: Sequence[str]
) -> tuple[DataFrame, dict[str, str]]:
    """Add the token of each value of those columns that have TOKENS, NULL if it has none yet; and map them to it."""
    found: dict[str, str] = {}
    subjects = {each.name: each.subject for each in table.columns.named if each.is_token and each.name in columns}
    for at, (column, subject) in enumerate(subjects.items()):
        value, token = f"{INTERNAL_PREFIX}value_{at}", f"{INTERNAL_PREFIX}token_{at}"
        known = with_tokens_as_values(read_tokens(spark, vault_folder(work.lake.vault_root, subject or "")))
        known = known.selectExpr(f"{VALUE} AS {value}", f"{TOKEN} AS {token}")
        rows = rows.join(known, F.expr(f"{quote_name(column)} = {value}"), "left").drop(value)
        found[column] = token
    return rows, found


def _select_parent_keys(parent: DataFrame, keys: Sequence[str], own: Sequence[str], named: Sequence[str]) -> DataFrame:
    """Return the parent's keys in the columns `named`, cast to the types in which Spark compares them with the child's.

    Otherwise several different keys could be equal to one value, and its row would occur once for each of them.
    """
    types = {field.name.lower(): field.dataType.simpleString() for field in parent.schema.fields}
    return parent.selectExpr(
        *(
            f"{_comparable_sql(quote_name(key), types[key.lower()], kind)} AS {name}"
            for key, kind, name in zip(keys, own, named, strict=True)
        )
    )


def _comparable_sql(value: str, own: str, other: str) -> str:
    """Write SQL that converts a value as Spark does to compare it with one of type `other`.

    A text is cast to the other type; an invalid one matches nothing. A whole or decimal number is compared with a FLOAT
    or DOUBLE as a DOUBLE.
    """
    if own == "string" != other:
        return f"try_cast({value} AS {other})"
    is_exact = own.partition("(")[0] in {"tinyint", "smallint", "int", "bigint", "decimal"}
    return f"CAST({value} AS DOUBLE)" if is_exact and other in {"float", "double"} else value


def _state_number_sql(labels: Sequence[Sequence[str]]) -> str:
    """Write SQL that returns the number of the parent state that a row's label reads."""
    cases = (f"WHEN {TIMELABEL} IN ({', '.join(map(sql_text, of))}) THEN {at}" for at, of in enumerate(labels))
    return f"CASE {' '.join(cases)} END"
