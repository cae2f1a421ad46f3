"""Parses a DPL text into statements, and collects every error of the text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from waterclock.dpl.syntax.clause_definition import ClauseDefinition
from waterclock.dpl.syntax.clause_parsing import read_clause, rule_of_view_error, skip_clause
from waterclock.dpl.syntax.clause_table import BY_WORD, FIRST_WORDS, clause_words
from waterclock.dpl.syntax.column_clause import list_column_names
from waterclock.dpl.syntax.cursor import Cursor
from waterclock.dpl.syntax.expressions import expression_of
from waterclock.dpl.syntax.foreign_syntax import foreign_clause_error, foreign_statement_error
from waterclock.dpl.syntax.grant_clause import parse_rights
from waterclock.dpl.syntax.query_errors import find_similar_beginning, misspelt_word_error
from waterclock.dpl.syntax.source_text import SourceText, Span, span_between
from waterclock.dpl.syntax.statements import (
    UNREAD,
    Clause,
    ParsedColumnList,
    ParsedFunction,
    ParsedQuery,
    Statement,
    StatementKind,
)
from waterclock.dpl.syntax.tokens import (
    RawStatement,
    check_adjacent_strings,
    missing_semicolon_error,
    statements_despite_errors,
    statements_of,
    words_of,
)
from waterclock.dpl.syntax.type_names import parse_type, skip_brackets
from waterclock.dpl.syntax.unsupported import unsupported_error
from waterclock.dpl.syntax.when_clause import has_choice, parse_choices
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Value
from waterclock.flow.enums import TableType
from waterclock.similar_names import did_you_mean

if TYPE_CHECKING:
    from sqlglot.tokens import Token

_KIND_WORDS = tuple((kind, tuple(kind.value.split())) for kind in StatementKind)
_STARTS = (
    "CREATE CONNECTION", "CREATE FUNCTION", "CREATE VIEW", "COLLECT", "TRANSFORM", "PUBLISH", "GRANT",
)  # fmt: skip


_SYNTAX_CODES = frozenset({"E204", "E205"})  # after such an error, the column names in a list are uncertain


def parse_text(source: SourceText, *, variables: Mapping[str, Value]) -> tuple[list[Statement], list[WaterclockError]]:
    """Parse all statements of a DPL file; return them and all errors. Parsing continues after each error."""
    statements, errors = _parse_statements(statements_of(source), variables)
    if errors:
        repaired, others = _parse_statements(statements_despite_errors(source), variables)
        if any(error.code == "E201" for error in others):
            return repaired, others
    return statements, errors


def _parse_statements(
    cut: tuple[list[RawStatement], list[WaterclockError]], variables: Mapping[str, Value]
) -> tuple[list[Statement], list[WaterclockError]]:
    raws, errors = cut
    statements: list[Statement] = []
    for raw in raws:
        reader = _StatementParser(raw, variables)
        statement = reader.read()
        errors.extend(reader.errors)
        if statement is not None:
            statements.append(statement)
    return statements, errors


class _StatementParser:
    """Parses one statement. An error is added to `errors`, and parsing continues with the next clause."""

    def __init__(self, raw: RawStatement, variables: Mapping[str, Value]) -> None:
        self.raw = raw
        self.variables = variables
        self.errors: list[WaterclockError] = []
        self.clauses: list[Clause] = []
        self.failed: set[str] = set()
        self.listed: tuple[str, ...] | None = None
        self.name = ""
        self.cursor: Cursor

    def read(self) -> Statement | None:
        """Return the statement, or None if its kind or name cannot be parsed."""
        raw = self.raw
        try:
            header = raw.tokens if raw.query_at is None else raw.tokens[: raw.query_at - 1]
            words = words_of(raw.source, header)
            self.cursor = Cursor(raw.source, words, raw.tokens, self.variables, first_words=FIRST_WORDS)
            kind = self._parse_kind()
            return self._parse_parts(kind)
        except WaterclockError as error:
            self.errors.append(error)
            return None

    def _parse_kind(self) -> StatementKind:
        cursor = self.cursor
        for kind, words in _KIND_WORDS:
            if cursor.at(*words):
                cursor.index += len(words)
                return kind
        habit = foreign_statement_error(cursor)
        if habit is not None:
            raise habit
        first = cursor.peek()
        raise cursor.here().refuse(
            "E202",
            f"unknown statement {first.text}",
            why=f"a statement begins with {', '.join(_STARTS[:-1])} or {_STARTS[-1]}",
            fix=did_you_mean(
                first.upper, [start.split()[0] for start in _STARTS], otherwise=_suggest_statement(first.text)
            ),
        )

    def _parse_parts(self, kind: StatementKind) -> Statement:
        if kind is StatementKind.GRANT:
            return self._parse_grant()
        name, span = self._parse_name(kind)
        self.name = name
        if kind is StatementKind.FUNCTION:
            self._parse_function()
            return Statement(kind, name, span, tuple(self.clauses), failed=frozenset(self.failed))
        self._parse_positional(kind)
        while not self.cursor.is_done:
            self._parse_clause(kind)
        self._parse_query(kind)
        return Statement(kind, name, span, tuple(self.clauses), failed=frozenset(self.failed), listed=self.listed)

    def _parse_grant(self) -> Statement:
        cursor, kind = self.cursor, StatementKind.GRANT
        name, span = parse_rights(cursor), cursor.span(cursor.peek(-1))
        if cursor.at("("):
            self._read_guarded("COLUMNS", lambda: read_clause("COLUMNS", cursor, kind), cursor.index, brackets=True)
        for word, is_needed in (("ON", True), ("TO", True), ("WHERE", False)):
            start = cursor.index
            if is_needed and not self.failed:
                cursor.need(word, fix=f"write GRANT {name} ON schema.name TO (role): {word} is missing")
            elif not cursor.accept(word):
                continue
            self._read_guarded(word, partial(read_clause, word, cursor, kind), start)
        if not cursor.is_done and not self.failed:
            cursor.raise_unexpected("the end of the statement", fix=f"leave {cursor.here().text} out")
        return Statement(kind, name, span, tuple(self.clauses), failed=frozenset(self.failed))

    def _parse_name(self, kind: StatementKind) -> tuple[str, Span]:
        if kind in {StatementKind.CONNECTION, StatementKind.FUNCTION}:
            what = "a connection" if kind is StatementKind.CONNECTION else "a function"
            word = self.cursor.plain_name(what)
            return word.text, self.cursor.span(word)
        return self.cursor.table()

    def _parse_positional(self, kind: StatementKind) -> None:
        cursor = self.cursor
        if kind is StatementKind.CONNECTION:
            self._take("TYPE", needed=True)
            self._parse_options()
            return
        if kind in {StatementKind.COLLECT, StatementKind.TRANSFORM}:
            self._parse_table_type()
        if cursor.at("("):
            self._read_guarded("COLUMNS", lambda: _parse_columns(kind, cursor), cursor.index, brackets=True)
            if kind in {StatementKind.COLLECT, StatementKind.TRANSFORM}:
                self._parse_table_type()
        if kind is StatementKind.COLLECT:
            self._take("FROM", needed=True)
        if kind in {StatementKind.COLLECT, StatementKind.TRANSFORM}:
            self._parse_options()
        if kind is StatementKind.PUBLISH:
            self._take("TO", needed=True)
            self._parse_options()

    def _parse_table_type(self) -> None:
        start = self.cursor.index
        if self.cursor.at("PARTITIONED", "BY") and self.cursor.peek(2).upper not in {"DATA", "ARRIVAL", "CHANGES"}:
            habit = foreign_clause_error(self.cursor)
            if habit is not None:
                self.failed.add(UNREAD)
                self._recover(habit, start)
            return
        for table_type in TableType:
            if self.cursor.accept(table_type.name):
                is_repeated = any(clause.word == "TYPE OF TABLE" for clause in self.clauses)
                span = self.cursor.span_since(start)
                if is_repeated:
                    self.errors.append(span.refuse("E207", "the type of the table is written twice", fix="remove one"))
                else:
                    self.clauses.append(Clause("TYPE OF TABLE", table_type, span))

    def _take(self, word: str, *, needed: bool) -> None:
        cursor = self.cursor
        start = cursor.index
        if not cursor.accept(word):
            if needed and not cursor.is_done and cursor.clause_at() is None:
                habit = foreign_clause_error(cursor)
                self.failed.add(word)
                self._recover(habit or self._expected_word_error(word), start)
            return
        self._read_guarded(word, lambda: read_clause(word, cursor), start)

    def _expected_word_error(self, word: str) -> WaterclockError:
        cursor = self.cursor
        found = cursor.peek()
        words = {word, "PARTITIONED", "REGULAR"} - {found.upper}
        near = did_you_mean(found.upper, words) if found.kind == "word" else None
        return cursor.here().refuse("E204", f"expected {word}, found {cursor.here().text}", fix=near)

    def _parse_options(self) -> None:
        cursor = self.cursor
        start = cursor.index
        if cursor.accept("OPTIONS"):
            self._read_guarded("OPTIONS", lambda: read_clause("OPTIONS", cursor), start, brackets=True)

    def _parse_clause(self, kind: StatementKind) -> None:
        cursor = self.cursor
        found = cursor.clause_at()
        if found is None or (cursor.at("MERGE", "INTO") or cursor.at("REPLACE", "TABLE")):
            self.failed.add(UNREAD)
            if cursor.at("CREATE"):
                raise missing_semicolon_error(cursor.here())
            self._recover(foreign_clause_error(cursor) or self._unknown_clause_error(kind), cursor.index)
            return
        clause, length = BY_WORD[found[0]], found[1]
        start = cursor.index
        error = self._check_clause(clause, kind)
        if error is not None:
            self.failed.add(clause.word)
            cursor.index += length
            self._recover(error, start)
            return
        if clause.word not in {"BY", "MODE"}:  # the first word of these is a part of the clause
            cursor.index += length
        self._read_guarded(clause.word, lambda: read_clause(clause.word, cursor, kind), start)

    def _check_clause(self, clause: ClauseDefinition, kind: StatementKind) -> WaterclockError | None:
        span = self.cursor.here()
        if kind not in clause.statements:
            shown = span.text.upper() if clause.word == "MODE" else clause.word
            if kind is StatementKind.VIEW and clause.word == "EXPECT":
                return rule_of_view_error(span)
            return span.refuse(
                "E206", f"a {kind.value} cannot have {shown}", why=f"it takes {', '.join(clause_words(kind))}",
                fix=clause.elsewhere.get(kind, f"leave {shown} out"),
            )  # fmt: skip
        if not clause.is_repeatable and any(each.word == clause.word for each in self.clauses):
            first = next(each for each in self.clauses if each.word == clause.word)
            what = "the mode" if clause.word == "MODE" else clause.word
            return span.refuse("E207", f"{what} is written twice", why=f"first at {first.span.place}", fix="remove one")
        return None

    def _read_guarded(self, word: str, read: Callable[[], Any], start: int, *, brackets: bool = False) -> None:
        cursor = self.cursor
        opening = cursor.index
        try:
            value = read()
        except WaterclockError as error:
            self.failed.add(word)
            if brackets:
                cursor.index = opening
                try:
                    skip_brackets(cursor)
                    if word == "COLUMNS" and error.code not in _SYNTAX_CODES:
                        self.listed = list_column_names(cursor.words[opening : cursor.index])
                except WaterclockError:
                    cursor.index = len(cursor.words)
                    self.failed.add(UNREAD)
                self.errors.append(error)
                return
            self._recover(error, start)
            return
        self.clauses.append(Clause(word, value, cursor.span_since(start)))

    def _recover(self, error: WaterclockError, start: int) -> None:
        """Record an error of the clause that began at `start`, and skip to the next clause."""
        self.errors.append(error)
        if self.cursor.index == start:
            self.cursor.take()
        skip_clause(self.cursor)

    def _unknown_clause_error(self, kind: StatementKind) -> WaterclockError:
        word = self.cursor.peek()
        if word.kind == "symbol" and word.text in _SIGNS_OF_NAMES:
            return self.cursor.here().refuse(
                "E204",
                f"{word.text} is not allowed in a name",
                fix="put the name between backticks: landing.`a-b/*.csv`",
            )
        if word.upper == "AS" and (beginning := find_similar_beginning(self.cursor.peek(1).text)):
            return misspelt_word_error(self.cursor.span(self.cursor.peek(1)), beginning)
        known, both = [*clause_words(kind), *_POSITIONAL[kind]], f"{word.upper} {self.cursor.peek(1).upper}"
        fix = _SUBCLAUSES.get(word.upper) or did_you_mean(word.upper, known) or did_you_mean(both, known)
        fix = fix or did_you_mean(word.upper, _SUBCLAUSES)
        if word.text == "(" and kind in _WITH_COLUMNS:
            return self.cursor.here().refuse(
                "E205", "the column list comes too late", why="it comes before all clauses except PARTITIONED",
                fix=f"write {kind.value.upper()} schema.name (columns), and the other clauses after it",
            )  # fmt: skip
        why = None if fix else f"it takes {', '.join(clause_words(kind))}"
        fix = fix or "correct it, or leave it out"
        return self.cursor.here().refuse("E205", f"unknown clause {self.cursor.here().text}", why=why, fix=fix)

    def _parse_query(self, kind: StatementKind) -> None:
        raw = self.raw
        if raw.query_at is None or "WHEN" in self.failed:
            self.clauses = [clause for clause in self.clauses if clause.word != "WHEN"]
            return
        tokens = raw.tokens[raw.query_at :]
        span = Span(raw.source, tokens[0].start, tokens[-1].end + 1)
        if kind not in {StatementKind.VIEW, StatementKind.TRANSFORM}:
            self.errors.append(
                span.source.span(raw.tokens[raw.query_at - 1].start).refuse(
                    "E206", f"a {kind.value} takes no query", fix="write TRANSFORM schema.name ... AS SELECT ..."
                )
            )
            return
        if kind is StatementKind.TRANSFORM and (self._find_when() or has_choice(tokens)):
            self._parse_choices(tokens)
            return
        check_adjacent_strings(raw.source, tokens)
        self.clauses.append(Clause("AS", ParsedQuery(span, tokens), span))

    def _find_when(self) -> Clause | None:
        return next((clause for clause in self.clauses if clause.word == "WHEN"), None)

    def _parse_choices(self, tokens: Sequence[Token]) -> None:
        """Parse `WHEN ... AS query ... ELSE AS query`; the first condition is the last clause of the header."""
        when_clause = self._find_when()
        first = self.clauses.index(when_clause) if when_clause is not None else None
        if first is not None and first + 1 < len(self.clauses):
            behind = self.clauses[first + 1]
            self.failed.add("WHEN")
            self.errors.append(
                behind.span.refuse(
                    "E204", "a clause comes between WHEN and its query", why="WHEN condition AS query is one clause",
                    fix="move it before WHEN",
                )
            )  # fmt: skip
            return
        condition = when_clause.value if when_clause is not None else None
        whens, last, errors = parse_choices(self.raw.source, tokens, condition, name=self.name)
        self.errors.extend(errors)
        self.failed |= {"WHEN", "AS"} if errors else set()
        self.clauses = [clause for clause in self.clauses if clause.word != "WHEN"]
        self.clauses += [Clause("WHEN", when, span_between(when.condition.span, when.query.span)) for when in whens]
        if last is not None:
            self.clauses.append(Clause("AS", last, last.span))

    def _parse_function(self) -> None:
        cursor = self.cursor
        parameters: list[tuple[str, str]] = []
        cursor.need("(", fix="write parameters in brackets, as in (cents INT), or () without parameters")
        while not cursor.accept(")"):
            parameters.append((cursor.plain_name("a parameter").text, parse_type(cursor)))
            if not cursor.accept(",") and not cursor.at(")"):
                cursor.raise_unexpected(
                    "a comma or ) after the parameter", fix="put a comma before the next, or close the list with )"
                )
        cursor.need("RETURNS")
        returns = parse_type(cursor)
        cursor.need("RETURN", fix="add the result: RETURN expression")
        if cursor.is_done:
            cursor.raise_unexpected("an expression after RETURN", fix="write the result, as in RETURN cents / 100")
        start = cursor.peek()
        last = cursor.words[-1]
        span = Span(cursor.source, start.start, last.end)
        body = expression_of(cursor.source, cursor.tokens[start.token : last.token + 1], span)
        cursor.index = len(cursor.words)
        parsed = ParsedFunction(tuple(parameters), returns, body)
        self.clauses.append(Clause("RETURN", parsed, span_between(cursor.span(start), span)))


def _suggest_statement(word: str) -> str:
    """Return the fix for a statement that begins with an unknown word."""
    near = find_similar_beginning(word)
    meant = f"did you mean {near}? " if near else ""
    return f"{meant}A query needs a table name: TRANSFORM schema.name AS SELECT ..."


_SIGNS_OF_NAMES = frozenset("-/*+%")
_SUBCLAUSES = {
    "CHANGED": "write CHANGED after LOOKBACK: BY DATA TIME t LOOKBACK 3 DAYS CHANGED",
    "LOOKBACK": "write LOOKBACK after BY DATA TIME: BY DATA TIME t LOOKBACK 1 HOUR",
    "ORDER": "write ORDER BY after MERGE or TEMPORAL: MERGE ORDER BY changed_at",
    "DELETE": "write DELETE WHEN after MERGE or TEMPORAL: MERGE DELETE WHEN is_deleted",
    "AT": "write AT after TEMPORAL: TEMPORAL AT changed_at",
    "TRACK": "write TRACK after TEMPORAL: TEMPORAL TRACK (name, city)",
    "NULLS": "write NULLS after TEMPORAL: TEMPORAL NULLS VALUE (phone), or NULLS MISSING",
    "FILL": "write FILL FORWARD after TEMPORAL: TEMPORAL FILL FORWARD",
    "OFFLINE": "write OFFLINE after MEASURE",
    "OPTIONS": "write OPTIONS before all clauses: after the unit, or after the columns of a TRANSFORM",
    "PARTITIONED": "write PARTITIONED right after the table's name",
    "REGULAR": "write REGULAR right after the table's name",
    "FROM": "write FROM after the columns, before all clauses",
    "TO": "write TO after the columns, before all clauses",
    "AS": "write AS and the query at the end: ... AS SELECT ...",
    "ELSE": "write ELSE after a rule, EXPECT a > 0 ELSE WARN, or after WHEN condition AS SELECT ...",
}
_WITH_COLUMNS = {StatementKind.COLLECT, StatementKind.TRANSFORM, StatementKind.PUBLISH}
_POSITIONAL = {
    StatementKind.CONNECTION: ("TYPE", "OPTIONS"),
    StatementKind.FUNCTION: ("RETURNS", "RETURN"),
    StatementKind.VIEW: ("AS",),
    StatementKind.COLLECT: ("FROM", "OPTIONS", "PARTITIONED", "REGULAR"),
    StatementKind.TRANSFORM: ("AS", "OPTIONS", "PARTITIONED", "REGULAR"),
    StatementKind.PUBLISH: ("TO", "OPTIONS"),
    StatementKind.GRANT: (),
}


def _parse_columns(kind: StatementKind, cursor: Cursor) -> ParsedColumnList:
    """Parse a column list. Raises E208 for a column with AS and without RETIRE, which only a PUBLISH may have."""
    declared: ParsedColumnList = read_clause("COLUMNS", cursor)
    for column in declared.columns if kind is not StatementKind.PUBLISH else ():
        if column.made_as is not None and column.retires is None:
            raise unsupported_error("AS (expression) without RETIRE", column.made_as_span or column.span)
    return declared
