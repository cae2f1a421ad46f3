"""Computes the text edits that leave HIDDEN columns of a query's inputs out of each `*`.

A HIDDEN column can be read by its name, and is not part of any `*`. If a SELECT does not name it, it is removed from
the input; else an EXCEPT is added to each `*`. Names are searched in tokens: a false match only adds an EXCEPT and
changes no row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
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
    """Tokens with their nesting.

    `around` has the index of the innermost bracket around each token, or -1. `select_above` has the index of the
    innermost SELECT whose text contains each token, `select_that_reads` that of the SELECT whose FROM contains it; None
    if there is none.
    """

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.at = {token.start: index for index, token in enumerate(tokens)}
        self.around: list[int] = []
        self.select_above: list[int | None] = []
        self.select_that_reads: list[int | None] = []
        open_ones = [_TOP]
        own: int | None = None  # the SELECT in the same brackets
        outer: int | None = None  # the SELECT around these brackets
        reader: int | None = None
        enclosing: list[tuple[int | None, int | None, int | None]] = []
        for index, token in enumerate(tokens):
            kind = token.token_type
            if kind in _CLOSING and enclosing:
                open_ones.pop()
                own, outer, reader = enclosing.pop()
            above = outer if own is None else own
            self.around.append(open_ones[-1])
            self.select_above.append(above)
            self.select_that_reads.append(reader)
            if kind in _OPENING:
                open_ones.append(index)
                enclosing.append((own, outer, reader))
                own, outer = None, above
            elif kind is TokenType.SELECT:
                own = index
            elif kind is TokenType.FROM and self.kind(index - 1) is not TokenType.DISTINCT:
                reader = own
            elif self.parts(index):
                own = reader = None

    def kind(self, index: int) -> TokenType | None:
        """Return the type of the token at an index; None if there is none."""
        return self.tokens[index].token_type if 0 <= index < len(self.tokens) else None

    def parts(self, index: int) -> bool:
        """Return whether the token at `index` ends a SELECT, as UNION, EXCEPT, INTERSECT and |> do."""
        kind = self.kind(index)
        is_of_star = kind is TokenType.EXCEPT and self.kind(index - 1) is TokenType.STAR
        return kind is TokenType.PIPE_GT or (kind in _SETS and not is_of_star)

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
    """A SELECT: the indexes of its `*`, PIVOTs and NATURAL JOIN, and the names in it.

    `stars` are its own without a qualifier. `qualified` maps the lower-case name of an input to each `name.*` of it, in
    the SELECT or in its subqueries. `merged` are the columns in USING. `names` maps each possible name of a column, in
    lower case, to its first index; names after AS do not count.
    """

    stars: tuple[int, ...]
    qualified: Mapping[str, Sequence[int]]
    pivots: tuple[int, ...]
    natural: int | None
    merged: frozenset[str]
    names: Mapping[str, int]


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
        self.tables_named: dict[int, frozenset[str]] = {}
        self.written: dict[int, frozenset[str]] = {}
        self.excepted: dict[int, list[str]] = {}

    def read(self, table: NamedTable, hidden: tuple[str, ...]) -> None:
        """Add the edits for an input table with HIDDEN columns."""
        index, node = self.nested.at.get(table.start), self.nodes.get(table.start)
        begin = None if index is None else self.nested.select_that_reads[index]
        if begin is None or node is None:
            self.hiding.left_out[table.start] = hidden
            return
        select = self._select(begin)
        name = table.alias or node.alias
        alias = node.args.get("alias")
        stars = select.stars
        join = node.find_ancestor(exp.Join, exp.Select)
        if isinstance(join, exp.Join) and join.args.get("kind") in {"SEMI", "ANTI"}:
            stars = ()
        own = select.qualified.get(name.lower(), ())
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
        if star not in self.written:  # the user's own EXCEPT may name columns already
            self.written[star] = frozenset(self._in_brackets(star + 1) if self.nested.has_list(star) else ())
        if parts[-1].lower() not in self.written[star]:
            self.excepted.setdefault(star, []).append(".".join(map(quote_name, parts)))

    def _select(self, begin: int) -> _Select:
        if begin not in self.selects:
            nested, end = self.nested, self.nested.end_of(begin)
            inside = [at for at in range(begin, end) if nested.is_star(at)]
            stars = [at for at in inside if nested.select_above[at] == begin]
            inner = [at for at in inside if nested.select_above[at] != begin]
            own = [at for at in range(begin, end) if self.tokens[at].text.upper() in _COLUMN_CLAUSES]
            own = [at for at in own if nested.select_above[at] == begin]
            words = [(self.tokens[at].text.upper(), at) for at in own]
            pivots = tuple(at for word, at in words if word in {"PIVOT", "UNPIVOT"} and self._has_brackets(at))
            using = (at for word, at in words if word == "USING" and nested.kind(at + 1) is TokenType.L_PAREN)
            names: dict[str, int] = {}
            for at, text in nested.texts(begin, end):
                if nested.kind(at - 1) is not TokenType.ALIAS:
                    names.setdefault(text, at)
            self.selects[begin] = _Select(
                tuple(at for at in stars if not self._is_qualified(at)),
                self._find_qualified([*stars, *inner], begin),
                pivots,
                next((at for word, at in words if word == "NATURAL" and nested.kind(at + 1) in _JOINS), None),
                frozenset(text for at in using for text in self._in_brackets(at)),
                names,
            )
        return self.selects[begin]

    def _is_qualified(self, star: int) -> bool:
        return self.nested.kind(star - 1) is TokenType.DOT

    def _find_qualified(self, stars: Sequence[int], begin: int) -> dict[str, list[int]]:
        """Map the lower-case name of each input of a SELECT to each `name.*` of it, also those in subqueries."""
        found: dict[str, list[int]] = {}
        for star in stars:
            before = star - 2
            if not self._is_qualified(star) or self.nested.kind(before - 1) is TokenType.DOT:
                continue
            name, inner = self.tokens[before].text.lower(), self.nested.select_above[star]
            if inner is None or inner == begin or name not in self._find_tables_named(inner):
                found.setdefault(name, []).append(star)
        return found

    def _find_tables_named(self, select: int) -> frozenset[str]:
        """Return the possible names of inputs in a SELECT, in lower case: all names without a dot after them."""
        if select not in self.tables_named:
            texts = self.nested.texts(select, self.nested.end_of(select))
            self.tables_named[select] = frozenset(
                text for at, text in texts if self.nested.kind(at + 1) is not TokenType.DOT
            )
        return self.tables_named[select]

    def _find_named_columns(self, select: _Select, hidden: Sequence[str]) -> dict[str, int]:
        """Map each HIDDEN column that a SELECT may name to the index of its first token, in the order of the tokens."""
        lower = {name.lower(): name for name in hidden}
        named = {name: select.names[text] for text, name in lower.items() if text in select.names}
        return dict(sorted(named.items(), key=itemgetter(1)))

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
