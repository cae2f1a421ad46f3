"""Computes the text edits that leave HIDDEN columns of a query's inputs out of each `*`.

A HIDDEN column can be read by its name, and is not part of any `*`. If a SELECT does not name it, it is removed from
the input; else an EXCEPT is added to each `*`. Names are searched in tokens: a false match only adds an EXCEPT and
changes no row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from waterclock.dpl.query.column_scope import start_of
from waterclock.dpl.query.names_in_query import NamedTable, QueryNames
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.dpl.syntax.tokens import dialect
from waterclock.errors import WaterclockError
from waterclock.spark_sql import quote_name

_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
_SETS = frozenset({TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT})
_LITERALS = frozenset({TokenType.STRING, TokenType.RAW_STRING, TokenType.NUMBER})
# the tokens before a * that denotes columns; any other * multiplies
_BEFORE_A_STAR = frozenset(
    {TokenType.SELECT, TokenType.ALL, TokenType.DISTINCT, TokenType.COMMA, TokenType.L_PAREN, TokenType.DOT,
     TokenType.HINT}
)  # fmt: skip
_TOP = -1


@dataclass(slots=True)
class HiddenColumnEdits:
    """The edits of a query that leave out HIDDEN columns, by offsets in its source text.

    `left_out` maps the offset of an input table to the columns to remove from it. `stars` maps an offset after a `*` to
    the text to insert there.
    """

    left_out: dict[int, tuple[str, ...]] = field(default_factory=dict)
    stars: dict[int, str] = field(default_factory=dict)
    errors: list[WaterclockError] = field(default_factory=list)


def compute_hiding(
    source: SourceText, tokens: Sequence[Token], found: QueryNames, hidden: Callable[[NamedTable], Sequence[str]]
) -> HiddenColumnEdits:
    """Return the edits that leave HIDDEN columns out of each `*` of a query, or of one branch of it.

    `hidden` returns the HIDDEN columns of an input table. E319 is added to the errors for a SELECT that names one of
    them and has a NATURAL JOIN.
    """
    of_reads = [(table, tuple(names)) for table in found.tables if not table.mark and (names := hidden(table))]
    hiding = HiddenColumnEdits()
    if of_reads and found.tree is not None:
        nodes = {start: node for node in found.tree.find_all(exp.Table) if (start := start_of(node)) is not None}
        finder = _HiddenColumnFinder(source, _Nested(tokens), nodes, hiding)
        for table, names in of_reads:
            finder.read(table, names)
        finder.write()
    return hiding


def exclude_columns_from_stars(expression: str, columns: Sequence[str]) -> str:
    """Return a rule's expression with an EXCEPT of `columns` at each `*`."""
    nested = _Nested(dialect().tokenize(expression))
    for star in reversed(range(len(nested.tokens))):
        if not nested.is_star(star):
            continue
        at, opening, closing = nested.tokens[star].end + 1, " EXCEPT (", ")"
        written = set[str]()
        if nested.has_list(star):
            end = nested.find_closing_bracket(star + 2)
            at, opening, closing = nested.tokens[end].start, ", ", ""
            written = {text for _, text in nested.texts(star + 3, end)}
        if listed := ", ".join(quote_name(each) for each in columns if each.lower() not in written):
            expression = f"{expression[:at]}{opening}{listed}{closing}{expression[at:]}"
    return expression


class _Nested:
    """Tokens with their nesting: `around` has the index of the innermost bracket around each token, or -1."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.at = {token.start: index for index, token in enumerate(tokens)}
        self.around: list[int] = []
        open_ones = [_TOP]
        for index, token in enumerate(tokens):
            if token.token_type in _CLOSING and len(open_ones) > 1:
                open_ones.pop()
            self.around.append(open_ones[-1])
            if token.token_type in _OPENING:
                open_ones.append(index)

    def kind(self, index: int) -> TokenType | None:
        """Return the type of the token at an index; None if there is none."""
        return self.tokens[index].token_type if 0 <= index < len(self.tokens) else None

    def preceding_indexes(self, index: int) -> Iterator[int]:
        """Yield the indexes before a token within the same brackets, nearest first."""
        level = self.around[index]
        return (at for at in range(index - 1, level, -1) if self.around[at] == level)

    def parts(self, index: int) -> bool:
        """Return whether the token at `index` ends a SELECT, as UNION, EXCEPT, INTERSECT and |> do."""
        kind = self.kind(index)
        is_of_star = kind is TokenType.EXCEPT and self.kind(index - 1) is TokenType.STAR
        return kind is TokenType.PIPE_GT or (kind in _SETS and not is_of_star)

    def select_above(self, index: int) -> int | None:
        """Return the index of the innermost SELECT whose text contains a token; None if there is none."""
        at = index
        while at != _TOP:
            for earlier in self.preceding_indexes(at):
                if self.kind(earlier) is TokenType.SELECT:
                    return earlier
                if self.parts(earlier):
                    break
            at = self.around[at]
        return None

    def select_that_reads(self, index: int) -> int | None:
        """Return the index of the SELECT whose FROM contains the token at `index`; None if the FROM has no SELECT."""
        at = index
        while at != _TOP:
            for earlier in self.preceding_indexes(at):
                if self.kind(earlier) is TokenType.FROM and self.kind(earlier - 1) is not TokenType.DISTINCT:
                    return self._select_of(earlier)
                if self.parts(earlier):
                    return None
            at = self.around[at]
        return None

    def _select_of(self, index: int) -> int | None:
        for earlier in self.preceding_indexes(index):
            if self.kind(earlier) is TokenType.SELECT:
                return earlier
            if self.parts(earlier):
                return None
        return None

    def end_of(self, select: int) -> int:
        """Return the index after the last token of a SELECT."""
        level = self.around[select]
        end = len(self.tokens) if level == _TOP else self.find_closing_bracket(level)
        return next((at for at in range(select + 1, end) if self.around[at] == level and self.parts(at)), end)

    def find_closing_bracket(self, opening: int) -> int:
        """Return the index of the bracket that closes the one at `opening`; the number of tokens if none does."""
        level = self.around[opening]
        behind = range(opening + 1, len(self.tokens))
        return next((at for at in behind if self.kind(at) in _CLOSING and self.around[at] == level), len(self.tokens))

    def is_star(self, at: int) -> bool:
        """Return whether a token is a `*` that means columns: it neither multiplies nor counts rows."""
        if self.kind(at) is not TokenType.STAR or self.kind(at - 1) not in _BEFORE_A_STAR:
            return False
        is_only = self.kind(at - 1) is TokenType.L_PAREN and self.kind(at + 1) is TokenType.R_PAREN
        return not (is_only and at > 1 and self.tokens[at - 2].text.upper() == "COUNT")

    def has_list(self, star: int) -> bool:
        """Return whether an EXCEPT with a list of columns follows a `*`."""
        return self.kind(star + 1) is TokenType.EXCEPT and self.kind(star + 2) is TokenType.L_PAREN

    def texts(self, begin: int, end: int) -> Iterator[tuple[int, str]]:
        """Yield possible names between two indexes, in lower case, each with its index."""
        for at in range(begin, end):
            if self.kind(at) not in _LITERALS:
                yield at, self.tokens[at].text.lower()


@dataclass(frozen=True, slots=True)
class _Select:
    """A SELECT: the indexes of its first and last token, and of each `*`, PIVOT and NATURAL JOIN in it.

    `stars` are its own, `inner_stars` those of its subqueries. `merged` are the columns in USING.
    """

    begin: int
    end: int
    stars: tuple[int, ...]
    inner_stars: tuple[int, ...]
    pivots: tuple[int, ...]
    natural: int | None
    merged: frozenset[str]


class _HiddenColumnFinder:
    def __init__(
        self, source: SourceText, nested: _Nested, nodes: Mapping[int, Any], hiding: HiddenColumnEdits
    ) -> None:
        self.source = source
        self.nested = nested
        self.tokens = nested.tokens
        self.nodes = nodes
        self.hiding = hiding
        self.selects: dict[int, _Select] = {}
        self.excepted: dict[int, list[str]] = {}

    def read(self, table: NamedTable, hidden: tuple[str, ...]) -> None:
        """Add the edits for an input table with HIDDEN columns."""
        index, node = self.nested.at.get(table.start), self.nodes.get(table.start)
        begin = None if index is None else self.nested.select_that_reads(index)
        if begin is None or node is None:
            self.hiding.left_out[table.start] = hidden
            return
        select = self._select(begin)
        name = table.alias or node.alias
        alias = node.args.get("alias")
        stars = [star for star in select.stars if not self._is_qualified(star)]
        join = node.find_ancestor(exp.Join, exp.Select)
        if isinstance(join, exp.Join) and join.args.get("kind") in {"SEMI", "ANTI"}:
            stars = []
        own = [star for star in (*select.stars, *select.inner_stars) if self._is_of(star, name, select)]
        if alias is not None and alias.args.get("columns"):
            self._leave_out(table, hidden)
        elif select.pivots:
            pivoted = {text for pivot in select.pivots for text in self._in_brackets(pivot)}
            self._leave_out(table, tuple(each for each in hidden if each.lower() not in pivoted))
        elif stars or own or select.natural is not None:
            named = self._find_named_columns(select, hidden)
            self._leave_out(table, tuple(each for each in hidden if each not in named))
            if named and select.natural is not None:
                self.hiding.errors.append(self._natural_join_error(*next(iter(named.items()))))
                return
            for column in named:
                for star in stars if column.lower() not in select.merged else ():
                    self._except(star, [name, column])
                for star in own:
                    self._except(star, [column])

    def write(self) -> None:
        """Add the EXCEPT to insert after each `*` to the edits."""
        for star, names in self.excepted.items():
            listed = ", ".join(dict.fromkeys(names))
            if self.nested.has_list(star):
                self.hiding.stars[self.tokens[self.nested.find_closing_bracket(star + 2)].start] = f", {listed}"
            else:
                self.hiding.stars[self.tokens[star].end + 1] = f" EXCEPT ({listed})"

    def _leave_out(self, table: NamedTable, names: tuple[str, ...]) -> None:
        if names:
            self.hiding.left_out[table.start] = names

    def _except(self, star: int, parts: Sequence[str]) -> None:
        written = set()
        if self.nested.has_list(star):
            written = set(self._in_brackets(star + 1))
        if parts[-1].lower() not in written:  # the user's own EXCEPT may name it already
            self.excepted.setdefault(star, []).append(".".join(map(quote_name, parts)))

    def _select(self, begin: int) -> _Select:
        if begin not in self.selects:
            nested, end = self.nested, self.nested.end_of(begin)
            inside = [at for at in range(begin, end) if self.nested.is_star(at)]
            stars = tuple(at for at in inside if nested.select_above(at) == begin)
            own = [at for at in range(begin, end) if self.tokens[at].text.upper() in _COLUMN_CLAUSES]
            own = [at for at in own if nested.select_above(at) == begin]
            words = [(self.tokens[at].text.upper(), at) for at in own]
            pivots = tuple(at for word, at in words if word in {"PIVOT", "UNPIVOT"} and self._has_brackets(at))
            using = (at for word, at in words if word == "USING" and nested.kind(at + 1) is TokenType.L_PAREN)
            self.selects[begin] = _Select(
                begin,
                end,
                stars,
                tuple(at for at in inside if at not in stars),
                pivots,
                next((at for word, at in words if word == "NATURAL" and nested.kind(at + 1) in _JOINS), None),
                frozenset(text for at in using for text in self._in_brackets(at)),
            )
        return self.selects[begin]

    def _is_qualified(self, star: int) -> bool:
        return self.nested.kind(star - 1) is TokenType.DOT

    def _is_of(self, star: int, name: str, select: _Select) -> bool:
        """Return whether a `*` is `name.*` of the input `name` of a SELECT, in the SELECT or in its subqueries."""
        before = star - 2
        if not self._is_qualified(star) or self.tokens[before].text.lower() != name.lower():
            return False
        if self.nested.kind(before - 1) is TokenType.DOT:
            return False
        inner = self.nested.select_above(star)
        if inner is None or inner == select.begin:
            return True
        return not any(
            text == name.lower() and self.nested.kind(at + 1) is not TokenType.DOT
            for at, text in self.nested.texts(inner, self.nested.end_of(inner))
        )

    def _find_named_columns(self, select: _Select, hidden: Sequence[str]) -> dict[str, int]:
        """Map each HIDDEN column that a SELECT may name to the index of its token. Names after AS do not count."""
        lower = {name.lower(): name for name in hidden}
        named: dict[str, int] = {}
        for at, text in self.nested.texts(select.begin, select.end):
            if text in lower and self.nested.kind(at - 1) is not TokenType.ALIAS:
                named.setdefault(lower[text], at)
        return named

    def _has_brackets(self, at: int) -> bool:
        return TokenType.L_PAREN in {self.nested.kind(at + ahead) for ahead in (1, 3)}

    def _in_brackets(self, at: int) -> list[str]:
        """Return the words in the brackets after a token, in lower case."""
        opening = next(index for index in range(at + 1, len(self.tokens)) if self.nested.kind(index) in _OPENING)
        return [text for _, text in self.nested.texts(opening, self.nested.find_closing_bracket(opening))]

    def _natural_join_error(self, name: str, at: int) -> WaterclockError:
        token = self.tokens[at]
        return self.source.span(token.start, token.end + 1).refuse(
            "E319",
            f"{name} is HIDDEN, and used with a NATURAL JOIN",
            why="a NATURAL JOIN uses the columns of *, which does not include HIDDEN columns",
            fix="name the columns of the join: JOIN ... USING (id)",
        )


_COLUMN_CLAUSES = frozenset({"PIVOT", "UNPIVOT", "NATURAL", "USING"})
_JOINS = frozenset(
    {TokenType.JOIN, TokenType.INNER, TokenType.LEFT, TokenType.RIGHT, TokenType.FULL, TokenType.SEMI, TokenType.ANTI}
)
