"""Lists and counts the current rows of a form, by SQL, also those that a person sees who does not see all of them.

The rights of the person are conditions of the statement, so no more than a page of rows is read into memory. Pages
continue after a row: by its key, or by its value of the sort column and its key. A statement has up to three parts: a
scan in an order that an index has, the texts of the columns that are compared, and all conditions, exactly. An index
only finds rows that may match.

Cost: a page does not grow with the form if its order, and what it filters by, have an index. A search reads at most
`SCANNED` rows, and then continues with the next page, unless hidden rows are among them, whose keys would become
cursors. The limits of forms list the other reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from waterclock.connectors.forms.changes import NOT_STORABLE, StoredRow, show_row, stored_row
from waterclock.connectors.forms.condition_sql import TRUE, SqlTerm, compile_condition, join_terms
from waterclock.connectors.forms.database import ROWS, FormsDatabase, FormsSession
from waterclock.connectors.forms.row_indexes import (
    ORDERED_CHARACTERS,
    IndexEquality,
    entity_literal,
    equalities_of_grants,
    find_indexes,
    is_row_key,
    order_key,
    order_key_of,
    stored_text,
)
from waterclock.connectors.forms.text_search import contains, escape_json
from waterclock.flow.form_views import FormGrant, FormView
from waterclock.flow.forms import Entity, FormField

MOST_ROWS_OF_A_PAGE = 500
SCANNED = 100_000
"""The maximum number of rows that a page of a search, and the count of rows by a condition without an index, reads."""

_SCANNED_IN_PARTS = 25_000  # where the columns of a row are searched one by one
_SORTED = 20_000  # rows of a person; up to so many are sorted, and of more the form is read in the order of the column
_LISTED = "key, version, content, waits, hints"


@dataclass(frozen=True, slots=True)
class RowQuery:
    """A request for a page of rows.

    - `after`: the key of the last row of the page before; `at` is its stored text of the sort column.
    - `text`: a text that any column contains, in any case.
    - `equal`: values that columns have exactly.
    - `is_waiting`: only rows that lack a required value.
    - `sort`: a column; the default is the key.
    - `is_bounded`: a search may end before it has filled a page.
    """

    after: str = ""
    at: str | None = None
    text: str = ""
    equal: Mapping[str, str] | None = None
    is_waiting: bool = False
    sort: str | None = None
    is_descending: bool = False
    limit: int = 50
    is_bounded: bool = True


@dataclass(frozen=True, slots=True)
class RowCursor:
    """The row after which the next page begins: its key, and its text of the sort column."""

    after: str
    at: str | None = None


@dataclass(frozen=True, slots=True)
class ListedRows:
    """A page of rows, and the cursor of the next one if rows follow.

    `searched` is the number of rows that were read, if the search ended there and the page is not full; else 0.
    """

    rows: list[StoredRow]
    next: RowCursor | None = None
    searched: int = 0


@dataclass(frozen=True, slots=True)
class RowCounts:
    """The number of rows, and of those that lack a required value. `is_least`: there may be more rows."""

    rows: int
    waiting: int
    is_least: bool = False


@dataclass(frozen=True, slots=True)
class _Scan:
    """A read of rows in an order: its conditions, its order, and the most rows that it reads.

    SQLite has no statistics of a form, and gets the `index` to use.
    """

    conditions: SqlTerm = TRUE
    order: str = ""
    most: int | None = None
    index: str = ""

    def sql_of(self, session: FormsSession, entity: Entity, listed: str = _LISTED, limit: str = "") -> SqlTerm:
        cut = limit or (f"LIMIT {self.most}" if self.most is not None else _fence(session))
        order = f" ORDER BY {self.order}" if self.order else ""
        table = f"{ROWS} INDEXED BY {self.index}" if self.index and not session.is_server else ROWS
        text = f"SELECT {listed} FROM {table} WHERE entity = {entity_literal(entity)} AND {self.conditions.text}"
        return SqlTerm(f"{text}{order} {cut}", self.conditions.values)


class _Texts(dict[str, str]):
    """Names the columns of a statement that contain stored texts, for the fields that its conditions use."""

    def __missing__(self, name: str) -> str:
        self[name] = f"f{len(self)}"
        return self[name]


@dataclass(slots=True)
class _Listing:
    """The conditions of a request. All of them are exact; `is_filtered`: some are of the request, not of the rights."""

    session: FormsSession
    entity: Entity
    view: FormView | None
    indexes: Mapping[str, str]
    texts: _Texts = field(default_factory=_Texts)

    def compiled(self, grants: Iterable[FormGrant]) -> SqlTerm:
        """Return the condition that one of the grants has a row."""
        found = [
            TRUE if it.condition is None
            else compile_condition(it.condition, self.texts, is_server=self.session.is_server)
            for it in grants
        ]  # fmt: skip
        return TRUE if TRUE in found else join_terms(found, is_all=False)

    @property
    def shown(self) -> SqlTerm:
        return TRUE if self.view is None else self.compiled(self.view.grants)

    def shows(self, column: str) -> SqlTerm:
        """Return the condition that a column is shown in a row that is shown."""
        if self.view is None or all(grant.shows(column) for grant in self.view.grants):
            return TRUE
        return self.compiled(grant for grant in self.view.grants if grant.shows(column))

    def conditions_of(self, query: RowQuery) -> list[SqlTerm]:
        """Return the conditions of a request on what is shown of a row."""
        found = []
        shown = self.entity if self.view is None else self.view.shown
        for name, value in (query.equal or {}).items():
            column = shown.field(name)
            if column is not None:
                seen = self._when_shown(column.name)
                found.append(SqlTerm(f"(coalesce({seen.text}, '') = ?)", (*seen.values, value)))
        if query.is_waiting and self.view is not None:
            found.append(self.waiting)
        if query.text:
            found.append(
                join_terms(
                    [
                        _all([self.shows(it.name), contains(self.texts[it.name], query.text, is_server=self.is_server)])
                        for it in shown.fields
                    ],
                    is_all=False,
                )
            )
        return found

    @property
    def waiting(self) -> SqlTerm:
        """The condition that a required value is missing in a column that is shown."""
        return join_terms(
            [
                _all([self.shows(name), SqlTerm(f"(coalesce({self.texts[name]}, '') = '')")])
                for name in self.entity.required
                if self.view is None or any(grant.shows(name) for grant in self.view.grants)
            ],
            is_all=False,
        )

    @property
    def is_server(self) -> bool:
        return self.session.is_server

    def with_texts(self, rows: str, condition: str = TRUE.text) -> str:
        """Return the SQL of rows that match a condition, with the stored texts that other conditions use.

        PostgreSQL parses each row once, and not for each of its texts.
        """
        fence = _fence(self.session)
        if not self.is_server:
            fields = "".join(f", {stored_text(self.session, name)} AS {place}" for name, place in self.texts.items())
            return f"SELECT {_LISTED}{fields} FROM ({rows}) AS b WHERE {condition} {fence}"
        parsed = f"SELECT {_LISTED}, content::jsonb AS parsed FROM ({rows}) AS b WHERE {condition} {fence}"
        fields = "".join(
            f', ({self.session.parsed_field("parsed", name)} COLLATE "C") AS {place}'
            for name, place in self.texts.items()
        )
        return f"SELECT {_LISTED}{fields} FROM ({parsed}) AS p {fence}"

    @property
    def is_whole(self) -> bool:
        """Whether all columns are shown in each row that is shown.

        A stored row is then searched as one text first. It would take longer for values of columns that are not shown,
        and so reveal them.
        """
        return all(self.shows(it.name) is TRUE for it in self.entity.fields)

    def most_of(self, query: RowQuery, *, is_shown: bool) -> int | None:
        """Return how many rows a page reads at most; None for all. `is_shown`: the person sees all that it reads."""
        is_filtered = query.equal or query.text or (query.is_waiting and self.view is not None)
        if not (query.is_bounded and is_filtered and is_shown):
            return None
        return SCANNED if self.is_whole else min(_SCANNED_IN_PARTS, SCANNED)

    def _when_shown(self, column: str) -> SqlTerm:
        shows = self.shows(column)
        text = self.texts[column]
        return SqlTerm(text) if shows is TRUE else SqlTerm(f"(CASE WHEN {shows.text} THEN {text} END)", shows.values)

    def order_of(self, column: FormField) -> SqlTerm:
        """Return the order key of a column as it is shown."""
        seen = self._when_shown(column.name)
        return SqlTerm(order_key(self.session, column, seen.text), seen.values)

    def run(
        self, scans: Sequence[_Scan], conditions: Sequence[SqlTerm], text: str, limit: int, order: _Order | None = None
    ) -> SqlTerm:
        """Return the statement of the rows of scans that match all conditions, in the order of a single scan.

        Rows of several scans are distinct, and have no order but that of `order`.
        """
        matching = join_terms([each for each in conditions if each is not TRUE], is_all=True)
        key = None if order is None else self.order_of(order.column)
        scanned = [scan.sql_of(self.session, self.entity) for scan in scans]
        read = " UNION ".join(f"SELECT {_LISTED} FROM ({each.text}) AS a" for each in scanned)
        values = tuple(value for each in scanned for value in each.values)
        if text and self.view is not None:  # the searched columns are only read of rows that are shown
            rights = _Listing(self.session, self.entity, self.view, self.indexes)
            shown = rights.shown
            read = f"SELECT {_LISTED} FROM ({rights.with_texts(read)}) AS h WHERE {shown.text}"
            values += shown.values
        raw = contains("content", escape_json(text), is_server=self.is_server) if text and self.is_whole else TRUE
        read = self.with_texts(read, raw.text)
        values += raw.values
        if order is None or key is None:
            sql = f"SELECT {_LISTED} FROM ({read}) AS c WHERE {matching.text} LIMIT {limit}"
            return SqlTerm(sql, values + matching.values)
        past = TRUE if order.past is None else SqlTerm(f"((s, key) {order.sign} ({order.past.text}, ?))")
        sql = (
            f"SELECT {_LISTED} FROM (SELECT {_LISTED}, {key.text} AS s FROM ({read}) AS c WHERE {matching.text}) AS d"
            f" WHERE {past.text} ORDER BY s {order.way}, key {order.way} LIMIT {limit}"
        )
        cursor = () if order.past is None else (*order.past.values, order.after)
        return SqlTerm(sql, (*key.values, *values, *matching.values, *cursor))


@dataclass(frozen=True, slots=True)
class _Order:
    """The order of a page by a column: its direction, and the order key and the key after which it begins."""

    column: FormField
    is_descending: bool
    after: str = ""
    past: SqlTerm | None = None

    @property
    def sign(self) -> str:
        return "<" if self.is_descending else ">"

    @property
    def way(self) -> str:
        return "DESC" if self.is_descending else "ASC"


def list_rows(database: FormsDatabase, entity: Entity, query: RowQuery, view: FormView | None = None) -> ListedRows:
    """Return a page of current rows, of those that `view` shows, as it shows them.

    Filters, the search and the order use what is shown. A column that is not shown sorts as the key.
    """
    query = replace(
        query,
        after=_storable(query.after),
        at=None if query.at is None else _storable(query.at),
        text=_storable(query.text),
        equal={name: _storable(value) for name, value in (query.equal or {}).items()},
        limit=min(max(query.limit, 1), MOST_ROWS_OF_A_PAGE),
    )
    shown = entity if view is None else view.shown
    column = None if query.sort is None else shown.field(query.sort)
    with database.open_for_listing(entity.table) as session:
        listing = _Listing(session, entity, view, find_indexes(session, entity))
        if column is None or is_row_key(entity, column):
            return _list_by_key(listing, query)
        order = _Order(column, query.is_descending)
        if query.after:
            order = replace(order, after=query.after, past=order_key_of(session, column, query.at))
        return _list_by_column(listing, query, order)


def _storable(text: str) -> str:
    return NOT_STORABLE.sub("\ufffd", text)


def count_rows(
    database: FormsDatabase, entity: Entity, most: int = 10_000_000, view: FormView | None = None
) -> RowCounts:
    """Return how many rows the entity has, and how many of them lack a required value, each counted up to `most`.

    With `view`, only rows and values that it shows are counted. Cost: it reads `most` rows of an index; for conditions
    without an index at most `SCANNED` rows, and the count is then the least number.
    """
    with database.open_for_listing(entity.table) as session:
        everything = _Scan(most=max(most, SCANNED))
        waits = replace(everything, conditions=SqlTerm("waits = 1"))
        if view is None:
            counts = [
                _count(session, scan.sql_of(session, entity, "1", f"LIMIT {int(most)}")) for scan in (everything, waits)
            ]
            return RowCounts(counts[0], counts[1])
        listing = _Listing(session, entity, view, find_indexes(session, entity))
        equalities = equalities_of_grants(session, entity, listing.indexes, view.grants)
        scans = [everything] if equalities is None else [_scan_of(session, it) for it in equalities]
        found = [listing.run([scan], [listing.shown], "", most) for scan in scans]
        keys = " UNION ".join(f"SELECT key FROM ({each.text}) AS e" for each in found)
        values = tuple(value for each in found for value in each.values)
        rows = _count(session, SqlTerm(f"{keys} LIMIT {int(most)}", values)) if found else 0
        waiting = _count(session, listing.run([waits], [listing.shown, listing.waiting], "", most))
        is_least = equalities is None and rows < most and _row_at(session, entity, everything) is not None
        return RowCounts(rows, waiting, is_least)


def _count(session: FormsSession, rows: SqlTerm) -> int:
    return int(session.first_of(f"SELECT count(*) FROM ({rows.text}) AS counted", rows.values)[0])


def _list_by_key(listing: _Listing, query: RowQuery) -> ListedRows:
    """Return a page in the order of the key, from an index of each value by which rows are found."""
    session, entity, view = listing.session, listing.entity, listing.view
    order = _Order(entity.keys[0], query.is_descending and query.sort is not None)
    past = SqlTerm(f"key {order.sign} ?", (query.after,)) if query.after else TRUE
    waits = SqlTerm("waits = 1") if query.is_waiting else TRUE
    equalities = _equalities(listing, query)
    conditions = [listing.shown, *listing.conditions_of(query)]
    is_shown = view is None or (equalities is not None and all(it.is_exact for it in equalities) and waits is TRUE)
    most = listing.most_of(query, is_shown=is_shown)
    if most is not None and equalities:
        most = max(most // len(equalities), 1)
    parts = [_Scan()] if equalities is None else [_scan_of(session, it) for it in equalities]
    found: dict[str, StoredRow] = {}
    ends, searched = [], 0
    for part in parts:
        scan = replace(part, conditions=_all([part.conditions, waits, past]), order=f"key {order.way}", most=most)
        rows = _rows_of(listing, listing.run([scan], conditions, query.text, query.limit + 1))
        found.update((row.key, row) for row in rows)
        if len(rows) <= query.limit and most is not None and (end := _row_at(session, entity, scan)) is not None:
            ends.append(end.key)
            searched += most
    listed = sorted(found.values(), key=lambda row: row.key, reverse=order.is_descending)
    if not ends:
        return _cut(listed, query, None)
    until = max(ends) if order.is_descending else min(ends)
    kept = [row for row in listed if (row.key >= until if order.is_descending else row.key <= until)]
    return _cut(kept, query, None, RowCursor(until), searched)


def _list_by_column(listing: _Listing, query: RowQuery, order: _Order) -> ListedRows:
    """Return a page in the order of a column, from its index if it has one and is shown in each row."""
    session, entity, view = listing.session, listing.entity, listing.view
    equalities = _equalities(listing, query)
    conditions = [listing.shown, *listing.conditions_of(query)]
    waits = SqlTerm("waits = 1") if query.is_waiting else TRUE
    index = listing.indexes.get(order.column.name) if listing.shows(order.column.name) is TRUE else None
    if index is None or _are_few(listing, equalities, waits):
        parts = [_Scan()] if equalities is None else [_scan_of(session, it) for it in equalities]
        found = [replace(part, conditions=_all([part.conditions, waits])) for part in parts]
        rows = _rows_of(listing, listing.run(found, conditions, query.text, query.limit + 1, order)) if found else []
        return _cut(rows, query, order.column)
    key = order_key(session, order.column, stored_text(session, order.column.name))
    most = listing.most_of(query, is_shown=view is None)
    scans = [_Scan(waits, f"{key} {order.way}, key {order.way}", most, index)]
    if (past := order.past) is not None:
        same = SqlTerm(f"({key} = {past.text} AND key {order.sign} ?)", (*past.values, order.after))
        other = SqlTerm(f"({key} {order.sign} {past.text})", past.values)
        scans = [
            _Scan(_all([same, waits]), f"key {order.way}", most, index),
            replace(scans[0], conditions=_all([other, waits])),
        ]
    rows = list[StoredRow]()
    for scan in scans:
        wanted = query.limit + 1 - len(rows)
        rows += _rows_of(listing, listing.run([scan], conditions, query.text, wanted))
        if len(rows) > query.limit:
            break
        if most is not None and (end := _row_at(session, entity, scan)) is not None:
            return _cut(rows, query, order.column, _cursor_of(end, order.column), most)
    return _cut(rows, query, order.column)


def _equalities(listing: _Listing, query: RowQuery) -> tuple[IndexEquality, ...] | None:
    """Return equalities of an index of which each row of a page satisfies one; None for all rows."""
    if listing.view is not None:
        return equalities_of_grants(listing.session, listing.entity, listing.indexes, listing.view.grants)
    named = ((listing.entity.field(name), value) for name, value in (query.equal or {}).items())
    equal = [
        IndexEquality(it, value, listing.indexes[it.name], is_exact=True)
        for it, value in named
        if it is not None and it.name in listing.indexes and value
    ]
    return tuple(equal[:1]) or None


def _are_few(listing: _Listing, equalities: Sequence[IndexEquality] | None, waits: SqlTerm) -> bool:
    """Return whether few rows are found by an index, so that sorting them costs less than reading others."""
    session, entity = listing.session, listing.entity
    if equalities is None and waits is TRUE:
        return False
    scans = [_Scan(waits)] if equalities is None else [_scan_of(session, it) for it in equalities]
    left = _SORTED
    for scan in scans:
        left -= _count(session, scan.sql_of(session, entity, "1", f"LIMIT {left + 1}"))
        if left < 0:
            return False
    return True


def _scan_of(session: FormsSession, equality: IndexEquality) -> _Scan:
    key = order_key_of(session, equality.field, equality.value)
    stored = order_key(session, equality.field, stored_text(session, equality.field.name))
    return _Scan(SqlTerm(f"({stored} = {key.text})", key.values), index=equality.index)


def _row_at(session: FormsSession, entity: Entity, scan: _Scan) -> StoredRow | None:
    """Return the last row that a scan may read; None if there are fewer."""
    sql = scan.sql_of(session, entity, limit=f"LIMIT 1 OFFSET {(scan.most or 1) - 1}")
    row = session.first_of(sql.text, sql.values)
    return None if row is None else stored_row(row)


def _rows_of(listing: _Listing, sql: SqlTerm) -> list[StoredRow]:
    """Return the rows of a statement as they are shown."""
    rows = (show_row(listing.view, stored_row(row)) for row in listing.session.rows_of(sql.text, sql.values))
    return [row for row in rows if row is not None]


def _cut(
    rows: list[StoredRow],
    query: RowQuery,
    column: FormField | None,
    end: RowCursor | None = None,
    searched: int = 0,
) -> ListedRows:
    """Return a page of the first rows. `end` is where a search ended that found no more in `searched` rows."""
    if len(rows) > query.limit:
        return ListedRows(rows[: query.limit], _cursor_of(rows[query.limit - 1], column))
    return ListedRows(rows, end, searched)


def _cursor_of(row: StoredRow, column: FormField | None) -> RowCursor:
    value = None if column is None else row.content.get(column.name)
    return RowCursor(row.key, None if value is None else value[:ORDERED_CHARACTERS])


def _all(terms: Sequence[SqlTerm]) -> SqlTerm:
    kept = [term for term in terms if term is not TRUE]
    return join_terms(kept, is_all=True) if kept else TRUE


def _fence(session: FormsSession) -> str:
    """Return the clause by which a subquery is evaluated by itself, in its own order."""
    return "OFFSET 0" if session.is_server else "LIMIT -1"
