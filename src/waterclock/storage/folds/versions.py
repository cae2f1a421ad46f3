"""Computes the versions of a TEMPORAL table's keys from its slices, for all keys or for some.

Slices contain raw rows; the table contains the result of `compute_temporal` for them. The table is never computed from
itself: to place a late row correctly, the rows that were dropped as "no change" are needed
(docs/decisions/temporal-versions.md).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.errors import WaterclockError
from waterclock.flow.merge_settings import RECORD
from waterclock.similar_names import did_you_mean
from waterclock.spark_sql import quote_name, sql_text
from waterclock.storage.folds.fold import add_ordering_columns
from waterclock.storage.schema_types import fields_of, schema_text, type_text, widen_schema
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.read import frame_of_slices
from waterclock.storage.slices.row_filter import MISSING
from waterclock.temporal.bounds import can_begin_sql
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from waterclock.flow.declarations import Table
    from waterclock.flow.merge_settings import Temporal

EFFECTIVE, EXPIRES, CURRENT = RECORD
_LABEL, _GONE, _ORDER = "_waterclock_label", "_waterclock_gone", "_waterclock_order"
_NUMBER, _SINCE = "_waterclock_number", "_waterclock_since"
_NEXT, _NEXT_END = "_waterclock_next", "_waterclock_next_end"
_WAS_THERE, _IS_THERE, _ENDS = "_waterclock_was_there", "_waterclock_is_there", "_waterclock_ends"
_VALUE = "waterclock_said"


def temporal_of(table: Table) -> Temporal:
    """Return the key, time and attribute declarations of a TEMPORAL table."""
    if table.temporal is None:
        raise AssertionError(f"{table.name} keeps no versions, and its caller did not ask")
    return table.temporal


def attributes_of(raw: str, temporal: Temporal) -> list[str]:
    """Return the columns of raw rows that are attributes of versions, in their order."""
    return list(temporal.attributes(name for name in fields_of(raw) if name not in {TIMELABEL, MISSING}))


def table_schema_of(raw: str, temporal: Temporal) -> str:
    """Return the table's schema for raw rows of schema `raw`: keys, start of the version, attributes, end, current.

    A key that is not in `raw` is left out: before the first batch only columns with declared types are known.
    """
    fields = {name.lower(): field for name, field in fields_of(raw).items()}
    keys = [fields[key.lower()] for key in temporal.keys if key.lower() in fields]
    shown = [fields[name.lower()] for name in attributes_of(raw, temporal)]
    record = [
        _build_field(EFFECTIVE, "timestamp"),
        _build_field(EXPIRES, "timestamp"),
        _build_field(CURRENT, "boolean"),
    ]
    return schema_text(json.dumps({"type": "struct", "fields": [*keys, record[0], *shown, *record[1:]]}))


def raw_schema(manifests: Iterable[Manifest]) -> str:
    """Return all columns of some slices, in order of first occurrence."""
    schemas = [manifest.schema for manifest in manifests]
    text = schemas[0]
    for schema in schemas[1:]:
        text = widen_schema(text, schema) or text
    return text


def known_raw_schema(newest: Manifest, table: str, temporal: Temporal) -> str:
    """Return the known columns of raw rows: those of the newest slice, and the attributes in the table's schema."""
    fields = [field for name, field in fields_of(table).items() if name not in RECORD or name == temporal.at]
    return widen_schema(newest.schema, json.dumps({"type": "struct", "fields": fields})) or newest.schema


def table_manifest(manifest: Manifest, temporal: Temporal) -> Manifest:
    """Return a slice's manifest with only the columns that the table has, to check their types against the table."""
    kept = set(fields_of(table_schema_of(manifest.schema, temporal)))
    files = tuple(replace(file, types={n: t for n, t in file.types.items() if n in kept}) for file in manifest.files)
    return replace(manifest, schema=table_schema_of(manifest.schema, temporal), files=files)


def require_fit(schema: str, temporal: Temporal, *, table: str) -> None:
    """Raise an error if versions cannot be computed from raw rows with the columns of `schema`.

    Raises E301 for a missing key, time or other column, E302 if the time is not a TIMESTAMP, E303 for an attribute that
    cannot be compared, and E308 for a column whose name is reserved for versions.
    """
    fields = fields_of(schema)
    at = [temporal.at] if temporal.at else []
    needed = [*temporal.keys, *at, *temporal.order_by, *temporal.track, *temporal.values]
    for name in needed:
        if name not in fields:
            fix = did_you_mean(name, fields, otherwise="add it to the rows, or remove it from TEMPORAL")
            raise WaterclockError("E301", f"unknown column {name}", where=table, why=_describe_columns(fields), fix=fix)
    if temporal.at and (kind := type_text(fields[temporal.at]["type"])) != "timestamp":
        raise WaterclockError(
            "E302",
            f"{temporal.at} is of type {kind}, which is not an instant",
            where=table,
            why="versions are compared as instants, and the zone of these values is not declared",
            fix=f"declare it: ({temporal.at} TIMESTAMP, *), or convert it in the query with its zone",
        )
    clashes = [name for name in attributes_of(schema, temporal) if name.lower() in RECORD]
    if clashes:
        raise WaterclockError(
            "E308",
            f"the rows already have columns that TEMPORAL computes: {', '.join(clashes)}",
            where=table,
            why="versions are computed from raw rows; rows of a temporal table are not observations",
            fix="use the raw rows, or remove the columns",
        )
    for name in attributes_of(schema, temporal):
        if _is_incomparable(fields[name]["type"]):
            raise WaterclockError(
                "E303",
                f"{name} is of type {type_text(fields[name]['type'])}, which cannot be compared",
                where=table,
                fix="convert a map to sorted map_entries(…), a variant to its relevant fields or its text",
            )


def require_instant(made: str, temporal: Temporal, *, table: str) -> None:
    """Raise E302 if a query's time column is not a TIMESTAMP: a cast to the declared type would interpret it as UTC."""
    found = {name.lower(): field["type"] for name, field in fields_of(made).items()}.get((temporal.at or "").lower())
    kind = None if found is None else type_text(found)
    if kind not in {None, "timestamp", "void"}:
        raise WaterclockError(
            "E302",
            f"{temporal.at} is of type {kind}, which is not an instant",
            where=table,
            why="as a TIMESTAMP it would be read in UTC, and the zone of these values is not declared",
            fix="declare it where it is collected, or convert it in the query with its zone",
        )


def fault_conditions(temporal: Temporal) -> Mapping[str, str]:
    """Return SQL conditions, by kind of fault, for raw rows without a key or a valid time. At most one is TRUE."""
    no_key = " OR ".join(f"{quote_name(key)} IS NULL" for key in temporal.keys)
    found = {"no_key": f"({no_key})"}
    if temporal.at:
        at, has_key = quote_name(temporal.at), f"NOT ({no_key})"
        found["no_time"] = f"({has_key} AND {at} IS NULL)"
        found["bad_time"] = f"({has_key} AND {at} IS NOT NULL AND NOT ({can_begin_sql(at)}))"
    return found


def versions_of(
    spark: SparkSession, folder: str, manifests: Sequence[Manifest], table: Table, keys: DataFrame | None = None
) -> DataFrame:
    """Return the versions that result from slices, for some keys or for all, in the columns of the table.

    Rows with the same key and time are ordered by ORDER BY, then by label. `timelabel` is that of the row that started
    the version. Rows without a key or a valid time (`fault_conditions`) are left out. For snapshots, see
    `_extend_lives`. Cost: a scan of the slices, and one shuffle and sort of the remaining rows; for snapshots one more
    sort.
    """
    from waterclock.temporal import compute_temporal

    temporal, raw = temporal_of(table), raw_schema(manifests)
    rows = frame_of_slices(spark, folder, manifests, add_ordering_columns(raw, table))
    if keys is not None:
        rows = rows.join(keys, list(temporal.keys), "left_semi")
    rows = rows.where(f"NOT ({' OR '.join(fault_conditions(temporal).values())})")
    lacking = _labels_lacking(raw, manifests)
    windows = None if temporal.at else _build_window_rows(spark, manifests, table)
    prepared = _prepare_raw_rows(rows if windows is None else rows.join(windows, TIMELABEL), raw, temporal, lacking)
    order = [f"{_ORDER}{at}" for at, _ in enumerate(temporal.order_by)]
    sequence = [*order, _LABEL]
    if temporal.is_of_snapshots and windows is not None:
        prepared = _extend_lives(prepared, windows, temporal.keys, order)
        sequence = [_LABEL, *order]  # a life may begin at the instant at which the previous snapshot ended one
    attributes = attributes_of(raw, temporal)
    whole = [name for name in _value_attributes(attributes, temporal) if not _may_be_missing(name, rows, lacking)]
    made = compute_temporal(
        prepared,
        temporal.keys,
        time=EFFECTIVE,
        sequence=sequence,
        nulls=dict.fromkeys(whole, "value"),
        delete_when=_GONE if _GONE in prepared.columns else None,
        track=temporal.track or list_tracked_attributes(attributes, temporal),
        keep=TIMELABEL,
        fill_back=temporal.fills_back,
        placed=True,
    )
    return made.select(*map(quote_name, fields_of(table_schema_of(raw, temporal))))


def list_tracked_attributes(attributes: Sequence[str], temporal: Temporal) -> tuple[str, ...]:
    """Return the attributes whose changes start a new version if the table has no TRACK clause."""
    untracked = {name.lower() for name in temporal.untracked}
    return tuple(name for name in attributes if name.lower() not in untracked)


def _prepare_raw_rows(
    rows: DataFrame, raw: str, temporal: Temporal, labels_lacking: Mapping[str, Sequence[str]]
) -> DataFrame:
    """Return raw rows in the form that `compute_temporal` needs, with internal names for time, order and deletes."""
    values = set(_value_attributes(attributes_of(raw, temporal), temporal))
    attributes = [
        _wrap_value(name, labels_lacking, has_marks=MISSING in rows.columns)
        if name in values and _may_be_missing(name, rows, labels_lacking)
        else quote_name(name)
        for name in attributes_of(raw, temporal)
    ]
    gone = [f"(({temporal.delete_when}\n) IS TRUE) AS {_GONE}"] if temporal.delete_when else []
    return rows.selectExpr(
        *map(quote_name, temporal.keys),
        f"{quote_name(temporal.at or EFFECTIVE)} AS {EFFECTIVE}",
        *(f"{quote_name(name)} AS {_ORDER}{at}" for at, name in enumerate(temporal.order_by)),
        f"{TIMELABEL} AS {_LABEL}",
        *gone,
        TIMELABEL,
        *attributes,
    )


def _value_attributes(attributes: Sequence[str], temporal: Temporal) -> list[str]:
    """Return the attributes whose NULLs are values ("empty now"), and not missing values to fill."""
    return [name for name in attributes if temporal.are_all_values or name in temporal.values]


def _may_be_missing(name: str, rows: DataFrame, labels_lacking: Mapping[str, Sequence[str]]) -> bool:
    return bool(labels_lacking.get(name)) or MISSING in rows.columns


def _labels_lacking(raw: str, manifests: Sequence[Manifest]) -> dict[str, list[str]]:
    """Map each column that some slices do not contain to the labels of these slices."""
    found: dict[str, list[str]] = {}
    for manifest in manifests:
        own = fields_of(manifest.schema)
        for name in fields_of(raw):
            if name not in own:
                found.setdefault(name, []).append(label_of(manifest.label))
    return found


def _wrap_value(name: str, labels_lacking: Mapping[str, Sequence[str]], *, has_marks: bool) -> str:
    """Return SQL that wraps a value in a struct, so that NULL counts as a value. A missing column stays NULL."""
    conditions = []
    if labels_lacking.get(name):
        conditions.append(f"{TIMELABEL} IN ({', '.join(sql_text(label) for label in labels_lacking[name])})")
    if has_marks:
        conditions.append(f"coalesce(array_contains({MISSING}, {sql_text(name)}), false)")
    return f"if({' OR '.join(conditions)}, NULL, struct({quote_name(name)} AS {_VALUE})) AS {quote_name(name)}"


def _build_window_rows(spark: SparkSession, manifests: Sequence[Manifest], table: Table) -> DataFrame:
    """Return a row for each label: its number, its window's end, and the ends of the previous and the next windows.

    For the first label, the start of its window takes the place of the previous end. The frame has few rows and is
    built in this process.
    """
    labels = sorted({manifest.label for manifest in manifests})
    ends = [table.cadence.next(label) for label in labels]
    texts = [label_of(label) for label in labels]
    begins = [*labels[:1], *ends[:-1]]
    rows = list(zip(texts, ends, range(len(labels)), begins, [*texts[1:], None], [*ends[1:], None], strict=True))
    schema = f"{TIMELABEL} string, {EFFECTIVE} timestamp, {_NUMBER} int, {_SINCE} timestamp, "
    return F.broadcast(spark.createDataFrame(rows, f"{schema} {_NEXT} string, {_NEXT_END} timestamp"))


def _extend_lives(rows: DataFrame, windows: DataFrame, keys: Sequence[str], order: Sequence[str]) -> DataFrame:
    """Extend the lives of keys (the spans in which they exist) as far as the snapshots allow.

    A snapshot contains a key if the last of its rows with the key is not a delete. Deletes before that row are
    ignored. A life begins at the end of the last snapshot without its key: the key appeared at some time after that,
    and facts may refer to it from then on. If the first snapshot contains a key, its life begins with the first
    window. If no row deletes a key, an added row ends its life at the end of the first snapshot without it.
    """
    from pyspark.sql import Window

    if _GONE not in rows.columns:
        rows = rows.withColumn(_GONE, F.lit(col=False))
    snapshots = Window.partitionBy(*map(quote_name, keys)).orderBy(_NUMBER)
    before, same, after = (snapshots.rangeBetween(at, at) for at in (-1, 0, 1))
    last_row = F.max(F.struct(*order, (~F.col(_GONE)).alias(_IS_THERE)))
    is_last = (F.count(F.lit(1)).over(after) == 0) & F.col(_NEXT).isNotNull()
    # the last row of a life is duplicated: once as it is, and once as the row that ends the life
    twice = F.when(is_last, F.array(F.lit(col=False), F.lit(col=True))).otherwise(F.array(F.lit(col=False)))
    lives = (
        rows.join(windows.drop(EFFECTIVE), TIMELABEL)
        .withColumns(
            {_WAS_THERE: last_row.over(before)[_IS_THERE], _IS_THERE: last_row.over(same)[_IS_THERE], _ENDS: twice}
        )
        .where(f"NOT ({_GONE} AND {_IS_THERE})")
        .withColumn(_ENDS, F.explode(_ENDS))
    )
    begins = f"if(coalesce({_WAS_THERE}, false), {EFFECTIVE}, {_SINCE})"
    return lives.withColumns(
        {
            EFFECTIVE: F.expr(f"if({_ENDS}, {_NEXT_END}, {begins})"),
            _LABEL: F.expr(f"if({_ENDS}, {_NEXT}, {_LABEL})"),
            _GONE: F.expr(f"{_ENDS} OR {_GONE}"),
        }
    ).select(*map(quote_name, rows.columns))


def _build_field(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def _describe_columns(fields: Mapping[str, Any]) -> str:
    return f"the rows have {', '.join(name for name in fields if name != TIMELABEL)}"


def _is_incomparable(type_: Any) -> bool:
    if isinstance(type_, str):
        return type_ in {"variant", "interval"}
    if type_["type"] == "struct":
        return any(_is_incomparable(field["type"]) for field in type_["fields"])
    return type_["type"] == "map" or _is_incomparable(type_["elementType"])
