"""Rewrites a TRANSFORM with APART into a table with pseudonyms, a table with persons, and a view that joins them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from waterclock.dpl.syntax.parser import parse_text
from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.dpl.syntax.statements import (
    Clause,
    ParsedApart,
    ParsedColumn,
    ParsedColumnList,
    ParsedMeasure,
    ParsedName,
    ParsedRule,
    ParsedWas,
    Statement,
    StatementKind,
)
from waterclock.errors import WaterclockError
from waterclock.flow.apart import LINK, Apart, apart_of, pseudonym_of, read_of, whole_of
from waterclock.flow.declarations import Column, Value
from waterclock.flow.enums import TableType
from waterclock.flow.key_connections import KEYS
from waterclock.similar_names import did_you_mean
from waterclock.spark_sql import quote_name, sql_text

WORD = "APART"

_COPIED = frozenset(
    {"EVERY", "SCHEDULE", "DELAY", "ZONE", "START", "POOL", "SEQUENTIAL", "ON RESTATE", "KEEP VERSIONS", "OWNER"}
)
"""The clauses that the table with persons has as well."""
_REFUSED = ("WHEN", "CLOSE WHEN", "PARTIAL AFTER", "MAX LATENESS")
_PLACE = "the APART of "
"""The beginning of the name of a generated text."""
_MOST_ATTRIBUTES = 12  # of a call of key_of


def add_apart_tables(
    statements: Sequence[Statement], variables: Mapping[str, Value], errors: list[WaterclockError]
) -> list[Statement]:
    """Return the statements of a project, with each TRANSFORM with APART rewritten into four statements.

    - the table itself, with a pseudonym instead of the person's columns,
    - `<table>_apart` with these columns, and the RETAIN of APART,
    - `<table>_read`, a SHARED view with the query, which both read,
    - `<table>_whole`, a view that joins both.
    """
    names = {each.name.lower(): each for each in statements if each.kind is not StatementKind.PUBLISH}
    keys = [
        each.name
        for each in statements
        if each.kind is StatementKind.CONNECTION and (each.value("TYPE", str) or "").lower() == KEYS
    ]
    made: list[Statement] = []
    for statement in statements:
        clause, parsed = statement.clause(WORD), statement.value(WORD, ParsedApart)
        if clause is None or parsed is None:
            made.append(statement)
            continue
        wrong = list(_check(statement, clause.span, parsed, names, keys))
        errors.extend(wrong)
        if wrong or statement.failed:
            made.append(_without(statement, WORD))
            continue
        made.extend(_rewrite(statement, clause, parsed, keys, variables))
    return made


def locate_errors(errors: Sequence[WaterclockError], statements: Sequence[Statement]) -> list[WaterclockError]:
    """Return errors, with those in generated queries at the APART of their table, each of them once."""
    clauses = {each.name: clause for each in statements if (clause := each.clause(WORD)) is not None}
    found: list[WaterclockError] = []
    generated: dict[tuple[str, str], tuple[WaterclockError, Clause]] = {}
    for error in errors:
        table = (error.where or "").removeprefix(_PLACE).partition(":")[0]
        if table not in clauses or not (error.where or "").startswith(_PLACE):
            found.append(error)
            continue
        if (error.why or "").startswith(_query_columns(table)) or (table, error.what) not in generated:
            generated[table, error.what] = error, clauses[table]
    for (table, what), (error, clause) in generated.items():
        prefix = _query_columns(table)
        is_of_query = (error.why or "").startswith(prefix)
        why = f"the query has {(error.why or '').removeprefix(prefix)}" if is_of_query else error.why
        fix = "add it to the query, or leave it out of the columns and of APART" if is_of_query else error.fix
        found.append(clause.span.refuse(error.code, what, why=why, fix=fix))
    return found


def _query_columns(table: str) -> str:
    return f"{read_of(table).rpartition('.')[2]} has "


def _rewrite(
    statement: Statement, clause: Clause, parsed: ParsedApart, keys: Sequence[str], variables: Mapping[str, Value]
) -> Iterator[Statement]:
    """Yield the table with pseudonyms, the table with persons, the view of the query and the joining view."""
    listed = statement.value("COLUMNS", ParsedColumnList)
    if listed is None:
        raise AssertionError(f"{statement.name} has no column list")
    subject = next(column for column in listed.columns if column.declared.subject is not None)
    by_name = {column.name.lower(): column for column in listed.columns}
    names = [by_name[each.text.lower()].name if each.text.lower() in by_name else each.text for each in parsed.columns]
    apart = Apart(
        subject.declared.subject or "", subject.name, tuple(names), parsed.keys.text if parsed.keys else keys[0]
    )
    moved = [subject, *(by_name.get(name.lower()) or _plain_column(name, clause.span) for name in names)]
    left = [column for column in listed.columns if column not in moved]
    texts = _Texts(statement.name, apart, subject.declared.type)
    added = (_added_column(apart.pseudonym, clause.span), _hidden_column(LINK, clause.span))
    yield _with_clauses(
        _without(statement, WORD),
        Clause(WORD, apart, clause.span),
        Clause("COLUMNS", ParsedColumnList((*left, *added), listed.is_open), _span_of(statement, "COLUMNS")),
        _query(statement, texts.of_events(), variables),
    )
    was = statement.value("WAS", ParsedWas)
    yield Statement(
        StatementKind.TRANSFORM,
        apart_of(statement.name),
        statement.span,
        (
            Clause("TYPE OF TABLE", TableType.PARTITIONED, clause.span),
            Clause("COLUMNS", ParsedColumnList((*moved, *added), is_open=False), _span_of(statement, "COLUMNS")),
            *(each for each in statement.clauses if each.word in _COPIED),
            *([Clause("RETAIN", parsed.retain, clause.span)] if parsed.retain is not None else []),
            *([Clause("WAS", replace(was, table=apart_of(was.table)), _span_of(statement, "WAS"))] if was else []),
            Clause("COMMENT", f"The columns of {statement.name} that identify a {apart.subject}", clause.span),
            _query(statement, texts.of_persons(), variables),
        ),
    )
    query = statement.clause("AS")
    if query is None:
        raise AssertionError(f"{statement.name} has no query")
    shared = Clause("SHARED", True, clause.span)  # noqa: FBT003 - the value of a flag
    yield Statement(StatementKind.VIEW, read_of(statement.name), statement.span, (shared, query))
    comment = Clause("COMMENT", f"{statement.name} with the columns that are kept apart", clause.span)
    yield Statement(
        StatementKind.VIEW,
        whole_of(statement.name),
        statement.span,
        (comment, _query(statement, texts.of_whole(), variables)),
    )


class _Texts:
    """The queries of the companions of a table."""

    def __init__(self, table: str, apart: Apart, subject_type: str | None) -> None:
        self.table, self.subject_type = table, subject_type
        self.keys, self.subject = sql_text(apart.keys), quote_name(apart.subject_column)
        self.pseudonym = quote_name(apart.pseudonym)
        self.values = [self.subject, *map(quote_name, apart.columns)]

    def of_events(self) -> str:
        left_out = ", ".join([*self.values, LINK])
        return f"SELECT * EXCEPT ({left_out}), {self._hashes()} FROM ({self._rows()}) AS rows"

    def of_persons(self) -> str:
        is_empty = " AND ".join(f"{name} IS NULL" for name in self.values)
        columns = ", ".join(self.values)
        return f"SELECT DISTINCT {columns}, {self._hashes()} FROM ({self._rows()}) AS rows WHERE NOT ({is_empty})"

    def of_whole(self) -> str:
        values = ", ".join(f"a.{name}" for name in self.values)
        return (
            f"SELECT e.*, {values} FROM {_quoted(self.table)} AS e "
            f"LEFT JOIN {_quoted(apart_of(self.table))} AS a ON a.{LINK} = e.{LINK}"
        )

    def _hashes(self) -> str:
        """Return the pseudonym of the person, and the hashed key of the values."""
        value = self.subject if self.subject_type is None else f"try_cast({self.subject} AS {self.subject_type})"
        pseudonym = f"hash_keyed(CAST({value} AS STRING), {self.keys}) AS {self.pseudonym}"
        return f"{pseudonym}, hash_keyed({LINK}, {self.keys}) AS {LINK}"

    def _rows(self) -> str:
        """Return a query of the rows with a key of their values: equal values in a window share a row of persons.

        It is a query of its own, because Spark does not evaluate `hash_keyed(key_of(...))`.
        """
        waiting = ["TIMELABEL()", *(f"CAST({name} AS STRING)" for name in self.values)]
        while len(waiting) > _MOST_ATTRIBUTES:
            waiting = [f"key_of({', '.join(waiting[:_MOST_ATTRIBUTES])})", *waiting[_MOST_ATTRIBUTES:]]
        return f"SELECT *, key_of({', '.join(waiting)}) AS {LINK} FROM {_quoted(read_of(self.table))}"


def _check(
    statement: Statement, span: Span, parsed: ParsedApart, names: Mapping[str, Statement], keys: Sequence[str]
) -> Iterator[WaterclockError]:
    yield from _check_table(statement, span)
    yield from _check_keys(statement, span, parsed, keys)
    yield from _check_names(statement, names)
    listed = statement.value("COLUMNS", ParsedColumnList)
    subjects = [column for column in (listed.columns if listed else ()) if column.declared.subject is not None]
    if len(subjects) != 1 and not statement.has_failed("COLUMNS"):
        found = f"{', '.join(column.name for column in subjects)} are SUBJECT" if subjects else "no column is SUBJECT"
        yield span.refuse(
            "E341",
            f"{statement.name} has APART, and {found}",
            why="the values that are kept apart belong to one person, whose rows are erased together",
            fix="declare one, as in customer_id BIGINT SUBJECT customer",
        )
    if listed is None or len(subjects) != 1:
        return
    if subjects[0].declared.is_token:
        yield span.refuse(
            "E341",
            f"{statement.name} has APART and TOKENS",
            why=f"the pseudonyms would be made from the values of {subjects[0].name}, not from their tokens",
            fix="write TOKENS in the table that is read: its tokens become pseudonyms that cannot be computed",
        )
    apart = {subjects[0].name.lower(): subjects[0].name}
    for named in parsed.columns:
        yield from _check_column(statement, named, listed, apart)
        apart[named.text.lower()] = named.text
    added = {pseudonym_of(subjects[0].declared.subject or ""), LINK}
    for column in listed.columns:
        if column.name.lower() in added:
            yield column.span.refuse(
                "E211",
                f"{column.name} is a reserved column of {statement.name}",
                why="APART adds a column of this name",
                fix="leave it out, or give it another name",
            )
    yield from _check_expressions(statement, apart)


def _check_table(statement: Statement, span: Span) -> Iterator[WaterclockError]:
    if statement.value("TYPE OF TABLE", TableType) is not TableType.PARTITIONED:
        yield span.refuse(
            "E341",
            f"{statement.name} has APART, and is a regular table",
            why="the rows of both tables are joined within the slice of a label, and a regular table has no slices",
            fix=f"add PARTITIONED after {statement.name}, or leave APART out",
        )
    if statement.function is not None:
        yield span.refuse(
            "E341",
            f"{statement.name} has APART, and is made by a Python function",
            why="both tables are made from a query",
            fix="make the rows in another TRANSFORM, and read it here with a query",
        )
    for word in _REFUSED:
        refused = statement.clause(word)
        if refused is not None:
            yield refused.span.refuse(
                "E341",
                f"{statement.name} has APART and {word}",
                why="both tables are made from one query, and their batches must have the same rows",
                fix=f"write {word} in the table that {statement.name} reads",
            )


def _check_keys(
    statement: Statement, span: Span, parsed: ParsedApart, keys: Sequence[str]
) -> Iterator[WaterclockError]:
    declare = "declare one: CREATE CONNECTION pii TYPE keys OPTIONS (key.1 SECRET 'pii/1', current '1');"
    if parsed.keys is not None:
        if parsed.keys.text not in keys:
            fix = did_you_mean(parsed.keys.text, keys, otherwise=declare)
            what = f"{parsed.keys.text} is no connection of type keys"
            yield parsed.keys.span.refuse("E341", what, why="pseudonyms are keyed hashes", fix=fix)
    elif len(keys) != 1:
        found = f"there are several: {', '.join(sorted(keys))}" if keys else "there is no connection of type keys"
        yield span.refuse(
            "E341",
            f"{statement.name} has APART, and the key of its pseudonyms is unknown",
            why=f"pseudonyms are keyed hashes, and {found}",
            fix=f"name one after the columns: KEYS {min(keys)}" if keys else declare,
        )


def _check_names(statement: Statement, names: Mapping[str, Statement]) -> Iterator[WaterclockError]:
    for name in (apart_of(statement.name), whole_of(statement.name), read_of(statement.name)):
        other = names.get(name.lower())
        if other is not None:
            yield other.span.refuse(
                "E211",
                f"{other.name} is a reserved name",
                why=f"APART of {statement.name} makes it",
                fix="choose another name",
            )


def _check_column(
    statement: Statement, named: ParsedName, listed: ParsedColumnList, earlier: Mapping[str, str]
) -> Iterator[WaterclockError]:
    name = named.text.lower()
    column = next((each for each in listed.columns if each.name.lower() == name), None)
    if name in earlier:
        is_subject = column is not None and column.declared.subject is not None
        yield named.span.refuse(
            "E341",
            f"{named.text} is the SUBJECT, which is always kept apart"
            if is_subject
            else f"{named.text} is named twice in APART",
            fix="leave it out",
        )
    elif column is None and not listed.is_open:
        known = [each.name for each in listed.columns]
        yield named.span.refuse(
            "E341",
            f"{statement.name} has no column {named.text}",
            why=f"it has {', '.join(known)}",
            fix=did_you_mean(named.text, known, otherwise=f"add {named.text} to its columns"),
        )
    elif column is not None and column.declared.is_key:
        yield named.span.refuse(
            "E341",
            f"{named.text} is KEY, and cannot be kept apart",
            why=f"a key identifies the rows that stay in {statement.name}",
            fix="choose a key that identifies no person, such as key_of(...), or leave KEY out",
        )


def _check_expressions(statement: Statement, apart: Mapping[str, str]) -> Iterator[WaterclockError]:
    """Yield an error for each rule and measure that reads a column that is kept apart."""
    for clause in statement.clauses:
        for each in clause.value if isinstance(clause.value, tuple) else ():
            expression = each.expression if isinstance(each, ParsedRule | ParsedMeasure) else None
            is_of_input = isinstance(each, ParsedRule) and bool(each.of)
            if expression is None or is_of_input:
                continue
            read = next((it for it in expression.tree.find_all(exp.Column) if it.name.lower() in apart), None)
            if read is not None:
                name = apart[read.name.lower()]
                yield expression.span.refuse(
                    "E341",
                    f"{clause.word} reads {name}, which is kept apart",
                    why=f"{statement.name} has no column {name}; {apart_of(statement.name)} has it",
                    fix=f"write the rule in the column list, as in {name} EXPECT (...), or in the table that is read",
                )


def _query(statement: Statement, text: str, variables: Mapping[str, Value]) -> Clause:
    source = SourceText(f"{_PLACE}{statement.name}", f"TRANSFORM {_quoted(statement.name)} AS {text};")
    found, errors = parse_text(source, variables=variables)
    clause = None if errors else found[0].clause("AS")
    if clause is None:
        raise AssertionError(f"the APART of {statement.name} cannot be parsed: {errors}")
    return clause


def _with_clauses(statement: Statement, *clauses: Clause) -> Statement:
    words = {each.word for each in clauses}
    return replace(statement, clauses=(*(each for each in statement.clauses if each.word not in words), *clauses))


def _without(statement: Statement, word: str) -> Statement:
    return replace(statement, clauses=tuple(each for each in statement.clauses if each.word != word))


def _span_of(statement: Statement, word: str) -> Span:
    clause = statement.clause(word)
    return statement.span if clause is None else clause.span


def _plain_column(name: str, span: Span) -> ParsedColumn:
    return ParsedColumn(span, Column(name, span.place))


def _added_column(name: str, span: Span) -> ParsedColumn:
    return ParsedColumn(span, Column(name, span.place, "STRING", is_added=True))


def _hidden_column(name: str, span: Span) -> ParsedColumn:
    return ParsedColumn(span, Column(name, span.place, is_hidden=True), hidden_span=span)


def _quoted(table: str) -> str:
    return ".".join(map(quote_name, table.split(".")))
