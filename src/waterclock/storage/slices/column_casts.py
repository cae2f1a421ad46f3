"""Casts and orders a query's columns to fit their table. Runs no job: values are cast when the rows are written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

from waterclock.errors import WaterclockError
from waterclock.flow.checks import keeps_unread
from waterclock.flow.origins import IN_ROWS
from waterclock.similar_names import did_you_mean
from waterclock.spark_sql import INTERNAL_PREFIX, cast_text, column_name, illegal_characters, quote_name, sql_text
from waterclock.storage.fetched_rows import map_leaf_types
from waterclock.storage.schema_types import find_name_clashes, readable_as, schema_text, sql_type
from waterclock.storage.slices.row_filter import UNREAD, UNREAD_AS, is_hidden
from waterclock.temporal.instants import instant
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from waterclock.flow.declarations import Columns

_STORED = frozenset(
    "string byte short integer long float double decimal boolean binary date timestamp timestamp_ntz".split()
)
_ZONELESS = (DateType, StringType, TimestampNTZType)
_BAD_CAST = "waterclock bad cast "
_BAD_CAST_MESSAGE = re.compile(re.escape(_BAD_CAST) + r"(\{.*?\}) (.*?)(?: SQLSTATE|\n|$)", re.DOTALL)
_MAX_VALUE_LENGTH = 60
_SPELLINGS = {
    "int": "integer",
    "bigint": "long",
    "smallint": "short",
    "tinyint": "byte",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamp_ltz": "timestamp",
}


@dataclass(frozen=True, slots=True)
class ConformedRows:
    """Rows in the columns and types of their table. `schema` is its new schema: `timelabel` first, all nullable.

    `left_out` lists the columns that a closed column list does not declare, `renamed` those whose names could not be
    stored, with their new names. If rows may be quarantined, the frame also has hidden columns with the input columns
    as received. `raw` maps each input column to its name in the frame, and `raw_schema` is the schema of these columns.
    """

    frame: DataFrame
    schema: StructType
    left_out: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    raw: Mapping[str, str] | None = None
    raw_schema: str = ""


def conform(  # noqa: PLR0913 - each argument is a part of the required shape
    frame: DataFrame,
    declared: Columns,
    known: StructType | None = None,
    *,
    table: str,
    may_miss_columns: bool = False,
    may_rename: bool = True,
    zone: str = "UTC",
    loose: Mapping[str, str] | None = None,
    values: Mapping[str, str] | None = None,
) -> ConformedRows:
    """Cast and order rows to fit `declared` and the existing table (`known`, or None before it exists).

    Values are cast to the declared types. A value that cannot be cast fails the job that writes the rows, with an error
    that names its column (`row_error`). Dates, local times and texts without an offset become a TIMESTAMP, interpreted
    in `zone`. Columns that a closed column list does not declare are left out and reported; new ones of an open list
    are added last. A `timelabel` column for several labels is kept; `write_slices` sets it for a single label. With
    `may_miss_columns`, columns of the table may be missing (a MERGE keeps their values).

    `loose` maps columns (lower case) to hidden columns, if rows may be quarantined. A value of such a column that
    cannot be cast becomes NULL, and its hidden column marks it. `values` maps these columns to SQL that parses their
    text, if the source knows more about it than a cast does.

    Raises:
        WaterclockError: E610 or E611 for a column of the table that is missing or has another type, E613 to E615 for
            names that clash, and for names or types that cannot be stored, E618 for a declared column that the rows do
            not have.
    """
    frame, renamed = _rename_illegal(frame, table, may_rename=may_rename)
    received = frame.schema
    if zone != "UTC":
        frame = _parse_local_times(frame, declared, zone, loose)
    plan = replace(_ColumnPlan.of(frame.schema, declared, known, table, frozenset(loose or ())), values=values)
    if not may_miss_columns:
        plan.refuse_lost()
    label = [TIMELABEL] if TIMELABEL in frame.columns else []
    raw, hidden = (None, []) if loose is None else _input_columns(frame, plan, loose)
    if raw is not None and keeps_unread(declared):
        hidden.append(_unread_line_sql(frame, raw, table))
    wanted = [*label, *(plan.column(name) for name in plan.names), *hidden]
    try:
        as_it_is = wanted == [*label, *map(quote_name, frame.columns[len(label) :])]
        shaped = frame if as_it_is else frame.selectExpr(*wanted)
        schema = shaped.schema
    except AnalysisException as error:
        raise plan.explain(frame, error) from error
    fields = [field for field in schema.fields if field.name != TIMELABEL and not is_hidden(field.name)]
    _refuse_unstorable(fields, table)
    plan.refuse_changed(fields)
    stored = StructType.fromJson(json.loads(schema_text(StructType(fields))))
    if raw is None:
        return ConformedRows(shaped, stored, plan.left_out, renamed)
    kept = StructType([field for field in received.fields if field.name in raw])
    if keeps_unread(declared):
        kept.add(UNREAD_AS, StringType(), metadata={UNREAD: True})
    return ConformedRows(shaped, stored, plan.left_out, renamed, raw, kept.json())


def row_error(error: BaseException, *, table: str) -> WaterclockError | None:
    """Return the error for a value that `conform` could not cast, extracted from Spark's exception. Otherwise None."""
    match = _BAD_CAST_MESSAGE.search(str(error))
    if match is None:
        return None
    place, value = json.loads(match.group(1)), match.group(2).rstrip(".")
    return WaterclockError(
        "E612",
        f"{value!r} is not {place['type']}",
        where=f"{table}.{place['column']}",
        why=f"column {place['column']} is declared {place['type']}",
        fix="fix the source, or declare the column STRING and cast it in a transform with try_cast",
    )


@dataclass(frozen=True, slots=True)
class _ColumnPlan:
    """The columns of the table, and for each of them the frame's column from which it is cast."""

    table: str
    names: tuple[str, ...]
    from_frame: Mapping[str, StructField]
    declared_types: Mapping[str, str]
    known: Mapping[str, StructField]
    left_out: tuple[str, ...]
    loose: frozenset[str] = frozenset()
    values: Mapping[str, str] | None = None

    @classmethod
    def of(
        cls, schema: StructType, declared: Columns, known: StructType | None, table: str, loose: frozenset[str]
    ) -> _ColumnPlan:
        there = {
            field.name.lower(): field
            for field in schema.fields
            if field.name != TIMELABEL and not is_hidden(field.name)
        }
        stored = {f.name.lower(): f for f in (known.fields if known else ()) if f.name.lower() != TIMELABEL}
        by_name = {column.name.lower(): column for column in declared.named if column.name.lower() != TIMELABEL}
        for lower, column in by_name.items():
            if lower not in there:
                raise _missing_column_error(table, column.name, [field.name for field in there.values()])
        taken = [lower for lower in there if declared.is_open or lower in by_name]
        ordered = [lower for lower in stored if lower in taken] + (
            [lower for lower in (*by_name, *taken) if lower not in stored]
        )
        # the table's own spelling wins, then the declaration's
        spelled = {lower: next(by[lower].name for by in (stored, by_name, there) if lower in by) for lower in ordered}
        return cls(
            table=table,
            names=tuple(dict.fromkeys(spelled.values())),
            from_frame={spelled[lower]: there[lower] for lower in spelled},
            declared_types={spelled[lower]: column.type for lower, column in by_name.items() if column.type},
            known={field.name: field for field in stored.values()},
            left_out=tuple(field.name for lower, field in there.items() if lower not in taken),
            loose=loose,
        )

    def column(self, name: str) -> str:
        """Return the SQL for a table's column over the frame's columns."""
        text, source = self.value(name), quote_name(self.from_frame[name].name)
        return source if text == source and self.from_frame[name].name == name else f"{text} AS {quote_name(name)}"

    def value(self, name: str) -> str:
        """Return the SQL for the value of a table's column."""
        field = self.from_frame[name]
        source, type_ = quote_name(field.name), field.dataType
        wanted = self.declared_types.get(name)
        text = source
        is_loose = name.lower() in self.loose
        of_text = (self.values or {}).get(name.lower())
        if is_loose and of_text is not None and isinstance(type_, StringType):
            text = of_text
        elif wanted is not None:
            text = _cast(source, type_, wanted, name, is_loose=is_loose)
        elif name in self.known and _needs_widening(type_, self.known[name].dataType):
            text = f"CAST({source} AS {sql_type(self.known[name].dataType.jsonValue())})"
        elif _replace_void(type_) != type_:
            text = f"CAST({source} AS {sql_type(_replace_void(type_).jsonValue())})"
        return text

    def refuse_lost(self) -> None:
        lost = [field for name, field in self.known.items() if name not in self.names]
        if lost:
            names = ", ".join(f"{field.name} ({field.dataType.simpleString()})" for field in lost)
            raise WaterclockError(
                "E610",
                f"{self.table} lost {'a column' if len(lost) == 1 else 'columns'}: {names}",
                where=self.table,
                why=f"the table has {'it' if len(lost) == 1 else 'them'}; the rows have {', '.join(self.names)}",
                fix="add the column again; if it has no values any more, as CAST(NULL AS its type)",
            )

    def refuse_changed(self, fields: Iterable[StructField]) -> None:
        for field in fields:
            before = self.known.get(field.name)
            if before is not None and before.dataType != _match_nullability(field.dataType, before.dataType):
                former, current = _format_type(before.dataType), _format_type(field.dataType)
                raise WaterclockError(
                    "E611",
                    f"{self.table}.{field.name} changed from {former} to {current}",
                    where=f"{self.table}.{field.name}",
                    why="the existing rows of the table could no longer be read",
                    fix=f"declare the column {former.upper()}",
                )

    def explain(self, frame: DataFrame, error: AnalysisException) -> WaterclockError:
        """Find the column with the cast that Spark rejects, and return an error that names it."""
        for name in self.names:
            try:
                frame.select(F.expr(self.column(name))).schema  # noqa: B018 - reading the attribute may raise
            except AnalysisException:
                wanted = self.declared_types.get(name, "")
                have = _format_type(self.from_frame[name].dataType)
                return WaterclockError(
                    "E611",
                    f"{self.table}.{name} is {have}, which cannot become {wanted}",
                    where=f"{self.table}.{name}",
                    why=f"the column is declared {wanted}",
                    fix=f"declare it {have.upper()}, or convert it in the query",
                )
        return WaterclockError(
            "E611",
            "the columns do not fit the table",
            where=self.table,
            why=str(error),
            fix="convert them in the query to the types that are declared",
        )


def _rename_illegal(frame: DataFrame, table: str, *, may_rename: bool) -> tuple[DataFrame, tuple[tuple[str, str], ...]]:
    names = frame.columns
    doubled = [name for name in names if name.lower() == TIMELABEL]
    if len(doubled) > 1 or (doubled and doubled[0] != TIMELABEL):
        frame = frame.drop(TIMELABEL)  # all of them: the engine sets its own
        names = frame.columns
    legal = [_make_legal(name, table, may_rename=may_rename) for name in names]
    for first, second in find_name_clashes(legal):
        raise WaterclockError(
            "E613",
            f"{table} has two columns {first}" if first == second else f"{table} has both {first} and {second}",
            where=table,
            why="Spark and many readers do not distinguish upper and lower case",
            fix="rename one of them: SELECT …, x AS other_name",
        )
    renamed = tuple((old, new) for old, new in zip(names, legal, strict=True) if old != new)
    return (frame.toDF(*legal) if renamed else frame), renamed


def _make_legal(name: str, table: str, *, may_rename: bool) -> str:
    bad = illegal_characters(name)
    if not bad:
        return name
    legal = column_name(name).strip("_")
    if may_rename and legal:
        return legal
    raise WaterclockError(
        "E614",
        f"{table} cannot have a column named {name!r}",
        where=table,
        why=f"Parquet and Delta do not allow {', '.join(map(repr, bad))} in a name",
        fix=f"rename it, as in … AS {legal or 'a_name'}",
    )


def _missing_column_error(table: str, name: str, there: Sequence[str]) -> WaterclockError:
    return WaterclockError(
        "E618",
        f"{table} declares {name}, which its rows do not have",
        where=f"{table}.{name}",
        why=f"they have {', '.join(there)}",
        fix=did_you_mean(name, there, otherwise="remove it from the column list, or add it to the rows"),
    )


def _input_columns(frame: DataFrame, plan: _ColumnPlan, loose: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Map each received column to the frame's column with its original values, and return SQL for internal columns.

    Internal columns keep original values, and mark the values that cannot be cast (`loose`).
    """
    shown = {plan.from_frame[name].name for name in plan.names if plan.column(name) == quote_name(name)}
    received = [name for name in frame.columns if name != TIMELABEL and not name.startswith(INTERNAL_PREFIX)]
    raw, hidden = {}, [quote_name(name) for name in IN_ROWS.values() if name in frame.columns]
    for at, name in enumerate(received):
        before = _original_column(name)
        if before in frame.columns:
            raw[name], text = before, quote_name(before)
        elif name in shown:
            raw[name], text = name, ""
        else:
            raw[name] = f"{INTERNAL_PREFIX}raw_{at}"
            text = f"{quote_name(name)} AS {raw[name]}"
        hidden += [text] if text else []
    for name in plan.names:
        if name.lower() in loose:
            source = plan.from_frame[name].name
            received_as = _original_column(source) if _original_column(source) in frame.columns else source
            bad = f"({quote_name(received_as)} IS NOT NULL AND ({plan.value(name)}) IS NULL)"
            hidden.append(f"{bad} AS {quote_name(loose[name.lower()])}")
    return raw, hidden


def _unread_line_sql(frame: DataFrame, raw: dict[str, str], table: str) -> str:
    """Return SQL for the column with the text of an unreadable row, and add its name to `raw`. Raises E808."""
    if any(name.lower() == UNREAD_AS for name in raw):
        raise WaterclockError(
            "E808",
            f"two columns are called {UNREAD_AS}",
            where=f"{table}.{UNREAD_AS}",
            why=f"EXPECT parsed() keeps a line that cannot be read as {UNREAD_AS}, and the source has such a column",
            fix="rename it at the source, or leave parsed() out",
        )
    raw[UNREAD_AS] = UNREAD
    return UNREAD if UNREAD in frame.columns else f"CAST(NULL AS STRING) AS {UNREAD}"


def _original_column(name: str) -> str:
    """Return the hidden name for the original values of a column that `_parse_local_times` changed."""
    return f"{INTERNAL_PREFIX}came_{name}"


def _cast(source: str, have: DataType, wanted: str, name: str, *, is_loose: bool = False) -> str:
    simple = _simple_type_name(wanted)
    if simple is not None and simple == have.jsonValue():
        return source
    if simple is not None and (simple == "string" or readable_as(have.jsonValue(), simple)):
        return f"CAST({source} AS {wanted})"
    cast = cast_text(source, wanted) if isinstance(have, StringType) else f"try_cast({source} AS {wanted})"
    return cast if is_loose else f"coalesce({cast}, {_cast_error_sql(source, wanted, name)})"


def _cast_error_sql(source: str, wanted: str, name: str) -> str:
    """Return SQL that yields NULL for NULL, and raises an error for any other value."""
    place = sql_text(_BAD_CAST + json.dumps({"column": name, "type": wanted}) + " ")
    error_sql = f"raise_error(concat({place}, substring(CAST({source} AS STRING), 1, {_MAX_VALUE_LENGTH})))"
    return f"if({source} IS NULL, NULL, CAST({error_sql} AS {wanted}))"


def _parse_local_times(frame: DataFrame, declared: Columns, zone: str, loose: Mapping[str, str] | None) -> DataFrame:
    """Convert columns that are declared TIMESTAMP and have another type, interpreting them in `zone`.

    Spark's own cast would use the session's zone, UTC.
    """
    there = {field.name.lower(): field for field in frame.schema.fields}
    columns = {}
    for column in declared.named:
        field = there.get(column.name.lower())
        if (
            field is None
            or _simple_type_name(column.type or "") != "timestamp"
            or not isinstance(field.dataType, _ZONELESS)
        ):
            continue
        read = instant(frame, field.name, zone, where=column.name)
        if loose is not None:
            columns[_original_column(field.name)] = F.col(quote_name(field.name))
        if loose is None or column.name.lower() not in loose:
            read = F.coalesce(read, F.expr(_cast_error_sql(quote_name(field.name), "TIMESTAMP", column.name)))
        columns[field.name] = read
    return frame.withColumns(columns) if columns else frame


def _simple_type_name(text: str) -> str | None:
    """Return a type's name as in a schema's JSON, or None if it is not a simple type."""
    bare = re.sub(r"\s+", "", text).lower()
    head, bracket, rest = bare.partition("(")
    name = _SPELLINGS.get(head, head)
    if name == "decimal":
        return f"decimal({rest}" if "," in rest else f"decimal({rest[:-1] or '10'},0)"
    return name if name in _STORED and not bracket else None


def _needs_widening(have: DataType, stored: DataType) -> bool:
    return have != stored and readable_as(have.jsonValue(), stored.jsonValue())


def _replace_void(type_: DataType) -> DataType:
    """Return the type with STRING in place of every VOID: a column with only nulls has no type of its own."""
    return map_leaf_types(type_, lambda leaf: StringType() if isinstance(leaf, NullType) else leaf)


def _match_nullability(type_: DataType, like: DataType) -> DataType:
    """Return the stored type if the two differ only in nested nullability."""
    return like if _without_nullability(type_.jsonValue()) == _without_nullability(like.jsonValue()) else type_


def _without_nullability(json_type: Any) -> Any:
    if isinstance(json_type, dict):
        kept = {
            k: _without_nullability(v)
            for k, v in json_type.items()
            if k not in {"nullable", "containsNull", "valueContainsNull"}
        }
        return kept | {"metadata": {}} if "metadata" in kept else kept
    return [_without_nullability(item) for item in json_type] if isinstance(json_type, list) else json_type


def _refuse_unstorable(fields: Iterable[StructField], table: str) -> None:
    for field in fields:
        bad = _find_unstorable_type(field.dataType)
        if bad:
            raise WaterclockError(
                "E615",
                f"{table}.{field.name} is {bad}, which cannot be stored",
                where=f"{table}.{field.name}",
                fix="cast it: " + _FIXES.get(bad.split(" ", 1)[0], f"CAST({field.name} AS STRING)"),
            )


_FIXES = {
    "string": "collate(…, 'UTF8_BINARY'), and write COLLATE where texts are compared",
    "variant": "to_json(…), and parse_json(…) where it is read",
    "interval": "to a number of its unit",
}


def _find_unstorable_type(type_: DataType) -> str | None:
    if isinstance(type_, StructType):
        return next((bad for field in type_.fields if (bad := _find_unstorable_type(field.dataType))), None)
    if isinstance(type_, ArrayType):
        return _find_unstorable_type(type_.elementType)
    if isinstance(type_, MapType):
        return _find_unstorable_type(type_.keyType) or _find_unstorable_type(type_.valueType)
    name = str(type_.jsonValue()).split("(", 1)[0]
    # a type's JSON omits the collation
    is_collated = isinstance(type_, StringType) and " collate " in _format_type(type_)
    return None if name in _STORED and not is_collated else _format_type(type_)


def _format_type(type_: DataType) -> str:
    return type_.simpleString()
