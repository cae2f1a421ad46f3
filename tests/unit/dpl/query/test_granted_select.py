"""Combinations of grants: each small set, compared with the rules applied row by row in Python."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from waterclock.dpl.query.granted_select import attributes_in, granted_select
from waterclock.flow.grants import Grant, GrantedColumn

Row = tuple[Any, ...]
COLUMNS = ("id", "land", "email")
ROWS = [(1, "DE", "a"), (2, "FR", "b"), (3, None, "c")]
CONDITIONS = (None, "land = 'DE'", "id > 1", "land = USER('land')", "land = USER('team')")
LISTS = (
    ((), True, frozenset[str]()),
    ((), True, frozenset({"email"})),
    ((GrantedColumn("Email", "upper(email)"),), True, frozenset[str]()),
    ((GrantedColumn("id"), GrantedColumn("email", "upper(email)")), False, frozenset[str]()),
    ((GrantedColumn("id"), GrantedColumn("email", "'*'")), False, frozenset[str]()),
    ((GrantedColumn("id"),), False, frozenset[str]()),
)
MATCHES: dict[str | None, Callable[[Row], bool]] = {
    None: lambda _: True,
    "land = 'DE'": lambda row: row[1] == "DE",
    "id > 1": lambda row: row[0] > 1,
    "land = USER('land')": lambda row: row[1] == "FR",
    "land = USER('team')": lambda _: False,  # the user has no such attribute
}
MASKS: dict[str, Callable[[Row], object]] = {"upper(email)": lambda row: row[2].upper(), "'*'": lambda _: "*"}


def grants() -> list[Grant]:
    return [
        Grant(("a.b",), frozenset({"x"}), columns, is_open, excepted, where)
        for where in CONDITIONS
        for columns, is_open, excepted in LISTS
    ]


def expected(some: tuple[Grant, ...]) -> set[tuple[object, ...]]:
    """Return the visible rows by the documented rules, each column as (name, value)."""
    found = set()
    names = [
        name for name in COLUMNS
        if any(grant.has(name) for grant in some if "team" not in (grant.where or ""))
    ]  # fmt: skip
    for row in ROWS:
        own = [grant for grant in some if MATCHES[grant.where](row)]
        if own:
            found.add(tuple(_value(name, row, own) for name in names))
    return found


def _value(name: str, row: Row, own: list[Grant]) -> object:
    masks = []
    for grant in own:
        said = next((column for column in grant.columns if column.name.lower() == name), None)
        if said is None and not grant.has(name):
            continue
        if said is None or said.mask is None:
            return row[COLUMNS.index(name)]
        masks.append(said.mask)
    return MASKS[masks[0]](row) if masks else None


def test_grants_combine_by_the_documented_rules() -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE t (id, land, email)")
        database.executemany("INSERT INTO t VALUES (?, ?, ?)", ROWS)
        count = 0
        for some in [*itertools.combinations(grants(), 1), *itertools.permutations(grants(), 2)]:
            seen = granted_select(some, COLUMNS, {"land": "'FR'"})
            if not seen.columns:
                assert expected(some) <= {()}
                continue
            listed = ", ".join(f'{column.sql} AS "{column.name}"' for column in seen.columns)
            sql = f"SELECT {listed} FROM t WHERE {seen.where or 'TRUE'}"
            assert set(database.execute(sql)) == expected(some), (some, sql)
            for column in seen.columns:
                assert column.is_plain == (column.sql == f"`{column.name}`")
            count += 1
    assert count > 800


def test_a_literal_of_an_attribute_stays_a_literal() -> None:
    grant = Grant(("a.b",), frozenset({"x"}), where="land = USER('land') OR note = 'USER(\\'land\\')'")
    seen = granted_select([grant], ("id",), {"land": r"'x\' OR TRUE --'"})
    assert seen.where == r"(land = 'x\' OR TRUE --' OR note = 'USER(\'land\')')"


@pytest.mark.parametrize("text", ["USER()", "USER(land)", "USER('a', 'b')", "USER('a' || 'b')", "user(NULL)"])
def test_only_one_text_names_an_attribute(text: str) -> None:
    assert attributes_in(text)[1] is False
    grant = Grant(("a.b",), frozenset({"x"}), where=f"land = {text}")
    assert granted_select([grant], ("id",), {"a": "'1'", "land": "'1'"}).where == "FALSE"


def test_a_column_of_several_types_is_shown_as_text() -> None:
    grants = [
        Grant(("a.b",), frozenset({"x"}), (GrantedColumn("born", "year(born)"),), where="land = 'DE'"),
        Grant(("a.b",), frozenset({"x"}), where="land = 'FR'"),
    ]
    (seen,) = granted_select(grants, ("born",), {}, as_text=("born",)).columns
    assert seen.sql == (
        "CASE WHEN (land = 'FR') THEN CAST(`born` AS STRING) WHEN (land = 'DE') THEN CAST(year(born) AS STRING) END"
    )
    assert seen.masks == ("`born`", "year(born)")
