"""FLAT(u): a table with the attributes of all parents that it refers to, each at its time (field-notes part 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from waterclock.errors import WaterclockError
from waterclock.flow import Flat, FlatJoin, Flow, Read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LABEL = "timelabel"


def flat_frame(flow: Flow, flat: Flat, frames: Mapping[Read | Flat, DataFrame]) -> DataFrame:
    """Give each row of the table once, with its parents' attributes; those of a role have its name behind theirs.

    A fact takes each parent's version at the time that its REFERENCES names, and that parent's parents as they were
    at that very time. A temporal table takes its parents as they were when each of its versions began; exact, its
    versions are split wherever a parent changes. A parent that keeps no versions is joined by its key alone.

    Raises  E307, E308 where names clash
    Cost    a join for each reference, as of `denorm_transactional` and `denorm_temporal`
    """
    return _flattened(flow, flat, frames, is_exact=flat.is_exact or not flat.is_temporal)


def _flattened(flow: Flow, flat: Flat, frames: Mapping[Read | Flat, DataFrame], *, is_exact: bool) -> DataFrame:
    rows = frames[flat.read]
    for join in flat.joins:
        parent = _flattened(flow, join.parent, frames, is_exact=is_exact).drop(_LABEL)
        try:
            rows = _joined(flow, flat, join, rows, parent, is_exact=is_exact)
        except WaterclockError as error:
            raise WaterclockError(
                error.code, error.what, where=f"{flat} and {join.parent.read.table}", why=error.why, fix=error.fix
            ) from error
    return rows


def _joined(flow: Flow, flat: Flat, join: FlatJoin, rows: DataFrame, parent: DataFrame, *, is_exact: bool) -> DataFrame:
    from waterclock.temporal import denorm_temporal, denorm_transactional

    if flow.tables[join.parent.read.table].temporal is None:
        return _by_key(join, rows, parent)
    if flat.is_temporal:
        return denorm_temporal(rows, join.columns, parent, join.parent_columns, join.role, exact=is_exact)
    if join.at is None:
        raise AssertionError(f"{flat.read.table} does not say when it refers to {join.parent.read.table}")
    return denorm_transactional(rows, join.columns, join.at, parent, join.parent_columns, join.role)


def _by_key(join: FlatJoin, rows: DataFrame, parent: DataFrame) -> DataFrame:
    """Join a parent that has one row a key."""
    from pyspark.sql import functions as sql

    suffix = f"_{join.role}" if join.role else ""
    attributes = {name: name + suffix for name in parent.columns if name not in join.parent_columns}
    lower = {name.lower() for name in rows.columns}
    clashes = [new for new in attributes.values() if new.lower() in lower]
    if clashes:
        raise WaterclockError("E308", f"{', '.join(clashes)} is there already", fix="give the reference another ROLE")
    held = [f"waterclock_key{at}" for at, _ in enumerate(join.columns)]
    keys = [sql.col(f"`{name}`").alias(key) for name, key in zip(join.parent_columns, held, strict=True)]
    there = parent.select(*keys, *(sql.col(f"`{name}`").alias(new) for name, new in attributes.items()))
    same = [rows[f"`{name}`"] == there[key] for name, key in zip(join.columns, held, strict=True)]
    return rows.join(there, same, "left").drop(*held)
