"""Builds the flow from resolved tables without errors, and computes the fingerprints of their code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import pairwise

from waterclock.dpl.config.model import Config
from waterclock.dpl.query.builtins import FUNCTIONS
from waterclock.dpl.resolve.connections import ValidConnections
from waterclock.dpl.resolve.fingerprints import (
    canonical_query,
    code_of_function,
    digest,
    fingerprint_of,
    flow_fingerprint,
)
from waterclock.dpl.resolve.former_code import Names
from waterclock.dpl.resolve.keyed_calls import current_keys
from waterclock.dpl.resolve.open_windows import with_open_windows
from waterclock.dpl.resolve.renames import former_names
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.resolve.views import QueryResolver
from waterclock.flow.about import About
from waterclock.flow.checks import every_rule
from waterclock.flow.declarations import Columns, Flow, Function, Table, TableDeclaration, View
from waterclock.flow.grants import Grant
from waterclock.flow.graph import order_of
from waterclock.timelabel.cadence import Cadence

_SEPARATOR = "\x1f"  # as `canonical` puts it between tokens


@dataclass(frozen=True, slots=True)
class FlowBuilder:
    """Builds a flow from `drafts`, which have no errors. `view_columns` are the column lists of views."""

    drafts: Mapping[str, UnresolvedTable]
    queries: QueryResolver
    functions: Mapping[str, Function]
    view_columns: Mapping[str, Columns]
    config: Config
    systems: ValidConnections
    grants: tuple[Grant, ...] = ()

    def build(self) -> Flow:
        """Return the flow, including the companion tables for open windows."""
        queries = self.queries
        stated = [*queries.tables.values(), *queries.views.values()]
        texts = {each.name: canonical_query(each) for each in stated if each.clause("AS") is not None}
        functions, names = {**FUNCTIONS, **self.functions}, former_names(self.drafts)
        tables = {
            name: self._build_table(draft, draft.cadence, texts, functions, names)
            for name, draft in self.drafts.items()
            if draft.cadence is not None
        }
        tables = with_open_windows(tables, self.drafts)
        return Flow(
            project=self.config.name,
            tables=tables,
            views={name: self._build_view(name) for name in queries.views if queries.of_view(name) is not None},
            functions=dict(self.functions),
            connections=dict(self.systems.connections),
            variables=dict(self.config.variables),
            pools=dict(self.config.pools),
            order=order_of(tables),
            fingerprint=flow_fingerprint(tables),
            grants=self.grants,
        )

    def _build_table(
        self,
        draft: UnresolvedTable,
        cadence: Cadence,
        texts: Mapping[str, str],
        functions: Mapping[str, Function],
        names: Names,
    ) -> Table:
        declared, own = draft.declared, draft.statement.name
        used = {own: texts[own]} if declared.query is not None else {}
        if declared.query is not None or declared.function is not None:
            used |= {name: texts[name] for name in self.queries.views_of(draft.name, draft.statement)}
        draft.declared = declared = _with_code_of_deletes(declared, functions)
        draft.functions = frozenset(
            _list_called_functions([*used.values(), *map(_list_words, _list_header_expressions(declared))], functions)
        )
        keys = current_keys(self._list_sql_texts(draft, functions), self.systems.connections)
        code = partial(
            fingerprint_of, draft, queries=used, functions=functions, keys=keys, variables=self.config.variables
        )
        fingerprint, before = code(), code(before=names) if names else ""
        return Table(
            **{each.name: getattr(declared, each.name) for each in fields(TableDeclaration)},
            cadence=cadence,
            was=names.get(draft.name),
            fingerprint=fingerprint,
            code_before=before if before != fingerprint else "",
        )

    def _list_sql_texts(self, draft: UnresolvedTable, functions: Mapping[str, Function]) -> list[str]:
        """Return all SQL texts that affect a table's rows: its query, views, header expressions and SQL functions."""
        views = [self.queries.of_view(name) for name in self.queries.views_of(draft.name, draft.statement)]
        queries = [query for query in (draft.declared.query, *views) if query is not None]
        bodies = [functions[name].body or "" for name in draft.functions]
        return [*(query.text for query in queries), *_list_header_expressions(draft.declared), *bodies]

    def _build_view(self, name: str) -> View:
        statement = self.queries.views[name]
        query = self.queries.of_view(name)
        if query is None:
            raise ValueError(f"view {name} has no query")
        about = About(
            statement.value("OWNER", str), statement.value("TAGS", tuple) or (), statement.value("COMMENT", str)
        )
        return View(name, self.view_columns[name], query, about, statement.span.place)


def _list_header_expressions(declared: TableDeclaration) -> list[str]:
    """Return the SQL expressions in a table's header: rules, computed columns, DELETE WHEN and CLOSE WHEN."""
    texts = [rule.expression for rule in every_rule(declared)]
    texts += [column.ending.made_as for column in declared.columns.named if column.ending and column.ending.made_as]
    texts += [column.made_as.expression for column in declared.columns.named if column.made_as]
    if declared.fold is not None and declared.fold.delete_when:
        texts.append(declared.fold.delete_when)
    if declared.closes is not None:
        texts.append(declared.closes.expression)
    return texts


def _list_words(text: str) -> str:
    return _SEPARATOR.join(re.findall(r"\w+", text.upper()))


def _with_code_of_deletes(declared: TableDeclaration, functions: Mapping[str, Function]) -> TableDeclaration:
    """Add to a table the digest of the functions that DELETE WHEN calls, because they decide which rows are deleted."""
    fold = declared.fold
    called = _list_called_functions([_list_words(fold.delete_when)], functions) if fold and fold.delete_when else []
    if fold is None or not called:
        return declared
    return replace(
        declared, fold=replace(fold, calls=digest(code_of_function(functions[name]) for name in sorted(called)))
    )


def _list_called_functions(texts: Iterable[str], functions: Mapping[str, Function]) -> list[str]:
    """Return the names of the functions that canonical texts call, directly or through other functions."""
    split = [text.split(_SEPARATOR) for text in texts] if functions else []
    words = {word for each in split for word in each}
    words |= {word.upper() for each in split for word, following in pairwise(each) if following == "("}  # in backticks
    waiting = [name for name in functions if name.upper() in words]
    found: dict[str, None] = {}
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = None
            inner = {word.upper() for word in re.findall(r"\w+", functions[name].body or "")}
            waiting.extend(other for other in functions if other.upper() in inner)
    return list(found)
