"""Resolves CLOSE WHEN: checks its condition, and converts it to an expression for Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.simplify import simplify
from sqlglot.tokens import TokenType

from waterclock.dpl.query.builtins import check_builtin_call
from waterclock.dpl.query.determinism import check_deterministic_call
from waterclock.dpl.query.now_texts import now_texts
from waterclock.dpl.resolve.literals import literal
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.resolve.watermarks import AS_TIMESTAMP
from waterclock.dpl.syntax.aggregate_calls import has_aggregate
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import Expression, ParsedColumnList
from waterclock.errors import WaterclockError
from waterclock.flow.closings import END, START, Closes, Least
from waterclock.flow.enums import Kind, ReadKind, TableType
from waterclock.similar_names import did_you_mean

if TYPE_CHECKING:
    from sqlglot.tokens import Token

_WORD = "CLOSE WHEN"
_OF_WINDOW = {"WINDOW_START": START, "WINDOW_END": END}
_MARK, _BY_HAND = "WATERMARK", "CLOSED_BY_HAND"
_NOT_HERE = frozenset({"LATEST", "UNTIL", "PAST", "PREVIOUS", "HISTORY", "FLAT", "IS_PARTIAL", "TIMELABEL"})
_OURS = (_MARK, _BY_HAND, *_OF_WINDOW)
_MAY_BE_TRUE = frozenset({exp.DataType.Type.BOOLEAN, exp.DataType.Type.NULL, exp.DataType.Type.UNKNOWN})
_NAMES = frozenset({TokenType.VAR, TokenType.IDENTIFIER})
_FIX = "as in watermark(at, device) >= WINDOW_END()"
_CONDITION_FIX = f"write the condition for complete input, {_FIX}"


def resolve_closings(
    drafts: Mapping[str, UnresolvedTable], variables: Mapping[str, Any], functions: Iterable[str] = ()
) -> Iterator[WaterclockError]:
    """Set `closes` of each table with CLOSE WHEN, and yield errors; `functions` are the names of project functions."""
    known = frozenset(name.upper() for name in functions)
    for draft in drafts.values():
        if draft.statement.clause(_WORD) is None:
            continue
        wrong = list(_check_close_when(draft, drafts))
        yield from wrong
        expression = draft.statement.value(_WORD, Expression)
        if expression is not None and not wrong and not draft.is_incomplete:
            condition = _ConditionResolver(draft, expression, _list_until_tables(draft), drafts, variables, known)
            draft.declared = replace(draft.declared, closes=condition.resolve())
            yield from condition.errors


def _list_until_tables(draft: UnresolvedTable) -> list[str]:
    return list(dict.fromkeys(read.table for read in draft.declared.reads if read.kind is ReadKind.UNTIL))


def _check_close_when(draft: UnresolvedTable, drafts: Mapping[str, UnresolvedTable]) -> Iterator[WaterclockError]:
    at, tables = draft.at(_WORD), _list_until_tables(draft)
    if draft.kind is not Kind.TRANSFORM or draft.declared.type is not TableType.PARTITIONED:
        yield at.refuse(
            "E261",
            f"{draft.name} is a regular table, and has no windows to close",
            why="CLOSE WHEN closes the windows of a PARTITIONED table, one by one",
            fix=f"add PARTITIONED after {draft.name}, or leave CLOSE WHEN out",
        )
    elif draft.statement.clause("WHEN") is not None:
        yield at.refuse(
            "E261",
            f"{draft.name} has both WHEN and CLOSE WHEN",
            why="each of its queries would need its own condition to close",
            fix="make a table of each query, and choose between these tables",
        )
    elif not tables and not draft.is_incomplete:
        yield at.refuse(
            "E261",
            f"{draft.name} reads nothing UNTIL",
            why="its windows read whole slices, and close when these exist",
            fix="read UNTIL(u, '1 day'): rows may be in slices up to a day before their window, and in any after it",
        )
    cadences = {name: drafts[name].cadence for name in tables if name in drafts}
    known = {(cadence.period, cadence.zone) for cadence in cadences.values() if cadence is not None}
    if len(known) > 1:
        yield at.refuse(
            "E262",
            f"the tables that {draft.name} reads UNTIL have no boundaries in common",
            why="; ".join(f"{name} is {cadence}" for name, cadence in cadences.items()),
            fix="give them the same EVERY and ZONE",
        )


@dataclass(slots=True)
class _ConditionResolver:
    """Resolves the condition of a CLOSE WHEN; `tables` are the inputs that the table reads UNTIL."""

    draft: UnresolvedTable
    expression: Expression
    tables: list[str]
    drafts: Mapping[str, UnresolvedTable]
    variables: Mapping[str, Any]
    functions: frozenset[str]
    errors: list[WaterclockError] = field(default_factory=list)
    marks: list[Least] = field(default_factory=list)

    def resolve(self) -> Closes | None:
        """Return the resolved condition; None if it has errors."""
        self._check_calls()
        text = "" if self.errors else self._render_for_spark()
        if not self.errors:
            self._check_tree()
        if self.errors:
            return None
        tree = self.expression.tree
        calls = [node for node in tree.find_all(exp.Anonymous) if node.name.upper() == _BY_HAND]
        is_alone = _without_brackets(tree) in calls
        return Closes(self.expression.text, text, tuple(self.marks), self._asks_rows(), bool(calls), not is_alone)

    def _asks_rows(self) -> bool:
        return has_aggregate(self.expression.tree) or any(True for _ in self._columns())

    def _check_calls(self) -> None:
        source, tokens = self.expression.span.source, self.expression.tokens
        if self.expression.tree.find(exp.Query) is not None:
            self._refuse(
                self.expression.span,
                "the condition has a subquery",
                "it can use only the rows that UNTIL reads, up to each boundary",
                "make the value a column of the table that UNTIL reads",
            )
            return
        self.errors.extend(now_texts(self.expression.tree, source, lambda _: None))
        for index, token in enumerate(tokens):
            upper = token.text.upper()
            wrong = check_deterministic_call(source, tokens, index, upper) or check_builtin_call(
                source, tokens, index, upper
            )
            if wrong is not None:
                self.errors.append(wrong)
            elif upper in _NOT_HERE and _is_call(tokens, index):
                self._refuse(
                    source.span(token.start, token.end + 1),
                    f"{upper}() cannot be used in {_WORD}",
                    "the condition uses the rows that UNTIL reads, up to each boundary",
                    _CONDITION_FIX,
                )

    def _render_for_spark(self) -> str:
        """Return the condition as SQL for Spark, with watermarks and the window's times replaced by column names."""
        text, tokens = self.expression.span.source.text, self.expression.tokens
        parts: list[str] = []
        index = 0
        while index < len(tokens):
            token, upper = tokens[index], tokens[index].text.upper()
            following = tokens[index + 1].text if index + 1 < len(tokens) else ""
            if token.text == ":" and following in self.variables:
                parts.append(literal(self.variables[following]))
                index += 2
            elif upper in {*_OF_WINDOW, _MARK, _BY_HAND} and _is_call(tokens, index):
                end = _closing_bracket(tokens, index + 1)
                inside = tokens[index + 2 : end]
                parts.append(self._render_call(upper, token, inside, text[token.start : tokens[end].end + 1]))
                index = end + 1
            else:
                parts.append(text[token.start : token.end + 1])
                index += 1
        return " ".join(parts)

    def _render_call(self, upper: str, token: Token, inside: Sequence[Token], text: str) -> str:
        if upper == _MARK:
            return self._render_watermark(token, inside, " ".join(text.split()))
        if inside:
            span = self.expression.span.source.span(token.start, inside[-1].end + 2)
            self._refuse(span, f"{token.text} takes no argument", "", f"write {token.text}()")
        return _OF_WINDOW.get(upper, "FALSE")

    def _render_watermark(self, token: Token, inside: Sequence[Token], text: str) -> str:
        span = self.expression.span.source.span(token.start, (inside[-1].end if inside else token.end + 1) + 2)
        paths = _qualified_names(inside)
        if paths is None:
            self._refuse(
                span,
                f"{text} names no columns",
                "",
                f"name a column, then the columns whose values are the parts, {_FIX}",
            )
            return "NULL"
        table, columns = self._find_table(paths, span)
        if table is None:
            return "NULL"
        for column in columns:
            self._require(table, column, span)
        self._require_instant(table, columns[0], span)
        known = next(
            (it for it in self.marks if (it.table, it.column, it.parts) == (table, columns[0], columns[1:])), None
        )
        if known is None:
            known = Least(f"wc_mark_{len(self.marks)}", table, columns[0], columns[1:], text)
            self.marks.append(known)
        return known.name

    def _find_table(self, paths: list[list[str]], span: Span) -> tuple[str | None, tuple[str, ...]]:
        """Return the table that qualified column names name, None if it is unknown, and the names without the table."""
        named = {".".join(path[:-1]) for path in paths if len(path) > 1}
        columns = tuple(path[-1] for path in paths)
        fitting = [name for name in self.tables if all(_is_name_of(qualifier, name) for qualifier in named)]
        if len(fitting) == 1 and (named or len(self.tables) == 1):
            return fitting[0], columns
        if named and not fitting:
            qualifier = ", ".join(sorted(named))
            self._refuse(
                span,
                f"{qualifier} is not read UNTIL here",
                f"{self.draft.name} reads UNTIL {', '.join(self.tables)}",
                did_you_mean(qualifier, self.tables) or "name one of these before the column",
            )
        else:
            fix = f"name it before the column, as in {self.tables[0]}.{columns[0]}"
            self._refuse(span, f"{columns[0]} is ambiguous", f"tables read UNTIL: {', '.join(self.tables)}", fix)
        return None, columns

    def _require(self, table: str, column: str, span: Span) -> None:
        listed = self.drafts[table].statement.value("COLUMNS", ParsedColumnList) if table in self.drafts else None
        if listed is None or listed.is_open or column.lower() == "timelabel":
            return
        names = [each.name for each in listed.columns]
        if column.lower() not in {name.lower() for name in names}:
            fix = did_you_mean(column, names) or f"name one of them, or add {column} to {table}"
            self._refuse(span, f"{table} has no column {column}", f"it has {', '.join(names)}", fix)

    def _require_instant(self, table: str, column: str, span: Span) -> None:
        """Report a watermark() of a column whose declared type is not TIMESTAMP."""
        listed = self.drafts[table].statement.value("COLUMNS", ParsedColumnList) if table in self.drafts else None
        known = [] if listed is None else listed.columns
        type_name = next((it.declared.type for it in known if it.name.lower() == column.lower()), None)
        if type_name is not None and type_name.upper() not in AS_TIMESTAMP:
            fix = f"declare it as {column} TIMESTAMP, or use max({column})"
            self._refuse(span, f"{column} of {table} is {type_name}, not TIMESTAMP", "a watermark is an instant", fix)

    def _columns(self) -> Iterator[Any]:
        """Yield the columns in the condition that are not arguments of watermark()."""
        for column in self.expression.tree.find_all(exp.Column):
            above = column.find_ancestor(exp.Anonymous)
            while above is not None and above.name.upper() != _MARK:
                above = above.find_ancestor(exp.Anonymous)
            if above is None:
                yield column

    def _check_tree(self) -> None:
        tree = self.expression.tree
        if self._asks_rows() and len(self.tables) > 1:
            self._refuse(
                self.expression.span,
                "the condition uses columns of several tables",
                f"{self.draft.name} reads UNTIL {', '.join(self.tables)}",
                f"use their watermarks, as in watermark({self.tables[0]}.at) >= WINDOW_END() AND ...",
            )
            return
        for column in self._columns():
            if column.find_ancestor(exp.AggFunc, exp.Anonymous) is None:
                self._refuse(
                    self.expression.span,
                    f"{column.sql()} is outside of an aggregate",
                    "the condition is evaluated once for all rows up to a boundary",
                    f"use an aggregate, as in max({column.sql()})",
                )
            else:
                self._require(self.tables[0], column.name, self.expression.span)
        self._check_names(tree)
        self._check_type(tree)
        found = simplify(tree.copy())
        if isinstance(_without_brackets(found), exp.Null) or (
            isinstance(_without_brackets(found), exp.Boolean) and not _without_brackets(found).this
        ):
            self.errors.append(
                self.expression.span.refuse(
                    "E264",
                    f"{self.expression.text} is never TRUE",
                    why="no window would ever close",
                    fix=_CONDITION_FIX,
                )
            )
        for node in tree.find_all(exp.Anonymous):
            if node.name.upper() == _BY_HAND and not _is_one_side(node, tree):
                self.errors.append(
                    self.expression.span.refuse(
                        "E265",
                        "closed_by_hand() does not close a window here",
                        why="`waterclock close` closes a window even if the remaining condition is FALSE",
                        fix="use it alone, or add OR closed_by_hand() at the end",
                    )
                )

    def _check_names(self, tree: Any) -> None:
        """Report unknown functions with names similar to those for CLOSE WHEN; Spark reports others at run time."""
        for node in tree.find_all(exp.Anonymous):
            name = node.name.upper()
            if name not in {*_OURS, *self.functions} and (near := did_you_mean(name, _OURS)):
                self._refuse(self.expression.span, f"there is no function {node.name}", "", near)

    def _check_type(self, tree: Any) -> None:
        """Report a condition that is a number, string or time: it would never be TRUE, and Spark reports no error."""
        found = _without_brackets(tree)
        kind = annotate_types(tree.copy(), dialect="spark").type
        is_mark = isinstance(found, exp.Anonymous) and found.name.upper() in {_MARK, *_OF_WINDOW}
        is_known = kind is not None and kind.this not in _MAY_BE_TRUE
        if is_mark or is_known:
            shown_type = "TIMESTAMP" if is_mark else kind.sql(dialect="spark")
            why = "a window closes when its condition is TRUE"
            self._refuse(
                self.expression.span, f"{self.expression.text} is {shown_type}, not BOOLEAN", why, f"compare it, {_FIX}"
            )

    def _refuse(self, span: Span, what: str, why: str, fix: str) -> None:
        self.errors.append(span.refuse("E263", what, why=why or None, fix=fix))


def _without_brackets(tree: Any) -> Any:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


def _is_one_side(node: Any, tree: Any) -> bool:
    """Return whether a call is the whole condition, or one of the conditions that OR combines."""
    while node is not tree:
        node = node.parent
        if not isinstance(node, exp.Paren | exp.Or):
            return False
    return True


def _is_name_of(qualifier: str, table: str) -> bool:
    return qualifier.lower() in {table.lower(), table.rsplit(".", 1)[-1].lower()}


def _is_call(tokens: Sequence[Token], index: int) -> bool:
    is_bracket = index + 1 < len(tokens) and tokens[index + 1].token_type is TokenType.L_PAREN
    return is_bracket and not (index and tokens[index - 1].token_type is TokenType.DOT)


def _closing_bracket(tokens: Sequence[Token], index: int) -> int:
    depth = 0
    while index < len(tokens):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(tokens[index].token_type, 0)
        if depth == 0:
            return index
        index += 1
    return len(tokens) - 1


def _qualified_names(tokens: Sequence[Token]) -> list[list[str]] | None:
    """Return the parts of each qualified name in a list with commas; None if there are other tokens."""
    paths: list[list[str]] = [[]]
    wants_name = True
    for token in tokens:
        if wants_name:
            if token.token_type in {TokenType.COMMA, TokenType.DOT, TokenType.STRING, TokenType.NUMBER, TokenType.STAR}:
                return None
            if not token.text.replace("_", "a").isalnum() and token.token_type not in _NAMES:
                return None
            paths[-1].append(token.text)
        elif token.token_type is TokenType.COMMA:
            paths.append([])
        elif token.token_type is not TokenType.DOT:
            return None
        wants_name = not wants_name
    return None if wants_name else paths
