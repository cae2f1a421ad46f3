"""Checks the columns, keys and types of the DataFrames passed to temporal functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as sql

from waterclock.errors import WaterclockError
from waterclock.similar_names import did_you_mean
from waterclock.temporal.query_refusals import stop_text

_INCOMPARABLE = (types.MapType, types.VariantType, types.CalendarIntervalType)


def exact_column(name: str) -> Column:
    """Return the column with exactly this name, whatever characters it contains."""
    return sql.col("`" + name.replace("`", "``") + "`")


def raise_at_row(refusal: str, *shown: Column) -> Column:
    """Return a column that makes the query fail with the message of `refusal` and the values of `shown` in the row."""
    values = (sql.coalesce(value.cast("string"), sql.lit("NULL")) for value in shown)
    return sql.raise_error(sql.concat(sql.lit(f"{stop_text(refusal)} ["), sql.concat_ws(", ", *values), sql.lit("]")))


def to_names(names: str | Sequence[str]) -> tuple[str, ...]:
    """Return a name, or a sequence of names, as a tuple."""
    return (names,) if isinstance(names, str) else tuple(names)


def require_columns(df: DataFrame, names: Iterable[str], *, where: str) -> None:
    """Raise E301, with similar names, for names that are not columns of the frame."""
    for name in names:
        if name not in df.columns:
            raise WaterclockError(
                "E301",
                f"unknown column {name}",
                where=where,
                why=f"the frame has {', '.join(df.columns) or 'no columns'}",
                fix=did_you_mean(name, df.columns),
            )


def require_distinct(names: Iterable[str], *, where: str) -> None:
    """Raise E308 for names that are equal or differ only by case."""
    twice = sorted(name for name, times in Counter(name.lower() for name in names).items() if times > 1)
    if twice:
        raise WaterclockError(
            "E308", f"duplicate columns: {', '.join(twice)}", where=where, fix=("rename all except one")
        )


def require_comparable(df: DataFrame, names: Iterable[str], *, where: str) -> None:
    """Raise E303 for columns of types that Spark cannot compare."""
    for name in names:
        kind = df.schema[name].dataType
        if _contains_type(kind, _INCOMPARABLE):
            raise WaterclockError(
                "E303",
                f"{name} is of type {kind.simpleString()}, which cannot be compared",
                where=where,
                fix="convert a map to sorted map_entries(…), a variant to its relevant fields or its text",
            )


def require_keys(df: DataFrame, keys: Sequence[str], *, where: str) -> None:
    """Raise E305 for a key without columns, E308 for repeated, E301 for unknown and E303 for incomparable columns."""
    if not keys:
        raise WaterclockError("E305", "a key without columns", where=where, fix="name its columns")
    require_distinct(df.columns, where=where)
    require_distinct(keys, where=where)
    require_columns(df, keys, where=where)
    require_comparable(df, keys, where=where)


def require_pairs(child: DataFrame, child_keys: Sequence[str], parent: DataFrame, parent_keys: Sequence[str]) -> None:
    """Raise E305 for keys of different lengths or types: Spark would silently compare 1 and '1'."""
    pairs = f"({', '.join(child_keys)}) and ({', '.join(parent_keys)})"
    if len(child_keys) != len(parent_keys):
        raise WaterclockError(
            "E305", f"keys of different lengths: {pairs}", fix="give both keys the same number of columns"
        )
    for ours, theirs in zip(child_keys, parent_keys, strict=True):
        kinds = [frame.schema[name].dataType for frame, name in ((child, ours), (parent, theirs))]
        if kinds[0] != kinds[1]:
            raise WaterclockError(
                "E305",
                f"keys of different types: {ours} is {kinds[0].simpleString()}, {theirs} {kinds[1].simpleString()}",
                fix="cast one of them",
            )


def require_temporal(df: DataFrame, *, where: str) -> None:
    """Raise E306 for a frame without `rec_eff_time`, `rec_exp_time` and `rec_is_current` in their types."""
    wanted = {"rec_eff_time": "timestamp", "rec_exp_time": "timestamp", "rec_is_current": "boolean"}
    has = {field.name: field.dataType.simpleString() for field in df.schema.fields}
    wrong = [f"{name} {kind}" for name, kind in wanted.items() if has.get(name) != kind]
    if wrong:
        raise WaterclockError(
            "E306",
            f"not a temporal frame: it has no {', '.join(wrong)}",
            where=where,
            why=f"it has {', '.join(f'{name} {kind}' for name, kind in has.items())}",
            fix="make one from raw rows with compute_temporal",
        )


def require_choice(choice: str, choices: Sequence[str], *, where: str) -> None:
    """Raise E310 for an argument value that is not one of the choices."""
    if choice not in choices:
        raise WaterclockError(
            "E310",
            f"unknown value {choice!r}",
            where=where,
            fix=did_you_mean(choice, choices, otherwise=f"use one of {', '.join(choices)}"),
        )


def _contains_type(kind: types.DataType, unwanted: tuple[type[types.DataType], ...]) -> bool:
    if isinstance(kind, unwanted):
        return True
    if isinstance(kind, types.ArrayType):
        return _contains_type(kind.elementType, unwanted)
    return isinstance(kind, types.StructType) and any(_contains_type(field.dataType, unwanted) for field in kind.fields)
