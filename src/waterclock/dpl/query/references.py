"""Finds the tables, values and variables that a query names, and reports names and syntax that are not allowed.

Names are taken from the query's syntax tree, their offsets from its tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.tokens import Token, TokenType

from waterclock.dpl.query.builtins import BUILTINS_BY_NAME, check_builtin_call
from waterclock.dpl.query.determinism import WATCHED, check_deterministic_call
from waterclock.dpl.query.names_in_query import FLAT, NamedTable, NamedValue, QueryNames, mark_in_tree
from waterclock.dpl.query.scopes import CteScopes, written_ctes
from waterclock.dpl.query.sources_in_tokens import check_sources_parsed
from waterclock.dpl.query.spark_functions import TABLE_FUNCTIONS
from waterclock.dpl.query.union_by_name import branches_of, check_union_by_name
from waterclock.dpl.syntax.cursor import parse_at
from waterclock.dpl.syntax.foreign_syntax import check_foreign_syntax, templates_in
from waterclock.dpl.syntax.query_errors import check_steps, query_syntax_error
from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.dpl.syntax.sql_parsing import ParserBroke, parse_sql
from waterclock.dpl.syntax.statements import ParsedQuery
from waterclock.errors import WaterclockError
from waterclock.flow.enums import ReadKind
from waterclock.similar_names import did_you_mean, find_similar
from waterclock.timelabel.duration import Duration, parse_duration

READS = {kind.name: kind for kind in ReadKind if kind is not ReadKind.PLAIN}
SPANNING = {"PAST": "the span to read back", "UNTIL": "the time by which rows may be late"}
VALUES = frozenset({"WINDOW_START", "WINDOW_END", "TIMELABEL", "IS_PARTIAL"})
MARKS = {"WATERMARK": ReadKind.PREVIOUS, "NEXT_WATERMARK": ReadKind.PLAIN}
"""Maps watermark functions to the way they read a `_mark` table: before the batch, or (NEXT_) after it."""
_READ_WORDS = frozenset({*READS, FLAT})
_WATCHED = frozenset({*_READ_WORDS, *VALUES, *MARKS, *WATCHED, *BUILTINS_BY_NAME})
_IDENTIFIER, _LATERAL = "IDENTIFIER", "LATERAL"
_BEHIND_LATERAL = frozenset({"VIEW", "OUTER"})
_LITERALS = frozenset({TokenType.STRING, TokenType.RAW_STRING})
_BEGIN_A_QUERY = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.VALUES})
_MISTAKEN_READS = {
    "LAST": "write PAST(table, '7 days') for earlier days, LATEST(table) for the newest state",
    "FIRST": "write HISTORY(table) for all rows",
    "STREAM": "leave STREAM out: a PARTITIONED table is read by its windows",
    "REF": "write only the table's name",
    "SOURCE": "write only the table's name",
}


def flat_option_fix(option: str) -> str:
    """Return the fix for `option`, an unknown option of FLAT."""
    return (
        "did you mean 'exact'?" if find_similar(option, ["exact"]) else "write 'exact': split at each parent's change"
    )


def find_in_branches(query: ParsedQuery) -> QueryNames:
    """Return the names in a query that may have UNION ALL BY NAME at its top level."""
    branches, errors = branches_of(query)
    if not branches:
        return find_references(query)
    found = QueryNames(None, errors=errors, branches=[(branch, find_references(branch)) for branch in branches])
    for _, inside in found.branches:
        found.tables.extend(inside.tables)
        found.variables = {**inside.variables, **found.variables}
        found.errors.extend(inside.errors)
    return found


def find_references(query: ParsedQuery) -> QueryNames:
    """Return the names in a query without UNION ALL BY NAME; only errors if it cannot be parsed."""
    source, tokens = query.span.source, query.tokens
    found = QueryNames(None, errors=list(check_union_by_name(query)))
    if found.errors:
        return found
    template = next(iter(templates_in(source, tokens)), None)
    if template is not None:
        found.errors.append(template)
        return found
    tree = _parse_query(query, found.errors)
    if tree is None:
        return found
    found.tree = tree
    _Finder(source, tokens, found).find()
    return found


def _parse_query(query: ParsedQuery, errors: list[WaterclockError]) -> Any:
    """Return a query's syntax tree; None if it is not a valid query, with the reason added to `errors`."""
    source, tokens = query.span.source, query.tokens
    try:
        trees = parse_sql(source, tokens)
    except ParserBroke as error:
        errors.append(_parser_crash_error(error.__cause__, query.span))
        return None
    except ParseError as error:
        errors.append(query_syntax_error(error, source, tokens, query.span))
        return None
    except WaterclockError as error:
        errors.append(error)
        return None
    wrong = [
        *check_steps(source, tokens),
        *(check_foreign_syntax(source, tokens, trees[0]) if trees and trees[0] else ()),
    ]
    errors.extend(wrong)
    if wrong:
        return None
    if trees and isinstance(trees[0], exp.Query | exp.Values):
        return trees[0]
    errors.append(source.span(query.span.start).refuse("E210", "this is not a query", fix="write SELECT ... FROM ..."))
    return None


def _parser_crash_error(error: BaseException | None, span: Span) -> WaterclockError:
    """Build the error for a query on which the parser crashed, such as `|> ORDER BY x |> LIMIT 3` or `map(a)`."""
    known, fix = "a |> that sorts or limits", "write it without |>"
    if isinstance(error, IndexError):
        known, fix = "a call without a required argument, such as map(a),", "add the missing argument"
    why = f"the parser fails on it; {known} is a known cause"
    return span.refuse("E210", "the query cannot be read", why=why, fix=fix)


class _Finder:
    def __init__(self, source: SourceText, tokens: Sequence[Token], found: QueryNames) -> None:
        self.source = source
        self.tokens = tokens
        self.found = found
        self.at: dict[int, int] = {token.start: index for index, token in enumerate(tokens)}
        self.reads: set[int] = set()
        self.scopes = CteScopes()

    def find(self) -> None:
        """Find tables and columns in the syntax tree, then values and variables in the tokens; add all to `found`."""
        columns: list[Any] = []
        names: dict[str, None] = {}
        for call in [node for node in self.found.tree.find_all(exp.Anonymous) if _is_mark(node)]:
            call.replace(mark_in_tree())
        for node in self.found.tree.walk():
            if isinstance(node, exp.Table):
                self._guard(self._table, node)
            elif isinstance(node, exp.Column):
                if node.args.get("db"):
                    columns.append(node)
            elif isinstance(node, exp.Placeholder):
                names[node.name] = None
        tables = {table.name: table for table in self.found.tables}
        for column in columns:
            self._guard(partial(self._column, names=tables), column)
        self._refuse_scripts()
        if not self.found.errors:
            self._refuse(check_sources_parsed(self.source, self.tokens, self.found.tree))
        self._walk_tokens(names)
        self.found.tables.sort(key=lambda table: table.start)

    def _guard(self, check: Any, node: Any) -> None:
        try:
            check(node)
        except WaterclockError as error:
            self.found.errors.append(error)

    def _refuse_scripts(self) -> None:
        """Refuse `TRANSFORM(...) USING 'command'`, which runs a shell command; the USING of a join has no string."""
        for index, (token, following) in enumerate(pairwise(self.tokens)):
            if token.text.upper() == "USING" and following.token_type in _LITERALS:
                error = self._span(index).refuse(
                    "E733", "USING would run a shell command", why="queries can only read tables and compute values",
                    fix="write a transform or a function in Python",
                )  # fmt: skip
                self.found.errors.append(error)

    def _table(self, node: exp.Table) -> None:
        this = node.this
        if isinstance(this, exp.Dot):
            first = next((part.meta["start"] for part in node.parts if "start" in part.meta), self.tokens[0].start)
            raise _too_many_names(self.source.span(first, first + 1), [part.name for part in node.parts])
        start = this.meta.get("start") if this is not None else None
        if start is None or start not in self.at or isinstance(node.parent, exp.Hint) or node.find_ancestor(exp.Hint):
            return  # generated by the parser for |>, or a hint's argument
        index = self.at[start]
        if isinstance(this, exp.Identifier):
            self._read_plain_table(node, index)
        elif isinstance(this, exp.Func):
            self._function(node, index)

    def _read_plain_table(self, node: exp.Table, index: int) -> None:
        parts = [part.name for part in node.parts]
        first = index - 2 * (len(parts) - 1)
        span = self.source.span(self.tokens[first].start, self.tokens[index].end + 1)
        if node.args.get("version") or node.args.get("when"):
            raise span.refuse(
                "E216", f"{'.'.join(parts)} is read at a fixed version",
                why="the window of a batch determines what it reads, so that it can be repeated",
                fix="write HISTORY, PAST, PREVIOUS or LATEST around the name, or leave the version out",
            )  # fmt: skip
        if isinstance(node.parent, exp.Stream) or node.find_ancestor(exp.Stream):
            raise span.refuse("E209", "STREAM is not supported", fix=_MISTAKEN_READS["STREAM"])
        if len(parts) == 1 and self.scopes.is_cte(node, parts[0]):
            return
        self._add(node, parts, span, ReadKind.PLAIN, None, first, index)

    def _function(self, node: exp.Table, index: int) -> None:
        word = self.tokens[index].text.upper()
        if word in MARKS:
            self.reads.add(index)
            raise self._span(index).refuse(
                "E216", f"{word}(...) is a value, not a table", fix=f"write SELECT {word}(...)"
            )
        if word in _MISTAKEN_READS:
            raise self._span(index).refuse("E216", f"{word}(...) does not exist", fix=_MISTAKEN_READS[word])
        if word == _IDENTIFIER:
            return  # `_identifier` refuses it at any place
        if word not in _READ_WORDS:
            self._require_spark_function(index, is_qualified=bool(node.args.get("db")))
            return
        self.reads.add(index)
        last = self._find_closing_bracket(index + 1)
        parts, name_span, rest = self._read_name(index + 2, last, word)
        if len(parts) == 1 and self.scopes.is_cte(node, parts[0]):
            raise name_span.refuse(
                "E216", f"{word} reads a table, and {parts[0]} is defined in this query",
                fix=f"write {word} around the table inside {parts[0]}",
            )  # fmt: skip
        if word == FLAT:
            is_exact = self._has_exact_option(rest, last)
            self._add(node, parts, name_span, ReadKind.PLAIN, None, index, last)
            self.found.tables[-1] = replace(self.found.tables[-1], is_flat=True, is_exact=is_exact)
            return
        duration = self._read_span(word, rest, last)
        self._add(node, parts, name_span, READS[word], duration, index, last)

    def _require_spark_function(self, index: int, *, is_qualified: bool) -> None:
        """Refuse a function in FROM that is not a table function of Spark, because it could read files unchecked."""
        span, name = self._span(index), self.tokens[index].text
        if name.lower() not in TABLE_FUNCTIONS:
            raise span.refuse(
                "E216", f"{name} is not a table function of Spark",
                fix=did_you_mean(
                    name.lower(), [*TABLE_FUNCTIONS, *map(str.lower, _READ_WORDS)],
                    otherwise="read a table by its name, as in FROM schema.name",
                ),
            )  # fmt: skip
        if is_qualified:
            raise span.refuse("E216", f"{name} is called with a schema", fix="leave the schema out")

    def _has_exact_option(self, index: int, last: int) -> bool:
        """Return whether FLAT has the option 'exact' after the table's name. Raises E216 or E237 for another option."""
        if index >= last:
            return False
        given = self.tokens[index + 1 : last]
        if len(given) == 1 and given[0].token_type is TokenType.STRING and given[0].text.lower() == "exact":
            return True
        if not given or self.tokens[index].token_type is not TokenType.COMMA:
            raise self._span(index, last - 1).refuse(
                "E216", "FLAT takes only the name of a table", fix="name one table"
            )
        span = self._span(index + 1, last - 1)
        raise span.refuse("E237", f"unknown option {span.text}", fix=flat_option_fix(given[0].text))

    def _read_name(self, index: int, last: int, word: str) -> tuple[list[str], Span, int]:
        parts: list[str] = []
        first = index
        while index < last:
            parts.append(self.tokens[index].text)
            index += 1
            if index >= last or self.tokens[index].token_type is not TokenType.DOT:
                break
            index += 1
        if not parts or self.tokens[first].token_type in {TokenType.STRING, TokenType.NUMBER, TokenType.L_PAREN}:
            raise self._span(first - 2, last).refuse(
                "E216", f"{word} reads a table", fix=f"write {word}(schema.name{', ...' if word in SPANNING else ''})"
            )
        return parts, self.source.span(self.tokens[first].start, self.tokens[index - 1].end + 1), index

    def _read_span(self, word: str, index: int, last: int) -> Duration | None:
        if index >= last:
            if word in SPANNING:
                raise self._span(index - 1, last).refuse(
                    "E216",
                    f"{word} needs a second argument: {SPANNING[word]}",
                    fix=f"write it as in {word}(schema.name, '7 days')",
                )
            return None
        span = self.source.span(self.tokens[index].start, self.tokens[last - 1].end + 1)
        if self.tokens[index].token_type is not TokenType.COMMA:
            raise span.refuse("E216", f"{word} takes only the name of a table", fix="name one table")
        if word not in SPANNING:
            fix = "write PAST(table, '7 days')" if word in {"HISTORY", "LATEST"} else f"write {word}(schema.name)"
            raise span.refuse("E216", f"{word} takes only a table", fix=fix)
        token = self.tokens[index + 1]
        inner = self.source.span(token.start, self.tokens[last - 1].end + 1)
        is_text = token.token_type in {TokenType.STRING, TokenType.RAW_STRING} and index + 2 == last
        duration: Duration = parse_at(inner, lambda: parse_duration(token.text if is_text else inner.text))
        return duration

    def _add(
        self, node: exp.Table, parts: list[str], span: Span, kind: ReadKind, duration: Duration | None, first: int,
        last: int,
    ) -> None:  # fmt: skip
        if len(parts) > 2:
            raise _too_many_names(span, parts)
        has_alias = bool(node.args.get("alias") and node.args["alias"].name)
        self.found.tables.append(
            NamedTable(
                ".".join(parts), span, kind, duration, self.tokens[first].start, self.tokens[last].end + 1,
                None if has_alias else parts[-1], self._alias_at(last),
            )
        )  # fmt: skip

    def _alias_at(self, last: int) -> int:
        """Return the offset to insert an alias at: after the table's name or function, and after its TABLESAMPLE."""
        index = last + 1
        while index + 1 < len(self.tokens) and self.tokens[index].text.upper() in {"TABLESAMPLE", "REPEATABLE"}:
            last = self._find_closing_bracket(index + 1)
            index = last + 1
        return self.tokens[last].end + 1

    @cached_property
    def _ctes(self) -> set[str]:
        return written_ctes(self.found.tree)

    @cached_property
    def _starts_of_functions(self) -> set[int | None]:
        nodes = self.found.tree.find_all(exp.Table)
        return {node.this.meta.get("start") for node in nodes if isinstance(node.this, exp.Func)}

    def _column(self, node: exp.Column, names: Mapping[str, NamedTable]) -> None:
        """Refuse schema.table.column, because Spark knows the table only by its alias or by its name without schema."""
        parts = [part.name for part in node.parts]
        table = f"{parts[0]}.{parts[1]}"
        start = node.parts[0].meta.get("start")
        if table not in names or start is None:
            return
        bare = ".".join(parts[1:])
        raise self.source.span(start, node.parts[-1].meta.get("end", start) + 1).refuse(
            "E214", f"{'.'.join(parts)} names its table with the schema",
            why="a column is qualified by a table's alias, or by its name without schema",
            fix=f"write {bare}" if names[table].alias else "write the alias and the column",
        )  # fmt: skip

    def _walk_tokens(self, variables: dict[str, None]) -> None:
        tokens = self.tokens
        for index, token in enumerate(tokens):
            kind = token.token_type
            if kind is TokenType.COLON:
                self._variable(index, variables)
            elif kind is TokenType.COMMA:
                self._comma(index)
            elif kind is TokenType.TABLE:
                self._table_argument(index)
            elif kind not in _LITERALS and token.text.upper() in {_LATERAL, _IDENTIFIER}:
                self._guard(self._lateral if token.text.upper() == _LATERAL else self._identifier, index)
            elif (upper := token.text.upper()) in _WATCHED and kind not in _LITERALS:
                if kind is TokenType.IDENTIFIER:  # in backticks: Spark calls its functions by such names too
                    self._refuse(check_deterministic_call(self.source, tokens, index, upper))
                elif upper in VALUES:
                    self._value(index, upper)
                elif upper in MARKS and index not in self.reads:
                    self._guard(self._mark, index)
                elif upper in _READ_WORDS and index not in self.reads:
                    self._check_stray_read(index, upper)
                else:
                    self._refuse(
                        check_deterministic_call(self.source, tokens, index, upper)
                        or check_builtin_call(self.source, tokens, index, upper)
                    )
        if "" in variables or "?" in variables:
            at = next((t for t in tokens if t.token_type is TokenType.PLACEHOLDER), tokens[0])
            self.found.errors.append(
                self.source.span(at.start).refuse(
                    "E217", "? has no value", fix="use a variable, as in :late_minutes, and set it below [vars]"
                )
            )

    def _refuse(self, error: WaterclockError | None) -> None:
        if error is not None:
            self.found.errors.append(error)

    def _variable(self, index: int, variables: dict[str, None]) -> None:
        following = self.tokens[index + 1] if index + 1 < len(self.tokens) else None
        if following is not None and following.start == self.tokens[index].end + 1 and following.text in variables:
            span = self.source.span(self.tokens[index].start, following.end + 1)
            self.found.variables.setdefault(following.text, span)

    def _comma(self, index: int) -> None:
        """Refuse a superfluous comma, which sqlglot ignores and Spark does not."""
        following = self.tokens[index + 1].token_type if index + 1 < len(self.tokens) else None
        if following in {TokenType.COMMA, TokenType.FROM, TokenType.R_PAREN, None}:
            self.found.errors.append(self._span(index).refuse("E210", "there is an extra comma", fix="remove it"))

    def _table_argument(self, index: int) -> None:
        """Refuse TABLE(name) as a function's argument, which Spark could resolve to a file. Names of CTEs are legal."""
        if not self._is_call(index) or self.tokens[index - 1].token_type is TokenType.ALIAS:
            return
        last = self._find_closing_bracket(index + 1)
        given = [token for token in self.tokens[index + 2 : last] if token.token_type is not TokenType.L_PAREN]
        is_name = len(given) == 1
        if not given or given[0].token_type in _BEGIN_A_QUERY or (is_name and given[0].text.lower() in self._ctes):
            return
        name = self.source.span(given[0].start, self.tokens[last - 1].end + 1).text
        error = self._span(index, last).refuse(
            "E216", f"TABLE({name}) names a table outside of FROM",
            why="Spark would search for it outside of the flow's tables, and in files too",
            fix=f"write TABLE(SELECT * FROM {name})",
        )  # fmt: skip
        self.found.errors.append(error)

    def _identifier(self, index: int) -> None:
        if self._is_call(index):
            raise self._span(index).refuse(
                "E216", "IDENTIFIER(...) hides the name of a table or function", fix="write the name itself"
            )

    def _lateral(self, index: int) -> None:
        """Check the function after LATERAL, LATERAL VIEW and LATERAL VIEW OUTER."""
        first = index + 1
        while first < len(self.tokens) and self.tokens[first].text.upper() in _BEHIND_LATERAL:
            first += 1
        last = first
        while last + 2 < len(self.tokens) and self.tokens[last + 1].token_type is TokenType.DOT:
            last += 2
        if first == len(self.tokens) or self.tokens[first].token_type is TokenType.L_PAREN:
            return
        if last + 1 < len(self.tokens) and self.tokens[last + 1].token_type is TokenType.L_PAREN:
            self._require_spark_function(last, is_qualified=last > first)

    def _value(self, index: int, upper: str) -> None:
        if not self._is_call(index):
            return
        last = self._find_closing_bracket(index + 1)
        if last != index + 2:
            self.found.errors.append(
                self._span(index, last).refuse("E216", f"{upper} takes no argument", fix=f"write {upper}()")
            )
        else:
            self.found.values.append(NamedValue(upper, self.tokens[index].start, self.tokens[last].end + 1))

    def _mark(self, index: int) -> None:
        """Add a call of WATERMARK or NEXT_WATERMARK, whose value is read from a companion table."""
        if not self._is_call(index):
            return
        word, last = self.tokens[index].text.upper(), self._find_closing_bracket(index + 1)
        parts, span, rest = self._read_name(index + 2, last, word)
        if rest < last or len(parts) != 2:
            raise self._span(index, last).refuse(
                "E216",
                f"{word} takes a table, schema.name",
                fix=f"write {word}({'.'.join(parts) if len(parts) == 2 else 'schema.name'})",
            )
        whole = self._span(index, last)
        found = NamedTable(".".join(parts), span, MARKS[word], None, whole.start, whole.end, None, whole.end, word)
        self.found.tables.append(found)

    def _check_stray_read(self, index: int, upper: str) -> None:
        if not self._is_call(index) or self.tokens[index].start in self._starts_of_functions:
            return  # not a call, or reported when the tree was walked
        self.found.errors.append(
            self._span(index).refuse(
                "E216", f"{upper}(...) reads a table, and is not a value",
                fix=f"write it in FROM, as in (SELECT max(a) FROM {upper}(schema.name))",
            )
        )  # fmt: skip

    def _is_call(self, index: int) -> bool:
        following = self.tokens[index + 1] if index + 1 < len(self.tokens) else None
        before = self.tokens[index - 1].token_type if index else None
        return following is not None and following.token_type is TokenType.L_PAREN and before is not TokenType.DOT

    def _find_closing_bracket(self, index: int) -> int:
        """Return the index of the bracket that closes the one at `index`."""
        depth = 0
        for at in range(index, len(self.tokens)):
            kind = self.tokens[at].token_type
            depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
            if depth == 0:
                return at
        return len(self.tokens) - 1

    def _span(self, index: int, last: int | None = None) -> Span:
        end = self.tokens[index if last is None else last].end + 1
        return self.source.span(self.tokens[index].start, end)


def _is_mark(node: exp.Anonymous) -> bool:
    return node.name.upper() in MARKS and not isinstance(node.parent, exp.Table)


def _too_many_names(span: Span, parts: Sequence[str]) -> WaterclockError:
    return span.refuse(
        "E213",
        f"unknown table {'.'.join(parts)}",
        why="a table is schema.name: two names",
        fix=f"write {'.'.join(parts[-2:])}",
    )
