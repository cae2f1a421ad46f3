"""Compares two sets of random rows by Spark, and by brute force in Python, with the same differences."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.conftest import is_soak
from waterclock.engine.query.row_comparison import ComparedRows, compare_rows, match_columns
from waterclock.operations.revision_rows import compare_rows as compare_rows_of_page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = (
    "timelabel STRING, id INT, part STRING, f DOUBLE, d DECIMAL(10,2), b BINARY, arr ARRAY<DOUBLE>, "
    "st STRUCT<x: FLOAT, y: STRING>, mp MAP<STRING, DOUBLE>"
)
COLUMNS = ("id", "part", "f", "d", "b", "arr", "st", "mp")
FLOATS = st.sampled_from([0.0, -0.0, 1.5, 1.75, float("nan"), float("inf"), None])
Row = dict[str, Any]


@st.composite
def rows(draw: st.DrawFn) -> Row:
    return {
        "timelabel": draw(st.sampled_from(["20200101000000", "20200102000000"])),
        "id": draw(st.sampled_from([1, 2, 3, None])),
        "part": draw(st.sampled_from(["a", "A", None])),
        "f": draw(FLOATS),
        "d": draw(st.sampled_from([Decimal("1.00"), Decimal("-2.50"), None])),
        "b": draw(st.sampled_from([b"", b"\x00\xff", None])),
        "arr": draw(st.sampled_from([None, [], [0.0, None], [-0.0, None], [float("nan")]])),
        "st": draw(st.sampled_from([None, (0.0, "x"), (-0.0, "x"), (None, None)])),
        "mp": draw(st.sampled_from([None, {}, {"a": 0.0, "b": 2.0}, {"b": 2.0, "a": -0.0}, {"a": None}])),
    }


@st.composite
def two_sides(draw: st.DrawFn) -> tuple[list[Row], list[Row]]:
    """Draw rows, and the same rows with some changed, removed, added or doubled."""
    before = draw(st.lists(rows(), max_size=8))
    after = list(before)
    for _ in range(draw(st.integers(0, 4))):
        what = draw(st.sampled_from(["add", "remove", "change", "double"]))
        if what == "add" or not after:
            after.append(draw(rows()))
            continue
        place = draw(st.integers(0, len(after) - 1))
        if what == "remove":
            after.pop(place)
        elif what == "double":
            after.append(after[place])
        else:
            name = draw(st.sampled_from(COLUMNS))
            after[place] = after[place] | {name: draw(rows())[name]}
    return before, after


def plain(value: Any) -> Any:
    """Return a value that is equal in Python if Waterclock treats it as equal."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return frozenset((name, plain(inner)) for name, inner in value.items())
    return value


def unpaired(before: list[Row], after: list[Row], key: tuple[str, ...]) -> Iterator[tuple[str, list[Row], list[Row]]]:
    """Pair equal rows one by one, and yield the remaining ones of each label and key."""
    groups: defaultdict[Any, tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
    for side, of_side in enumerate((before, after)):
        for row in of_side:
            groups[row["timelabel"], *(plain(row[name]) for name in key)][side].append(row)
    for (label, *_), (olds, news) in groups.items():
        for old in list(olds):
            same = next((new for new in news if all(plain(old[n]) == plain(new[n]) for n in COLUMNS)), None)
            if same is not None:
                olds.remove(old)
                news.remove(same)
        yield label, olds, news


def by_brute_force(
    before: list[Row], after: list[Row], key: tuple[str, ...], tolerance: float
) -> dict[str, Counter[str]]:
    """Pair rows if each side has only one left of their key; count by label and by kind or column."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for label, olds, news in unpaired(before, after, key):
        if key and len(olds) == len(news) == 1:
            differing = [name for name in COLUMNS if differs(name, olds[0][name], news[0][name], tolerance)]
            found[label] += Counter(differing) + Counter({"changed": 1 if differing else 0})
        else:
            found[label] += Counter({"removed": len(olds), "added": len(news)})
    return {label: +counts for label, counts in found.items() if +counts}


def changed_rows(before: list[Row], after: list[Row], key: tuple[str, ...], tolerance: float) -> list[tuple[str, Any]]:
    """Return the label and key of changed rows: those with the largest share of a number's largest change first."""
    found: dict[tuple[str, Any], dict[str, float]] = {}
    for label, olds, news in unpaired(before, after, key):
        if not key or len(olds) != 1 or len(news) != 1:
            continue
        (old,), (new,) = olds, news
        differing = [name for name in COLUMNS if differs(name, old[name], new[name], tolerance)]
        numbers = [n for n in differing if n in {"id", "f", "d"} - {*key} and None not in (old[n], new[n])]
        sizes = {name: abs(float(new[name]) - float(old[name])) for name in numbers}
        if differing:
            of_key = tuple(sortable(new[name]) for name in key)
            found[label, of_key] = {name: size for name, size in sizes.items() if not math.isnan(size)}
    most = {name: max(of.get(name, 0.0) for of in found.values()) for of in found.values() for name in of}

    def share(sizes: dict[str, float]) -> float:
        parts = (
            size / most[name] if most[name] < math.inf else float(size == math.inf) for name, size in sizes.items()
        )
        return max(parts, default=0.0)

    return sorted(found, key=lambda row: (-share(found[row]), row))


def sortable(value: Any) -> tuple[int, Any]:
    """Return a sort key with the order of Spark: NULL first, NaN last."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return (0, 0) if value is None else (2, 0) if is_nan else (1, value)


def differs(name: str, old: Any, new: Any, tolerance: float) -> bool:
    if plain(old) == plain(new):
        return False
    is_close = name == "f" and tolerance and None not in (old, new) and abs(old - new) <= tolerance
    return not is_close


def counted(found: ComparedRows) -> tuple[dict[str, Counter[str]], Counter[str]]:
    """Return the result by label and kind, and over all labels by column."""
    of_labels = {
        label: +Counter(added=counts.added, removed=counts.removed, changed=counts.changed)
        for label, counts in found.counts.items()
    }
    return of_labels, Counter({each.column: each.rows for each in found.columns})


@given(two_sides(), st.sampled_from([(), ("id",), ("id", "part"), ("f",)]))
def test_the_page_of_a_table_compares_two_revisions_in_the_same_way(
    sides: tuple[list[Row], list[Row]], key: tuple[str, ...]
) -> None:
    before, after = ([row | {"timelabel": "one"} for row in side] for side in sides)
    olds, news = ([tuple(row[name] for name in COLUMNS) for row in side] for side in (before, after))
    found = Counter(each.kind for each in compare_rows_of_page(news, olds, [COLUMNS.index(name) for name in key]))
    expected = by_brute_force(before, after, key, 0.0).get("one", Counter())
    assert (found["changed"], found["new"], found["gone"]) == tuple(
        expected[kind] for kind in ("changed", "added", "removed")
    )
    assert found.total() - found["gone"] == len(news)


@pytest.mark.spark
def test_rows_differ_as_by_brute_force(spark: SparkSession, request: pytest.FixtureRequest) -> None:
    # without shrinking, which would take an hour
    @settings(max_examples=100 if is_soak(request.config) else 6, phases=[Phase.explicit, Phase.generate])
    @given(two_sides(), st.sampled_from([(), ("id",), ("id", "part"), ("f",)]), st.sampled_from([0.0, 0.5]))
    def check(sides: tuple[list[Row], list[Row]], key: tuple[str, ...], tolerance: float) -> None:
        before, after = ([tuple(row[name] for name in ("timelabel", *COLUMNS)) for row in side] for side in sides)
        olds, news = spark.createDataFrame(before, SCHEMA), spark.createDataFrame(after, SCHEMA)
        columns = match_columns(olds, news, key)
        found = compare_rows(olds, news, columns, most_labels=10, tolerance=tolerance, most_shown=1000)
        expected = by_brute_force(*sides, key, tolerance)
        kinds = {"added", "removed", "changed"}
        assert counted(found) == (
            {label: Counter({kind: n for kind, n in of.items() if kind in kinds}) for label, of in expected.items()},
            sum((Counter({n: c for n, c in of.items() if n not in kinds}) for of in expected.values()), Counter()),
        )
        shown = Counter[tuple[str, str]]()
        for row in found.sample:
            shown[row.label, row.kind] += row.times
        changed = [row for row in found.sample if row.kind == "changed"]
        assert [
            (row.label, tuple(sortable(row.after[name]) for name in key)) for row in changed if row.after is not None
        ] == changed_rows(*sides, key, tolerance)
        assert shown == Counter({(label, kind): of[kind] for label, of in expected.items() for kind in kinds & set(of)})

    check()
