"""can_read, case by case: types, nulls, columns, keys and rules, and the promises that build on it.

Allowed changes are written to Parquet, read back and compared, value by value, at the ends of each type.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.flow.column_types import Array, ColumnType, Dictionary, Member, Struct
from waterclock.flow.compatibility import (
    Compatibility,
    Compatible,
    SchemaColumn,
    TableSchema,
    can_read,
    find_violations,
    is_widening,
)
from waterclock.storage.schema_types import readable_as

BACKWARD, FORWARD, FULL = Compatible.BACKWARD, Compatible.FORWARD, Compatible.FULL
ARROW = {
    "byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "boolean": pa.bool_(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
TYPES = (
    "byte", "short", "integer", "long", "float", "double", "decimal(10,0)", "decimal(10,2)", "decimal(12,2)",
    "decimal(12,4)", "decimal(20,0)", "decimal(22,2)", "boolean", "string", "binary", "date", "timestamp",
    "timestamp_ntz",
)  # fmt: skip
# written by hand, not computed: the other types as which each type can be read
WIDENS = {
    "byte": "short integer long double decimal(10,0) decimal(12,2) decimal(20,0) decimal(22,2)",
    "short": "integer long double decimal(10,0) decimal(12,2) decimal(20,0) decimal(22,2)",
    "integer": "long double decimal(10,0) decimal(12,2) decimal(20,0) decimal(22,2)",
    "long": "decimal(20,0) decimal(22,2)",
    "float": "double",
    "decimal(10,0)": "decimal(12,2) decimal(20,0) decimal(22,2)",
    "decimal(10,2)": "decimal(12,2) decimal(12,4) decimal(22,2)",
    "decimal(12,2)": "decimal(22,2)",
    "decimal(20,0)": "decimal(22,2)",
    "date": "timestamp_ntz",
}
ENDS: dict[str, list[Any]] = {
    "byte": [-128, -1, 0, 127],
    "short": [-(2**15), 0, 2**15 - 1],
    "integer": [-(2**31), 0, 2**31 - 1],
    "long": [-(2**63), -(2**53) - 1, 0, 2**53 + 1, 2**63 - 1],
    "float": [-3.4028234663852886e38, 1.401298464324817e-45, 0.10000000149011612],
    "double": [-1.7976931348623157e308, 5e-324, 0.1],
    "boolean": [False, True],
    "string": ["", "ä", "1"],
    "binary": [b"", b"\x00\xff"],
    "date": [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)],
    "timestamp": [datetime(1900, 1, 1, tzinfo=UTC), datetime(2026, 3, 29, 1, 30, 0, 1, tzinfo=UTC)],
    "timestamp_ntz": [datetime(1900, 1, 1), datetime(2026, 3, 29, 2, 30, 0, 1)],  # noqa: DTZ001 - no zone is meant
}


def ends_of(name: str) -> list[Any]:
    if not name.startswith("decimal"):
        return ENDS[name]
    precision, scale = map(int, name[8:-1].split(","))
    most = Decimal(10**precision - 1).scaleb(-scale)
    return [-most, Decimal(0).scaleb(-scale), most]


def arrow_of(type_: ColumnType) -> pa.DataType:
    if isinstance(type_, Struct):
        return pa.struct([pa.field(each.name, arrow_of(each.type), each.is_nullable) for each in type_.members])
    if isinstance(type_, Array):
        return pa.list_(pa.field("element", arrow_of(type_.element), type_.holds_nulls))
    if isinstance(type_, Dictionary):
        return pa.map_(arrow_of(type_.key), pa.field("value", arrow_of(type_.value), type_.holds_nulls))
    if type_.startswith("decimal"):
        return pa.decimal128(*map(int, type_[8:-1].split(",")))
    return ARROW[type_]


def one(type_: ColumnType, *, name: str = "c", **said: Any) -> TableSchema:
    return TableSchema((SchemaColumn(name, type_, **said),))


PAIRS = list(product(TYPES, TYPES))


@pytest.mark.parametrize(("have", "wanted"), PAIRS, ids=str)
def test_a_type_is_read_as_another_only_where_it_widens(have: str, wanted: str) -> None:
    may = have == wanted or wanted in WIDENS.get(have, "").split()
    assert is_widening(have, wanted) is may
    assert (not can_read(one(wanted), one(have))) is may
    # promises build on it: new reads old, old reads new, both
    old, new = one(have), one(wanted)
    back = have == wanted or have in WIDENS.get(wanted, "").split()
    assert (not find_violations(Compatibility(BACKWARD), new, [old])) is may
    assert (not find_violations(Compatibility(FORWARD), new, [old])) is back
    assert (not find_violations(Compatibility(FULL), new, [old])) is (may and back)
    if readable_as(have, wanted):  # a commit never accepts more
        assert may


@pytest.mark.parametrize(
    ("have", "wanted"),
    [(have, wanted) for have, wanted in PAIRS if is_widening(have, wanted)],
    ids=str,
)
def test_an_allowed_type_change_keeps_every_value_written_to_parquet(have: str, wanted: str, tmp_path: Path) -> None:
    values = [*ends_of(have), None]
    path = tmp_path / "written.parquet"
    pq.write_table(pa.table({"c": pa.array(values, arrow_of(have))}), path)
    read = pq.read_table(path)["c"].cast(arrow_of(wanted), safe=True)
    assert read.type == arrow_of(wanted)
    for value, found in zip(values, read.to_pylist(), strict=True):
        assert _is_same(value, found)
    assert read.cast(arrow_of(have)).to_pylist() == values, "and back, so that no two values became one"


def _is_same(value: Any, found: Any) -> bool:
    if isinstance(found, datetime) and not isinstance(value, datetime):
        return bool(found == datetime(value.year, value.month, value.day))  # noqa: DTZ001 - no zone is meant
    return bool(found == value)


LOSES = [
    (have, wanted)
    for have, wanted in PAIRS
    if not is_widening(have, wanted) and "string" not in (have, wanted) and "binary" not in (have, wanted)
]


@pytest.mark.parametrize(("have", "wanted"), LOSES, ids=str)
def test_a_refused_type_change_loses_values_or_is_listed_as_a_change_of_meaning(have: str, wanted: str) -> None:
    """Oracle: a cast there and back keeps every value at the type's ends, unless the pair is listed here."""
    values = pa.array(ends_of(have), arrow_of(have))
    try:
        there = values.cast(arrow_of(wanted), safe=True)
        kept = there.cast(arrow_of(have), safe=True).to_pylist() == values.to_pylist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        kept = False
    assert kept is ((have, wanted) in MEANS_ANOTHER), "a refused pair that keeps all values needs a reason"


MEANS_ANOTHER = {
    *product(["byte", "short"], ["float"]),  # Delta widens integers only to DOUBLE
    *product(["byte", "short"], ["decimal(10,2)", "decimal(12,4)"]),  # and to decimals with room for an INT
    *product(["boolean"], ["byte", "short", "integer", "long", "float", "double"]),  # a number has another meaning
    *product(["decimal(10,0)", "decimal(10,2)", "decimal(12,2)", "decimal(12,4)"], ["double"]),  # not exact any more
    ("date", "timestamp"),  # the instant at which a day starts depends on a zone
    ("timestamp", "timestamp_ntz"), ("timestamp_ntz", "timestamp"),  # likewise
    ("date", "integer"), ("integer", "date"),  # a count of days
    ("long", "timestamp"), ("timestamp", "long"), ("long", "timestamp_ntz"), ("timestamp_ntz", "long"),  # of ticks
}  # fmt: skip


def struct(*members: tuple[Any, ...]) -> Struct:
    return Struct(tuple(Member(*member) for member in members))


INT, LONG, MUST_BE = ("a", "integer"), ("a", "long"), ("a", "long", False)
OTHER = ("b", "long")
DEEP = [Array(Dictionary("string", struct(("x", name)))) for name in ("decimal(12,2)", "integer")]
# title, reader, writer, and whether the reader can read it
NESTED: list[tuple[str, ColumnType, ColumnType, bool]] = [
    ("a field more is left out", struct(INT), struct(INT, OTHER), True),
    ("a field that is new is null", struct(INT, OTHER), struct(INT), True),
    ("a field that must be there is missing", struct(INT, ("b", "long", False)), struct(INT), False),
    ("a field widens", struct(LONG), struct(INT), True),
    ("a field narrows", struct(INT), struct(LONG), False),
    ("a field may be null and must not", struct(MUST_BE), struct(LONG), False),
    ("a field must not be null and may", struct(LONG), struct(MUST_BE), True),
    ("fields in another order", struct(LONG, OTHER), struct(OTHER, LONG), True),
    ("a field is renamed", struct(MUST_BE), struct(("b", "long", False)), False),
    ("an element widens", Array("double"), Array("float"), True),
    ("an element narrows", Array("float"), Array("double"), False),
    ("an element may be null and must not", Array("long", False), Array("long"), False),
    ("an element must not be null and may", Array("long"), Array("long", False), True),
    ("a value widens", Dictionary("string", "long"), Dictionary("string", "short"), True),
    ("a value narrows", Dictionary("string", "short"), Dictionary("string", "long"), False),
    ("a key widens", Dictionary("long", "string"), Dictionary("integer", "string"), False),
    ("a value may be null and must not", Dictionary("string", "long", False), Dictionary("string", "long"), False),
    ("a value must not be null and may", Dictionary("string", "long"), Dictionary("string", "long", False), True),
    ("an array is no struct", Array("long"), struct(LONG), False),
    ("a plain type is nested", struct(LONG), "long", False),
    ("deep inside", DEEP[0], DEEP[1], True),
]


@pytest.mark.parametrize(("title", "reader", "writer", "may"), NESTED, ids=[case[0] for case in NESTED])
def test_nested_types_are_read_field_by_field(
    title: str, reader: ColumnType, writer: ColumnType, may: bool, tmp_path: Path
) -> None:
    assert (not can_read(one(reader), one(writer))) is may, title
    if may:
        values = [_value(writer), _value(writer)]
        path = tmp_path / "written.parquet"
        pq.write_table(pa.table({"c": pa.array(values, arrow_of(writer))}), path)
        read = pa.array([_as(reader, value) for value in pq.read_table(path)["c"].to_pylist()], arrow_of(reader))
        assert read.to_pylist() == [_as(reader, value) for value in values]


def _value(type_: ColumnType) -> Any:
    if isinstance(type_, Struct):
        return {member.name: _value(member.type) for member in type_.members}
    if isinstance(type_, Array):
        return [_value(type_.element)]
    if isinstance(type_, Dictionary):
        return [("k", _value(type_.value))]
    return ends_of(type_)[-1]


def _as(type_: ColumnType, value: Any) -> Any:
    if isinstance(type_, Struct):
        return {
            member.name: _as(member.type, value[member.name]) if member.name in value else None
            for member in type_.members
        }
    if isinstance(type_, Array):
        return [_as(type_.element, each) for each in value]
    if isinstance(type_, Dictionary):
        return [(key, _as(type_.value, each)) for key, each in value]
    return Decimal(value) if type_.startswith("decimal") else value


A, B = SchemaColumn("a", "long"), SchemaColumn("b", "string")
MUST = SchemaColumn("b", "string", is_nullable=False)
FILLED = SchemaColumn("b", "string", is_nullable=False, has_default=True)
RENAMED = one("long", name="z", is_nullable=False, was=("c",))
COLUMNS: list[tuple[str, TableSchema, TableSchema, tuple[bool, bool]]] = [
    # title, new, old, and whether new reads old and old reads new
    ("an optional column comes", TableSchema((A, B)), TableSchema((A,)), (True, True)),
    ("a column that must be there comes", TableSchema((A, MUST)), TableSchema((A,)), (False, True)),
    ("a column with a default comes", TableSchema((A, FILLED)), TableSchema((A,)), (True, True)),
    ("an optional column goes", TableSchema((A,)), TableSchema((A, B)), (True, True)),
    ("a column that must be there goes", TableSchema((A,)), TableSchema((A, MUST)), (True, False)),
    ("a column with a default goes", TableSchema((A,)), TableSchema((A, FILLED)), (True, True)),
    ("NOT NULL comes", TableSchema((A, MUST)), TableSchema((A, B)), (False, True)),
    ("NOT NULL goes", TableSchema((A, B)), TableSchema((A, MUST)), (True, False)),
    ("a column is renamed", one("long", name="z", is_nullable=False), one("long", is_nullable=False), (False, False)),
    ("a rename that is said", RENAMED, one("long", is_nullable=False), (True, False)),
    ("the case of a name", TableSchema((SchemaColumn("A", "long"),)), TableSchema((A,)), (True, True)),
    ("the order of columns", TableSchema((B, A)), TableSchema((A, B)), (True, True)),
    ("another key", TableSchema((A, B), keys=("b",)), TableSchema((A, B), keys=("a",)), (False, False)),
    ("a key comes", TableSchema((A, B), keys=("a",)), TableSchema((A, B)), (False, False)),
    ("another partition", TableSchema((A, B), partitioned_by=("timelabel",)), TableSchema((A, B)), (False, False)),
    ("a stricter rule", TableSchema((A,), rules=frozenset({"a > 0"})), TableSchema((A,)), (False, True)),
    ("a rule goes", TableSchema((A,)), TableSchema((A,), rules=frozenset({"a > 0"})), (True, False)),
    ("a wider type", one("long"), one("integer"), (True, False)),
    ("a narrower type", one("integer"), one("long"), (False, True)),
    ("nothing", TableSchema((A, B)), TableSchema((A, B)), (True, True)),
    ("all columns go", TableSchema(()), TableSchema((A, B)), (True, True)),
]  # fmt: skip


@pytest.mark.parametrize("mode", list(Compatible))
@pytest.mark.parametrize(("title", "new", "old", "reads"), COLUMNS, ids=[case[0] for case in COLUMNS])
def test_a_promise_holds_where_new_reads_old_or_old_reads_new_or_both(
    title: str, new: TableSchema, old: TableSchema, reads: tuple[bool, bool], mode: Compatible, tmp_path: Path
) -> None:
    wanted = {BACKWARD: reads[0], FORWARD: reads[1], FULL: all(reads)}[mode]
    for is_transitive in (False, True):
        broken = find_violations(Compatibility(mode, is_transitive), new, [old])
        assert (not broken) is wanted, title
        assert all(each.back == 0 and each.misfit.path and each.misfit.why for each in broken)
    if reads[0]:
        _written_and_read(old, new, tmp_path)


def _written_and_read(writer: TableSchema, reader: TableSchema, folder: Path) -> None:
    """Write a row of one schema to Parquet, read it with the other schema, and compare the columns of both."""
    rows = {each.name: pa.array([_value(each.type)], arrow_of(each.type)) for each in writer.columns}
    path = folder / f"{len(list(folder.iterdir()))}.parquet"
    pq.write_table(pa.table(rows) if rows else pa.table({"none": [1]}), path)
    table = pq.read_table(path)
    there = {name.lower(): table[name] for name in table.column_names}
    for column in reader.columns:
        names = [name.lower() for name in (column.name, *column.was)]
        found = next((there[name] for name in names if name in there), None)
        if found is None:
            assert column.is_nullable or column.has_default
        else:
            assert pc.all(pc.equal(found.cast(arrow_of(column.type)), found)).as_py()


def test_transitive_checks_all_versions_and_plain_only_the_newest() -> None:
    first, second, third = one("long"), TableSchema(()), one("string")
    assert not find_violations(Compatibility(BACKWARD), third, [second, first])
    broken = find_violations(Compatibility(BACKWARD, is_transitive=True), third, [second, first])
    assert [(each.back, str(each.misfit), each.reads_old) for each in broken] == [
        (1, "c is bigint, which cannot be read as string", True)
    ]
    assert not find_violations(Compatibility(FULL, is_transitive=True), third, [])


_structs = partial(st.lists, unique_by=lambda each: each.name, min_size=1, max_size=3)
_types = st.recursive(
    st.sampled_from(TYPES),
    lambda inner: st.one_of(
        st.builds(Array, inner, st.booleans()),
        st.builds(Dictionary, st.sampled_from(["string", "long"]), inner, st.booleans()),
        _structs(st.builds(Member, st.sampled_from("xyz"), inner, st.booleans())).map(
            lambda members: Struct(tuple(members))
        ),
    ),
    max_leaves=4,
)

_columns = st.lists(
    st.builds(SchemaColumn, st.sampled_from("abcd"), _types, st.booleans(), st.booleans()),
    unique_by=lambda column: column.name,
    max_size=4,
)
_schemas = st.builds(
    TableSchema, _columns.map(tuple), st.sampled_from([(), ("a",)]), st.just(()), st.frozensets(st.sampled_from("rs"))
)


@given(_schemas, _schemas)
def test_forward_is_backward_the_other_way_around(new: TableSchema, old: TableSchema) -> None:
    def why(mode: Compatible, one: TableSchema, other: TableSchema) -> list[str]:
        return [str(each.misfit) for each in find_violations(Compatibility(mode), one, [other])]

    assert why(FORWARD, new, old) == why(BACKWARD, old, new)
    assert why(FULL, new, old) == why(BACKWARD, new, old) + why(FORWARD, new, old)


@given(_schemas, _schemas, _schemas)
def test_types_and_rules_widen_from_hand_to_hand(first: TableSchema, second: TableSchema, third: TableSchema) -> None:
    """can_read is transitive for schemas with the same columns."""
    names = first.by_name.keys() & second.by_name.keys() & third.by_name.keys()
    if not names == first.by_name.keys() == second.by_name.keys() == third.by_name.keys():
        return
    if not can_read(second, first) and not can_read(third, second) and _is_flat(first, second, third):
        assert not can_read(third, first)


def _is_flat(*schemas: TableSchema) -> bool:
    return all(isinstance(column.type, str) for schema in schemas for column in schema.columns)


@given(_schemas)
def test_every_schema_can_read_its_own_rows(schema: TableSchema) -> None:
    assert not can_read(schema, schema)
    assert not can_read(schema, TableSchema(tuple(schema.columns), schema.keys, schema.partitioned_by, schema.rules))


@pytest.mark.bench
def test_five_hundred_columns_are_held_against_fifty_versions_in_ten_milliseconds() -> None:
    def version(number: int) -> TableSchema:
        return TableSchema(
            tuple(SchemaColumn(f"c{at}", "long" if at % 50 != number % 50 else "integer") for at in range(500))
        )

    kept = [version(number) for number in range(50)]
    new = TableSchema(tuple(SchemaColumn(f"c{at}", "long") for at in range(500)))
    spent = []
    for _ in range(5):
        begun = time.process_time()
        assert not find_violations(Compatibility(BACKWARD, is_transitive=True), new, kept)
        spent.append(time.process_time() - begun)
    assert min(spent) < 0.01, json.dumps(spent)
