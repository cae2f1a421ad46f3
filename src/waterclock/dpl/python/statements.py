"""Runs a Python file, and converts its calls such as `wc.collect` to statements like those of DPL."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from waterclock.dpl.python.decorators import Call, VariableCall, argument_word, record_calls
from waterclock.dpl.python.failures import loading_error
from waterclock.dpl.python.functions import transform_function
from waterclock.dpl.python.loader import isolate_imports, run_file
from waterclock.dpl.python.sources import PythonSources
from waterclock.dpl.python.stateful import check_step_arguments, step_function
from waterclock.dpl.python.udfs import read_function_call
from waterclock.dpl.syntax.clause_definition import ClauseForm
from waterclock.dpl.syntax.clause_parsing import parse_clause, rule_of_view_error
from waterclock.dpl.syntax.clause_table import ARGUMENTS, BY_ARGUMENT, BY_WORD
from waterclock.dpl.syntax.cursor import unknown_variable
from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.dpl.syntax.statements import UNREAD, Clause, ParsedOptions, ParsedWhen, Statement, StatementKind
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import PythonFunction, Secret, Value
from waterclock.secrets.credentials import hide_credentials, is_credential
from waterclock.similar_names import did_you_mean

_HABITS = {
    "merge": 'write mode="merge ..."', "append": 'write mode="append"', "replace": 'write mode="replace"',
    "temporal": 'write mode="temporal ..."', "data_time": 'write by="data time column"',
    "arrival_time": 'write by="arrival time"', "lookback": 'write by="data time column lookback 1 hour"',
    "order_by": 'write mode="merge order by column"', "delete_when": 'write mode="merge delete when expression"',
    "key": 'write columns="id KEY, *"', "keys": 'write columns="id KEY, *"', "unique_key": 'write columns="id KEY, *"',
    "primary_key": 'write columns="id KEY, *"', "query": 'write as_="SELECT ..."', "sql": 'write as_="SELECT ..."',
    "source": 'write from_="connection.unit"', "target": 'write to="connection.unit"',
    "cron": 'write schedule="10 * * * *"',
    "schema": 'write columns="id BIGINT, *"', "description": 'write comment="..."',
    "timezone": 'write zone="Europe/Berlin"',
    "depends_on": "leave it out: a batch waits for its inputs",
    "materialized": "leave it out: a transform is a table", "expectations": 'write expect=["a > 0", ...]',
    "type_": 'write type="..."',
}  # fmt: skip

_EXAMPLES = {"ON": '"schema.name"', "TO": '"role"'}


def load_python(
    path: Path, *, root: Path, variables: Mapping[str, Value]
) -> tuple[list[Statement], list[WaterclockError]]:
    """Run a Python file of the project at `root`; return the statements that it declares, and all errors."""
    errors: list[WaterclockError] = []
    with isolate_imports(root), record_calls(path, root) as calls:
        try:
            module = run_file(path, root)
        except (Exception, SystemExit) as raised:  # noqa: BLE001  whatever the user's file raises is reported
            module = None
            errors.append(loading_error(raised, path, root))
        reader = _CallReader(PythonSources(root, variables), calls, errors, is_whole=module is not None)
        return [statement for call in calls for statement in reader.statements(call)], errors


class _CallReader:
    """Converts recorded calls to statements. Errors are appended to `errors`; the other arguments are still read."""

    def __init__(
        self, texts: PythonSources, calls: Sequence[Call], errors: list[WaterclockError], *, is_whole: bool
    ) -> None:
        self.texts = texts
        self.declarations = frozenset((call.site.end_line, call.site.end_column) for call in calls)
        self.errors = errors
        self.is_whole = is_whole

    def statements(self, call: Call) -> Iterator[Statement]:
        """Yield the statement that a call declares; nothing if its name is invalid."""
        try:
            if callable(call.name):
                raise self._no_name_error(call)
            if call.step is not None and (error := check_step_arguments(call, self.texts)) is not None:
                raise error
            if call.step is not None and call.step.is_state:
                source = self.texts.argument(call.site, "state", call.name)
            else:
                source, _ = self.texts.positional(call.site, 0, call.name, self.texts.site(call.site))
            name, span = self.texts.name(call.kind, source)
        except WaterclockError as error:
            self.errors.append(error)
            return
        failed: set[str] = set()
        clauses = self._clauses(call, failed)
        function = None
        try:
            if call.step is not None:
                function, found = step_function(call, self.texts, span, self.declarations, clauses)
            else:
                function, found = self._function(call, name, span, failed)
            clauses.extend(found)
        except WaterclockError as error:
            self.errors.append(error)
            failed.add("AS")
        if call.kind is StatementKind.GRANT and (missing := {"ON", "TO"} - failed - {one.word for one in clauses}):
            word = min(missing)
            self.errors.append(
                span.refuse("E204", f"this grant has no {word.lower()}", fix=f"add {word.lower()}={_EXAMPLES[word]}")
            )
        if all(call.arguments.get(flag) is True for flag in BY_WORD["TYPE OF TABLE"].argument_names):
            self.errors.append(span.refuse("E207", "the type of the table is written twice", fix="remove one of them"))
        yield Statement(call.kind, name, span, tuple(clauses), function, frozenset(failed))

    def _no_name_error(self, call: Call) -> WaterclockError:
        name = getattr(call.name, "__name__", "name")
        return self.texts.site(call.site).refuse(
            "E251", f"{_format_decorator(call)} above {name} has no name",
            fix=f'write @{_format_decorator(call)}("{"" if call.kind is StatementKind.FUNCTION else "schema."}{name}")',
        )  # fmt: skip

    def _clauses(self, call: Call, failed: set[str]) -> list[Clause]:
        """Convert a call's arguments, except None and False, to clauses; add the words of invalid ones to `failed`."""
        clauses: list[Clause] = []
        for argument, value in call.arguments.items():
            if value is None or value is False:
                continue
            try:
                clauses.extend(self._argument(call, argument, value, failed))
            except WaterclockError as error:
                self.errors.append(error)
                failed.add(UNREAD if error.code == "E205" else _clause_word(argument))
        return clauses

    def _argument(self, call: Call, argument: str, value: object, failed: set[str]) -> Iterator[Clause]:
        at = self.texts.argument_span(call.site, argument)
        self._require_known_argument(call, argument, at)
        if call.kind is StatementKind.FUNCTION:
            return  # its arguments are one clause, read together
        word = _clause_word(argument)
        clause = BY_ARGUMENT[argument]
        if clause.form is ClauseForm.FLAG or call.kind in clause.flag_in:
            if value is not True:
                raise at.refuse("E251", f"{argument} is {value!r}, not True or False", fix=f"write {argument}=True")
            yield Clause(word, next(it.flag for it in clause.python_arguments if it.name == argument), at)
        elif argument == "options" and isinstance(value, Mapping):
            yield Clause(word, self._options(call, value, failed), at)
        elif argument == "when":
            yield from self._when_clauses(call, value, at)
        elif clause.form is ClauseForm.LIST and not isinstance(value, str):
            sources = self._list_sources(call, argument, value)
            if clause.is_repeatable:
                for source in sources:
                    yield self._parse_clause(call.kind, word, source)
            else:
                yield Clause(word, tuple(self._plain_name(source) for source in sources), at)
        else:
            source = self.texts.argument(call.site, call.written_name(argument), value)
            yield self._parse_clause(call.kind, word, source)

    def _when_clauses(self, call: Call, value: object, at: Span) -> Iterator[Clause]:
        """Yield a clause for each pair of a condition and a query in the argument `when`."""
        node = self.texts.keyword(call.site, "when")
        pairs = value if isinstance(value, list | tuple) else ()
        if not pairs or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
            raise at.refuse(
                "E251", "when is not a list of pairs of a condition and a query",
                fix="""write when=[("WINDOW_START() < '2024-01-01'", "SELECT ..."), ...]""",
            )  # fmt: skip
        nodes = node.elts if isinstance(node, ast.List | ast.Tuple) and len(node.elts) == len(pairs) else []
        for index, pair in enumerate(pairs):
            inside = nodes[index] if nodes else None
            parts = inside.elts if isinstance(inside, ast.List | ast.Tuple) and len(inside.elts) == 2 else [node, node]
            texts = [self.texts.argument(call.site, "when", *both) for both in zip(pair, parts, strict=True)]
            condition = parse_clause("WHEN", texts[0].text, texts[0], variables=self.texts.variables)
            query = parse_clause("AS", texts[1].text, texts[1], variables=self.texts.variables)
            yield Clause("WHEN", ParsedWhen(condition, query), texts[0].span(0, max(len(texts[0].text), 1)))

    def _parse_clause(self, kind: StatementKind, word: str, source: SourceText) -> Clause:
        text = source.text
        if word in {"OPTIONS", "TAGS"} and not text.lstrip().startswith("("):
            raise source.span(0, len(text) or 1).refuse(
                "E204", f"{word.lower()} must be in brackets here", fix=f'write {word.lower()}="({text})"'
            )
        value = parse_clause(word, text, source, variables=self.texts.variables, kind=kind)
        return Clause(word, value, source.span(0, max(len(text), 1)))

    def _require_known_argument(self, call: Call, argument: str, at: Span) -> None:
        known = ARGUMENTS[call.kind]
        if argument in known:
            return
        word = _clause_word(argument)
        name = at.text.partition("=")[0].strip() or argument
        span = at.source.span(at.start, at.start + len(name))
        if any(argument in others for others in ARGUMENTS.values()):
            if call.kind is StatementKind.VIEW and word == "EXPECT":
                raise rule_of_view_error(span)
            definition = BY_ARGUMENT[argument]
            raise span.refuse(
                "E206", f"a {call.kind.value} takes no argument {argument}", why=f"it takes {', '.join(known)}",
                fix=definition.elsewhere.get(call.kind, f"leave {argument} out"),
            )  # fmt: skip
        raise span.refuse(
            "E205",
            f"unknown argument {argument}",
            why=None if argument in _HABITS else f"{_format_decorator(call)} takes {', '.join(known)}",
            fix=_HABITS.get(argument) or did_you_mean(argument, known, otherwise=f"leave {argument} out"),
        )

    def _options(self, call: Call, values: Mapping[Any, Any], failed: set[str]) -> ParsedOptions:
        node = self.texts.keyword(call.site, "options")
        keys = node.keys if isinstance(node, ast.Dict) else []
        nodes = {one.value: one for one in keys if isinstance(one, ast.Constant)}
        at = self.texts.argument_span(call.site, "options")
        found: dict[str, Value | Secret] = {}
        spans: dict[str, Span] = {}
        for name, value in values.items():
            key = nodes.get(name)
            span = self.texts.node_span(call.site, key) if key is not None else at
            if not isinstance(name, str):
                self.errors.append(span.refuse("E251", f"option {name!r} is not a string", fix="write it in quotes"))
            elif value is not None:
                try:
                    found[name], spans[name] = self._option(name, value, span), span
                except WaterclockError as error:
                    self.errors.append(error)
                    failed.add("OPTIONS")
        return ParsedOptions(found, spans)

    def _option(self, name: str, value: object, span: Span) -> Value | Secret:
        if isinstance(value, VariableCall):
            source, variable = self.texts.positional(value.site, 0, value.name, span)
            if variable not in self.texts.variables:
                raise unknown_variable(variable, source.span(0, len(variable) or 1), self.texts.variables)
            return self.texts.variables[variable]
        secret: object = value.name if isinstance(value, Secret) else None
        if isinstance(value, Secret) and not (isinstance(secret, str) and secret):
            raise span.refuse("E251", f"the name of a secret is {secret!r}", fix='write wc.secret("name")')
        if isinstance(value, str | int | float | Secret):
            return value
        fix = (
            f'write the name with dots, as in "{name}.key": ...'
            if isinstance(value, Mapping)
            else f'write one value, as in "{name}": "text", or leave it out'
        )
        shown = "a value that is not shown" if is_credential(name) else hide_credentials(repr(value))
        raise span.refuse("E251", f"option {name} is {shown}, not a string, a number, True or False", fix=fix)

    def _list_sources(self, call: Call, argument: str, value: object) -> list[SourceText]:
        node = self.texts.keyword(call.site, argument)
        if not isinstance(value, Sequence):
            return [self.texts.argument(call.site, argument, value)]
        nodes = node.elts if isinstance(node, ast.List | ast.Tuple) and len(node.elts) == len(value) else []
        return [
            self.texts.argument(call.site, argument, one, nodes[index] if nodes else node)
            for index, one in enumerate(value)
        ]

    def _plain_name(self, source: SourceText) -> str:
        cursor = self.texts.cursor(source)
        name = cursor.name("a name").text
        if not cursor.is_done:
            cursor.raise_unexpected("nothing after the name", fix=f"write the name alone: {name}")
        return name

    def _function(
        self, call: Call, name: str, span: Span, failed: set[str]
    ) -> tuple[PythonFunction | None, list[Clause]]:
        has_text = any(call.arguments.get(one) is not None for one in ("as_", "return_"))
        if call.function is not None and call.arguments.get("when") is not None:
            raise span.refuse(
                "E252", f"{name} has both a function and when", why="when can only choose between queries",
                fix='remove the function, and add as_="SELECT ..." for all other labels',
            )  # fmt: skip
        if call.function is not None and has_text:
            raise span.refuse(
                "E252",
                f"{name} has both a function and a query",
                why="a table has only one of them",
                fix="remove one of them",
            )
        if call.kind is StatementKind.FUNCTION:
            return read_function_call(call, self.texts, span, self.declarations)
        if call.function is not None:
            return transform_function(call, self.texts, span, self.declarations, self.errors)
        if call.kind in {StatementKind.TRANSFORM, StatementKind.VIEW} and not has_text and "AS" not in failed:
            failed.add("AS")
            if call.arguments.get("when") is not None and self.is_whole:
                raise span.refuse(
                    "E233", f"{name} has no query for other labels",
                    why="a label for which no condition is TRUE would have no rows, without a visible reason",
                    fix='add as_="SELECT ..." for them',
                )  # fmt: skip
            above = ", or write @wc.transform above a function" if call.kind is StatementKind.TRANSFORM else ""
            if self.is_whole:
                raise span.refuse("E233", f"{name} has no query", fix=f'add as_="SELECT ..."{above}')
        return None, []


def _clause_word(argument: str) -> str:
    return BY_ARGUMENT[argument].word if argument in BY_ARGUMENT else argument_word(argument)


def _format_decorator(call: Call) -> str:
    return f"wc.{call.kind.value.lower().split()[-1]}"
