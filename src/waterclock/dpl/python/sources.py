"""Locates the arguments of recorded calls in a project's Python files, and parses them."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Mapping
from pathlib import Path

from waterclock.dpl.python.fingerprints import PythonFingerprints
from waterclock.dpl.python.positions import CallSite, PythonText
from waterclock.dpl.syntax.clause_table import BY_ARGUMENT
from waterclock.dpl.syntax.cursor import Cursor
from waterclock.dpl.syntax.grant_clause import parse_rights
from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.dpl.syntax.statements import StatementKind
from waterclock.dpl.syntax.tokens import statements_of, words_of
from waterclock.flow.declarations import Value


class PythonSources:
    """The Python files of the project at `root`, with methods to locate and parse the arguments of calls in them."""

    def __init__(self, root: Path, variables: Mapping[str, Value]) -> None:
        self.root = root
        self.variables = variables
        self.fingerprints = PythonFingerprints(root)
        self._known: dict[str, PythonText | None] = {}

    def file_text(self, file: str) -> PythonText | None:
        """Return the text of a file of the project; None for a file outside of the project."""
        if file not in self._known:
            path = Path(file)
            is_own = path.is_relative_to(self.root) and path.is_file()
            self._known[file] = (
                PythonText(path.relative_to(self.root).as_posix(), importlib.util.decode_source(path.read_bytes()))
                if is_own
                else None
            )
        return self._known[file]

    def site(self, site: CallSite | None, otherwise: Span | None = None) -> Span:
        """Return the span of a call; `otherwise` if the call's file is outside of the project."""
        text = self.file_text(site.file) if site else None
        if text is not None and site is not None:
            return text.site(site)
        if otherwise is not None:
            return otherwise
        name, line = (site.file, site.line) if site else ("", 1)
        return SourceText(name, "", line).span(0, 1)

    def call(self, site: CallSite | None) -> ast.Call | None:
        """Return the syntax tree of a call; None if it cannot be found in the project."""
        text = self.file_text(site.file) if site else None
        return text.call_at(site) if text is not None and site is not None else None

    def node_span(self, site: CallSite, node: ast.expr | ast.keyword) -> Span:
        """Return the span of a node within a call."""
        text = self.file_text(site.file)
        return text.span(node) if text is not None else self.site(site)

    def source(self, site: CallSite, node: ast.expr | None, value: str, name: str) -> SourceText:
        """Return the source text for a string argument of a call; `node` is its expression, None if it is unknown."""
        text = self.file_text(site.file) or PythonText(site.file, "")
        return text.text(node, value, name, self.site(site))

    def keyword(self, site: CallSite, argument: str) -> ast.expr | None:
        """Return the expression of a keyword argument; None if the call does not name it, as with `**arguments`."""
        call = self.call(site)
        return next((one.value for one in call.keywords if one.arg == argument), None) if call else None

    def argument_span(self, site: CallSite, argument: str) -> Span:
        """Return the span of a keyword argument and its value; that of the call if it does not name the argument."""
        call = self.call(site)
        found = next((one for one in call.keywords if one.arg == argument), None) if call else None
        return self.node_span(site, found) if found is not None else self.site(site)

    def argument(self, site: CallSite, argument: str, value: object, node: ast.expr | None = None) -> SourceText:
        """Return the source text for a keyword argument, or its part at `node`. Raises E251 if it is not a string."""
        if isinstance(value, str):
            return self.source(site, node or self.keyword(site, argument), value, argument)
        shown = "a function's result" if callable(value) else repr(value)
        definition = BY_ARGUMENT.get(argument)
        examples = [each.example for each in definition.python_arguments if each.name == argument] if definition else []
        raise self.argument_span(site, argument).refuse(
            "E251", f"{argument} is {shown}, not a string", why="an argument's value is the text of the clause",
            fix=f"write {argument}={examples[0]}" if examples else "write it in quotes",
        )  # fmt: skip

    def positional(self, site: CallSite | None, index: int, value: object, at: Span) -> tuple[SourceText, str]:
        """Return the source text and the value of a positional argument. Raises E251 if it is not a string."""
        call = self.call(site)
        node: ast.expr | None = None
        if call is not None:
            names = ("name", "span")
            by_name = {keyword.arg: keyword.value for keyword in call.keywords}
            node = call.args[index] if index < len(call.args) else by_name.get(names[index])
        if not isinstance(value, str):
            span = self.node_span(site, node) if site and node is not None else self.site(site, at)
            raise span.refuse("E251", f"{value!r} is not a string", fix="write it in quotes")
        if site is None:
            return at.source, value
        return self.source(site, node, value, "name"), value

    def cursor(self, source: SourceText) -> Cursor:
        """Return a cursor over the words of an argument. Raises E204 for an empty text or several statements."""
        statements, errors = statements_of(source)
        if errors:
            raise errors[0]
        if len(statements) > 1:
            raise statements[1].span.refuse("E204", "an argument contains a semicolon", fix="remove it")
        tokens = statements[0].tokens if statements else []
        if not tokens:
            raise source.span(0, 1).refuse(
                "E204", "this string is empty", fix="write a value, or leave the argument out"
            )
        source = statements[0].source
        return Cursor(source, words_of(source, tokens), tokens, self.variables, first_words={})

    def table_name(self, source: SourceText) -> tuple[str, Span]:
        """Parse the name of a table; return it with its span."""
        return self.name(StatementKind.TRANSFORM, source)

    def name(self, kind: StatementKind, source: SourceText) -> tuple[str, Span]:
        """Parse the name that a statement declares; return it with its span. Raises E204 or E211 if it is invalid."""
        cursor = self.cursor(source)
        if kind in {StatementKind.CONNECTION, StatementKind.FUNCTION}:
            word = cursor.plain_name("a connection" if kind is StatementKind.CONNECTION else "a function")
            name, span = word.text, cursor.span(word)
        elif kind is StatementKind.GRANT:
            name, span = parse_rights(cursor), cursor.span(cursor.peek(-1))
        else:
            name, span = cursor.table()
        if not cursor.is_done:
            cursor.raise_unexpected("nothing after the name", fix=f"write the name alone: {name}")
        return name, span
