"""Lists of rows by SQL: conditions, pages, searches and counts, compared with rows that are evaluated in the test."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.forms import KINDS, place_of
from waterclock.connectors.forms import database as forms_database
from waterclock.connectors.forms import row_lists
from waterclock.connectors.forms.changes import Edit, Origin, StoredRow, apply
from waterclock.connectors.forms.condition_sql import SqlTerm, compile_condition
from waterclock.connectors.forms.database import ROWS, FormsDatabase, FormsSession
from waterclock.connectors.forms.history import iterate_rows, require_registered
from waterclock.connectors.forms.row_indexes import ORDERED_CHARACTERS, find_indexes, has_indexes, stored_text
from waterclock.connectors.forms.row_lists import RowCounts, RowCursor, RowQuery, count_rows, list_rows
from waterclock.connectors.forms.shown_rows import show_rows
from waterclock.connectors.forms.text_search import contains, fold
from waterclock.errors import WaterclockError
from waterclock.flow.form_rights import FormRights
from waterclock.flow.form_views import FormGrant, FormView
from waterclock.flow.forms import Entity, FormField
from waterclock.flow.grants import Grant, GrantedColumn
from waterclock.flow.row_conditions import (
    BoundCombination,
    BoundComparison,
    BoundCondition,
    BoundNegation,
    NullTest,
    Operator,
    ValueKind,
    evaluate,
    kind_of_type,
)

TYPES = {"land": "STRING", "pack": "BIGINT", "price": "DECIMAL(38,2)", "day": "DATE", "active": "BOOLEAN"}
ENTITY = Entity("x'?%s", "forms", "mdm.x", (
    FormField("id", "STRING", is_key=True, is_required=True),
    *(FormField(name, kind, is_required=name == "land") for name, kind in TYPES.items()),
    FormField("weight", "DOUBLE"), FormField("it's ?%s", "STRING"),
))  # fmt: skip
LONG = "L" * (ORDERED_CHARACTERS + 5)
ANY = [
    "abc",
    "1e5",
    "9 ",
    "+9",
    "٣",
    "½",
    "TRUE",
    "2026-1-1",
    "--9",
    "-",
    ".",
    "9.",
    ".5",
    "1.2.3",
    "9\n",
    "nan",
    "0x1",
]
"""Texts that are of no type, or of one that the column had before."""

TEXTS = {
    "land": [None, "DE", "de", "D", "ß", "\U0001f600", "\uffff", "Z", "10", "9", "a%b", "a_b", "a\\b", 'a"b', "a'b",
             "a\nb", "\u202eabc", "שלום", "Ä", "ä", "K", "k", "İ", "é", "é", LONG, LONG + "x", "NULL", "?", "%s"],
    "pack": [None, "0", "-0", "00", "9", "-9", "009", "10", "9.0", "9.5", "-9.5", "9223372036854775807",
             "9223372036854775808", "-9223372036854775808", "9007199254740993", "9007199254740992", "0" * 120 + "9",
             "-9007199254740993", "-9007199254740992",
             *ANY],
    "price": [None, "0.00", "-1.50", "9.00", "10.00", "0.10", "0.1", "-0.01", "99999999999999999999999999999999999.99",
              "99999999999999999999999999999999999.98", "0." + "0" * 120 + "1", "100.00", "0099.99", *ANY],
    "day": [None, "2026-11-30", "1999-01-01", "2026-12-01", "9999-99-99", *ANY],
    "active": [None, "true", "false", *ANY],
    "weight": [None, "1.0", "-2.5", "1e-07", "1e+300", "0.0"],
    "it's ?%s": [None, "x", "X?", "DE"],
}  # fmt: skip
VALUES: dict[str, list[str | None]] = {
    "land": ["DE", "de", "", "ß", "Z", "9", "\U0001f600", "a%b", "a'b", LONG, None],
    "pack": ["9", "-9", "9.5", "0", "10.0", "9007199254740993", "-9007199254740993", "9" * 38, None],
    "price": ["9", "9.00", "-1.5", "10.001", "0.1", "99999999999999999999999999999999999.99", "0", None],
    "day": ["2026-11-30", "2026-12-01", "2026-01-31", None],
    "active": ["true", "false", None],
}


def random_condition(dice: random.Random, depth: int = 0) -> BoundCondition:
    """Return a random condition, bound to `ENTITY`."""
    name = dice.choice(list(VALUES))
    shape = dice.randrange(9 if depth < 3 else 6)
    if shape == 0:
        return NullTest(name)
    if shape < 6:
        operator = Operator.EQUAL if shape < 3 else dice.choice(list(Operator))
        count = dice.randrange(1, 4) if operator is Operator.EQUAL else 1
        kind = kind_of_type(TYPES[name])
        assert kind is not None
        return BoundComparison(name, kind, operator, tuple(dice.choice(VALUES[name]) for _ in range(count)))
    if shape == 6:
        return BoundNegation(random_condition(dice, depth + 1))
    parts = tuple(random_condition(dice, depth + 1) for _ in range(dice.randrange(1, 4)))
    return BoundCombination(parts, is_all=shape == 7)


def fill(database: FormsDatabase, count: int, seed: int = 1) -> list[StoredRow]:
    dice = random.Random(seed)
    edits = []
    for at in range(count):
        values = {name: dice.choice(texts) for name, texts in TEXTS.items()}
        if dice.random() < 0.5:
            values["land"] = "DE"
        edits.append(Edit((dice.choice(["", "'", "Ω", "%"]) + f"K{at}",), values, None))
    apply(database, ENTITY, by=FormRights("owner"), why="first", edits=edits, origin=Origin.PUBLISH)
    return list(iterate_rows(database, ENTITY))


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> FormsDatabase:
    return place_of(request.param, tmp_path).database


@pytest.mark.slow
def test_conditions_have_the_verdict_of_the_evaluator(database: FormsDatabase) -> None:
    rows = fill(database, 1000)
    dice = random.Random(44)
    counts = {True: 0, False: 0, None: 0}
    with database.open_for_reading("a test") as session:
        names = {name: f"f{at}" for at, name in enumerate(TYPES)}
        listed = ", ".join(f"{stored_text(session, name)} AS {place}" for name, place in names.items())
        for _ in range(150):
            condition = random_condition(dice)
            term = compile_condition(condition, names, is_server=session.is_server)
            sql = f"SELECT key, {term.text} FROM (SELECT key, {listed} FROM {ROWS}) AS a"
            found = {key: None if value is None else bool(value) for key, value in session.rows_of(sql, term.values)}
            expected = {row.key: evaluate(condition, row.content) for row in rows}
            wrong = {row.key: row.content for row in rows if found[row.key] is not expected[row.key]}
            assert not wrong, (condition, term)
            for verdict in expected.values():
                counts[verdict] += 1
    assert min(counts.values()) > 10_000


def view_of(column: str, operator: Operator, *values: str, names: tuple[str, ...] = ()) -> FormView:
    kind = kind_of_type(TYPES[column])
    assert kind is not None
    grant = Grant((ENTITY.table,), frozenset(), tuple(map(GrantedColumn, names)), is_open=not names)
    return FormView(ENTITY, (FormGrant(grant, BoundComparison(column, kind, operator, values)),))


def test_pages_of_a_large_form_read_an_index_in_its_order(
    database: FormsDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(database, 30)
    require_registered(database, ENTITY)
    german, some = view_of("land", Operator.EQUAL, "DE"), view_of("pack", Operator.EQUAL, "9", "10")
    sql: list[tuple[str, Sequence[object]]] = []
    rows_of = FormsSession.rows_of

    def record(session: FormsSession, text: str, values: Sequence[object] = ()) -> list[object]:
        sql.append((text, values))
        return rows_of(session, text, values)

    monkeypatch.setattr(FormsSession, "rows_of", record)
    monkeypatch.setattr(row_lists, "_SORTED", 0)
    for view in (None, german, some, view_of("day", Operator.LESS, "2026-01-01")):
        for query in (
            RowQuery(), RowQuery(after="K5"), RowQuery(sort="price"), RowQuery(sort="land", is_descending=True),
            RowQuery(sort="day", after="K5", at="2026-11-30"), RowQuery(text="x", sort="weight"), RowQuery(text="x"),
        ):  # fmt: skip
            list_rows(database, ENTITY, query, view)
    list_rows(database, ENTITY, RowQuery(equal={"land": "DE"}))
    pages = [(text, values) for text, values in sql if f"FROM {ROWS}" in text]
    assert len(pages) > 28
    explain = "EXPLAIN" if database.is_server else "EXPLAIN QUERY PLAN"
    with database.open_for_reading("a test") as session:
        session.prefer_order_of_index()
        for text, values in pages:
            plan = [str(step[-1]).strip() for step in rows_of(session, f"{explain} {text}", values)]
            assert not any("TEMP B-TREE" in step or "Sort" in step for step in plan), (text, plan)
            assert not any(step == f"SCAN {ROWS}" or "Seq Scan" in step for step in plan), (text, plan)


def test_a_search_ends_after_some_rows_and_continues(database: FormsDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_lists, "SCANNED", 30)
    edits = [Edit((f"K{at:03}",), {"land": "x" if at in {5, 95} else "DE"}, None) for at in range(100)]
    apply(database, ENTITY, by=FormRights("owner"), why="first", edits=edits, origin=Origin.PUBLISH)
    first = list_rows(database, ENTITY, RowQuery(text="X"))
    assert ([row.key for row in first.rows], first.next, first.searched) == (["K005"], RowCursor("K029"), 30)
    assert [row.key for row in pages_of(database, RowQuery(text="X"), None)] == ["K005", "K095"]
    whole = list_rows(database, ENTITY, RowQuery(text="X", is_bounded=False))
    assert ([row.key for row in whole.rows], whole.next, whole.searched) == (["K005", "K095"], None, 0)
    hidden = list_rows(database, ENTITY, RowQuery(text="zebra"), view_of("land", Operator.UNEQUAL, "DE"))
    assert hidden == row_lists.ListedRows([])  # its cursor would have the key of a row that is not shown
    assert count_rows(database, ENTITY, 10, view_of("land", Operator.UNEQUAL, "DE")) == RowCounts(1, 0, is_least=True)


def test_a_search_that_takes_too_long_is_ended(database: FormsDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(database, 5)
    monkeypatch.setattr(forms_database, "LONGEST_LIST_SECONDS", 0.5)
    endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n % 1000 FROM r) SELECT count(*) FROM r"
    monkeypatch.setattr(row_lists._Listing, "run", lambda *_: SqlTerm(endless))
    with pytest.raises(WaterclockError, match="the query was not over within") as refused:
        list_rows(database, ENTITY, RowQuery(text="x"))
    assert refused.value.code == "E813"


def test_indexes_follow_the_declaration(database: FormsDatabase) -> None:
    fill(database, 5)
    require_registered(database, ENTITY)
    other = replace(ENTITY, name="other", fields=ENTITY.fields[:3])
    require_registered(database, other)
    changed = replace(ENTITY, fields=(*ENTITY.fields[:2], FormField("pack", "STRING"), FormField("more", "DATE")))
    require_registered(database, changed)
    with database.open_for_reading("a test") as session:
        assert [has_indexes(session, entity) for entity in (ENTITY, other, changed)] == [False, True, True]
        assert find_indexes(session, changed).keys() == {"land", "pack", "more"}
        assert find_indexes(session, other).keys() == {"land", "pack"}
        assert find_indexes(session, ENTITY).keys() == {"land"}
    assert len(list_rows(database, ENTITY, RowQuery(sort="price")).rows) == 5


def test_texts_are_found_in_any_case_of_all_characters(database: FormsDatabase) -> None:
    pairs = [(letter, letter.lower()) for letter in map(chr, range(sys.maxunicode + 1)) if letter != letter.lower()]
    dice = random.Random(3)
    with database.open_for_reading("a test") as session:
        for letter, lower in dice.sample(pairs, 60):
            for text, needle in ((letter, lower), (lower, letter)):
                place = '(CAST(? AS TEXT) COLLATE "C")' if session.is_server else "?"
                term = contains(place, needle, is_server=session.is_server)
                found = session.first_of(f"SELECT {term.text}", (f"a{text}b", *term.values))[0]
                assert bool(found) is (fold(needle) in fold(text)), (text, needle)


def test_numbers_near_each_other_are_compared_exactly(database: FormsDatabase) -> None:
    stored = [
        "-9007199254740992",
        "-9007199254740993",
        "-1.5",
        "-1.50000000001",
        "9007199254740992",
        "0",
        "-0",
        "-0.01",
    ]
    with database.open_for_reading("a test") as session:
        place = '(CAST(? AS TEXT) COLLATE "C")' if session.is_server else "?"
        for operator in Operator:
            for value in ("-9007199254740993", "-1.5", "9007199254740993", "0", "-0.01"):
                condition = BoundComparison("x", ValueKind.NUMBER, operator, (value,))
                term = compile_condition(condition, {"x": "x"}, is_server=session.is_server)
                for text in stored:
                    sql = f"SELECT {term.text} FROM (SELECT {place} AS x) AS a"
                    found = session.first_of(sql, (*term.values, text))[0]
                    assert bool(found) is evaluate(condition, {"x": text}), (condition, text)


def order_key(field: FormField) -> Callable[[StoredRow], Any]:
    """Return the key by which rows are sorted by a column."""

    def key(row: StoredRow) -> Any:
        text = row.content.get(field.name)
        if field.type == "DOUBLE":
            return (float("-inf") if text is None else float(text)), row.key
        return (text or "")[:ORDERED_CHARACTERS], row.key

    return key


def expected_rows(view: FormView | None, rows: list[StoredRow], query: RowQuery) -> list[StoredRow]:
    """Return all rows of a request in their order, by the evaluator."""
    entity = ENTITY if view is None else view.shown
    found = rows if view is None else list(show_rows(view, rows))
    if query.is_waiting:
        found = [row for row in found if row.is_waiting]
    for name, value in (query.equal or {}).items():
        if entity.field(name) is not None:
            found = [row for row in found if (row.content.get(name) or "") == value]
    if query.text:
        names = [field.name for field in entity.fields]
        needle = fold(query.text)
        found = [row for row in found if any(needle in fold(row.content.get(name) or "") for name in names)]
    field = None if query.sort is None else entity.field(query.sort)
    is_descending = query.is_descending and query.sort is not None
    return sorted(found, key=order_key(field or ENTITY.fields[0]), reverse=is_descending)


def pages_of(
    database: FormsDatabase, query: RowQuery, view: FormView | None, shown: set[str] | None = None
) -> Iterator[StoredRow]:
    """Yield the rows of all pages. The cursors have only keys of `shown`."""
    cursor: RowCursor | None = RowCursor("")
    while cursor is not None:
        page = list_rows(database, ENTITY, replace(query, after=cursor.after, at=cursor.at), view)
        assert len(page.rows) <= query.limit
        yield from page.rows
        assert page.next != cursor
        cursor = page.next
        assert cursor is None or shown is None or cursor.after in shown


def random_view(dice: random.Random) -> FormView | None:
    if dice.random() < 0.2:
        return None
    grants = []
    for _ in range(dice.choice([1, 1, 2, 3])):
        names = [] if dice.random() < 0.4 else ["id", *(it.name for it in ENTITY.fields[1:] if dice.random() < 0.6)]
        grant = Grant((ENTITY.table,), frozenset(), tuple(map(GrantedColumn, names)), is_open=not names)
        condition: BoundCondition | None = None
        if dice.random() < 0.4:
            name = dice.choice(["land", "day", "active", "pack"])
            values = tuple(dice.choice(VALUES[name]) for _ in range(dice.randrange(1, 3)))
            kind = kind_of_type(TYPES[name])
            assert kind is not None
            condition = BoundComparison(name, kind, Operator.EQUAL, values)
        elif dice.random() < 0.9:
            condition = random_condition(dice)
        grants.append(FormGrant(grant, condition))
    return FormView(ENTITY, tuple(grants))


def random_query(dice: random.Random) -> RowQuery:
    words = [
        "de",
        "9",
        "%",
        "_",
        "\\",
        "'",
        '"',
        "ä",
        "Ä",
        "K",
        "İ",
        "\u202e",
        "שלום",
        "a\nb",
        "land",
        "{",
        "?",
        "%s",
        "é",
        "Ωk1",
    ]
    return RowQuery(
        text=dice.choice(words) if dice.random() < 0.4 else "",
        equal={n: dice.choice(TEXTS[n]) or "" for n in [dice.choice(list(TEXTS))]} if dice.random() < 0.3 else None,
        is_waiting=dice.random() < 0.2,
        sort=dice.choice([None, "id", "nothing", "LAND", "it's ?%s", "day", "weight", "active", "pack", "price"]),
        is_descending=dice.random() < 0.5,
        limit=dice.choice([7, 40, 500]),
    )


@pytest.mark.slow
@pytest.mark.parametrize("is_indexed", [True, False], ids=["indexes", "none"])
def test_random_lists_have_the_rows_that_the_evaluator_shows(
    database: FormsDatabase, is_indexed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_lists, "SCANNED", 60)
    monkeypatch.setattr(row_lists, "_SORTED", 80)
    rows = fill(database, 300, seed=2)
    if is_indexed:
        require_registered(database, ENTITY)
    with database.open_for_reading("a test") as session:
        assert has_indexes(session, ENTITY) is is_indexed
    dice = random.Random(int(is_indexed))
    sizes = []
    for _ in range(25):
        view, query = random_view(dice), random_query(dice)
        expected = expected_rows(view, rows, query)
        visible = rows if view is None else list(show_rows(view, rows))
        shown = {row.key for row in visible}
        found = list(pages_of(database, query, view, shown))
        in_order = [(row.key, row.content) for row in expected]
        if query.sort in {"pack", "price"}:  # the order of texts that are no numbers is not defined
            found, in_order = sorted(found, key=lambda row: row.key), sorted(in_order, key=lambda row: row[0])
        assert [(row.key, row.content) for row in found] == in_order, (view, query)
        most = dice.choice([5, 1000])
        counts = count_rows(database, ENTITY, most, view)
        waiting = sum(row.is_waiting for row in visible)
        is_counted = counts.rows == min(most, len(visible)) or (counts.is_least and counts.rows < len(visible))
        assert is_counted, (view, counts, len(visible))
        assert counts.waiting <= waiting
        assert is_indexed or counts == RowCounts(min(most, len(visible)), min(most, waiting)) or counts.is_least
        sizes.append(len(found))
    assert len(set(sizes)) > 10
