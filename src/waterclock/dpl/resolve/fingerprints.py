"""Computes fingerprints of the code of tables. They ignore comments, spacing and the case of keywords."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlglot.tokens import Token, TokenType

from waterclock.dpl.resolve.former_code import (
    Names,
    flat_with_former_names,
    late_rows_with_former_names,
    replace_marked_table_names,
    restore_former_names,
    text_with_former_names,
    with_former_table_names,
)
from waterclock.dpl.resolve.hidden import describe_hidden
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.statements import ParsedColumnList, ParsedQuery, ParsedWhen, Statement, StatementKind
from waterclock.flow.checks import every_rule, keeps_unread
from waterclock.flow.declarations import (
    Column,
    Columns,
    Flat,
    Function,
    PythonFunction,
    Rule,
    Source,
    Table,
    TableDeclaration,
)
from waterclock.flow.flats import flats_of
from waterclock.flow.forms import APPROVAL
from waterclock.flow.origins import SOURCE
from waterclock.flow.rule_actions import FAILS, format_actions
from waterclock.flow.schema_changes import OnSchemaChange

# prefixes of string literals; stored fingerprints contain them, and sqlglot's numbers differ between its releases
_STRINGS = {TokenType.STRING: "77", TokenType.RAW_STRING: "95", TokenType.HEX_STRING: "91"}
_AS_WRITTEN = frozenset({TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER})
_SEPARATOR = "\x1f"
# a string or name in quotes, in which spaces count, or a run of spaces
_QUOTED_OR_SPACES = re.compile(
    r"""(?<!\w)[rR]'[^']*'|(?<!\w)[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|\s+""", re.DOTALL
)
NO_NAMES: Names = {}


def canonical(tokens: Sequence[Token]) -> str:
    """Return the canonical text of tokens: without comments and spacing, keywords and functions in capitals."""
    parts: list[str] = []
    for index, token in enumerate(tokens):
        kind, text = token.token_type, token.text
        if kind is TokenType.L_PAREN and parts and tokens[index - 1].token_type is TokenType.VAR:
            parts[-1] = parts[-1].upper()
        if kind in _AS_WRITTEN:
            parts.append(text)
        elif kind in _STRINGS:
            parts.append(f"{_STRINGS[kind]}:{text}")
        else:
            parts.append(" ".join(text.upper().split()))
    return _SEPARATOR.join(parts)


def canonical_query(statement: Statement) -> str:
    """Return the canonical text of a statement's queries: each WHEN condition with its query, then the last query.

    For a view with a closed column list, the text begins with that list.
    """
    listed = statement.value("COLUMNS", ParsedColumnList) if statement.kind is StatementKind.VIEW else None
    if listed is not None and not listed.is_open:
        names = (column.name for column in listed.columns)
        return _SEPARATOR.join(["(", *names, ")", "AS", _canonical_queries(statement)])
    return _canonical_queries(statement)


def _canonical_queries(statement: Statement) -> str:
    query = statement.value("AS", ParsedQuery)
    last = canonical(query.tokens) if query else ""
    whens = [clause.value for clause in statement.clauses if isinstance(clause.value, ParsedWhen)]
    pairs = [
        part for it in whens for part in ("WHEN", canonical(it.condition.tokens), "AS", canonical(it.query.tokens))
    ]
    return _SEPARATOR.join([*pairs, "ELSE", "AS", last]) if pairs else last


def digest(parts: Iterable[Any]) -> str:
    """Return 16 hexadecimal digits that identify a sequence of parts."""
    text = "\x1e".join(str(part) for part in parts)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def fingerprint_of(
    draft: UnresolvedTable,
    *,
    queries: Mapping[str, str],
    functions: Mapping[str, Function],
    keys: Sequence[str] = (),
    variables: Mapping[str, Any],
    before: Names = NO_NAMES,
) -> str:
    """Return the fingerprint of a table's code: query and views, or function; columns, rules, mode, source, variables.

    `queries` maps the table and its views to their canonical texts. `before` maps current names of renamed tables to
    their former names; with it, the result is the fingerprint that the code had before the renaming.
    """
    flats = list(_list_flats(draft.declared))
    if before:
        draft, flats = with_former_table_names(draft, before), [flat_with_former_names(flat, before) for flat in flats]
        queries = {before.get(name, name): text_with_former_names(text, before) for name, text in queries.items()}
    declared, used = draft.declared, set(draft.query_variables)
    parts: list[Any] = [declared.kind.value, declared.type.value, declared.mode.value, declared.merge]
    parts += [repr(declared.temporal)] if declared.temporal else []
    parts += [_describe_columns(declared.columns), *(_describe_rule(rule) for rule in declared.rules)]
    parts += [f"{_describe_rule(rule)} OF {rule.of}" for rule in declared.input_rules]
    parts += [f"{name}={text}" for name, text in sorted(queries.items())]
    parts += [str(read) for read in declared.reads]
    parts += [repr(flat) for flat in flats]
    parts += [restore_former_names(text, before) for text in describe_hidden(draft)]
    parts += [_describe_source(declared.source), declared.destination and str(declared.destination)]
    parts += [f"CLOSE WHEN {declared.closes.expression} {declared.closes.marks}"] if declared.closes else []
    late_rows = (clause.value for clause in draft.statement.clauses if clause.word == "LATE ROWS")
    parts += [f"LATE ROWS {late_rows_with_former_names(each, before)}" for each in late_rows]
    parts += [f"ORDER {declared.order.by} PER {declared.order.per}"] if declared.order else []
    if declared.destination is not None:
        parts.append(sorted(declared.destination.options.items()))
    if declared.function is not None:
        code = (
            digest(replace_marked_table_names(declared.function.shapes, before))
            if before and declared.function.shapes
            else ""
        )
        parts += [declared.function.name, code or declared.function.fingerprint or declared.function.source]
        parts += [repr(declared.function.step)] if declared.function.step else []
        used |= {argument.variable for argument in declared.function.arguments if argument.variable}
    parts += [code_of_function(functions[name]) for name in sorted(draft.functions) if name in functions]
    for rule in every_rule(declared):
        used |= set(rule.variables)
    parts += [f"{name}={variables.get(name)!r}" for name in sorted(used)]
    parts += [f"current key {name}" for name in keys]
    # in older versions, Spark replaced ${...} in texts, so batches that they made with such texts had other code
    parts += ["texts as written"] if any("${" in str(part) for part in parts) else []
    return digest(parts)


def _list_flats(declared: TableDeclaration) -> Iterable[Flat]:
    arguments = declared.function.arguments if declared.function else ()
    return (
        *(flats_of(declared.query) if declared.query else ()),
        *(
            flat
            for each in arguments
            for flat in ([each.flat] if each.flat else flats_of(each.query) if each.query else ())
        ),
    )


def flow_fingerprint(tables: Mapping[str, Table]) -> str:
    """Return the fingerprint of a flow: that of its tables' code, cadences, and clauses about runs and retention."""
    return digest(
        (
            name,
            table.fingerprint,
            str(table.cadence),
            table.start,
            table.retain,
            table.keep_versions,
            table.is_sequential,
            table.on_restate,
            *([f"AT MOST {table.restate_at_most}"] if table.restate_at_most is not None else []),
            *([f"WAS {table.was}"] if table.was else []),
            *([table.manifest] if table.manifest else []),
            *([f"SORT BY {table.sort_by}"] if table.sort_by else []),
            *([f"CONTINUOUS {table.continuous}"] if table.continuous else []),
            *([f"CLUSTER BY {table.cluster_by}"] if table.cluster_by else []),
            *([f"PARTITION BY {table.partition_by}"] if table.partition_by else []),
            *([f"BUCKET BY {table.bucket_by}"] if table.bucket_by else []),
            *(["SHUFFLE NONE"] if table.is_unshuffled else []),
            *([f"COMPATIBLE {table.compatible}"] if table.compatible else []),
            *([f"ON SCHEMA CHANGE {table.columns.on_change}"] if table.columns.on_change else []),
        )
        for name, table in sorted(tables.items())
    )


def _describe_columns(columns: Columns) -> str:
    text = [str(columns.on_change)] if columns.on_change is OnSchemaChange.TEXT else []  # others change no value
    text += [f"parsed() {format_actions(columns.unread.actions)}"] if columns.unread and keeps_unread(columns) else []
    return _SEPARATOR.join([*(_describe_column(column) for column in columns.named), str(columns.is_open), *text])


def _describe_column(column: Column) -> str:
    rules = [_describe_rule(rule) for rule in column.rules]
    type_text = "".join(column.type.upper().split()) if column.type and not column.is_added else None
    actions = {"type": column.else_of_type, "null": column.else_of_null, "key": column.else_of_key}
    if column.references and column.references.otherwise:
        of = column.references
        actions[f"REFERENCES {of.table} {of.columns} {of.role}"] = of.otherwise
    texts = [f"{what} else {format_actions(each)}" for what, each in actions.items() if each not in ((), FAILS)]
    texts += [str(column.key_options)] if column.key_options else []
    texts += [f"AS {SOURCE}.{column.metadata_field}"] if column.metadata_field else []
    texts += [f"TOKENS {column.subject}"] if column.is_token else []
    made_as = f" AS {column.ending.made_as}" if column.ending and column.ending.made_as else ""
    made_as += f" AS {column.made_as.expression}" if column.made_as else ""
    return " ".join([f"{column.name} {type_text} {column.is_key} {column.is_not_null} {rules}{made_as}", *texts])


def _describe_rule(rule: Rule) -> str:
    return f"{_with_single_spaces(rule.expression)} {rule.scope.value} {format_actions(rule.actions)}"


def _with_single_spaces(expression: str) -> str:
    """Return an expression with each sequence of spaces replaced by one space, except in strings and quoted names."""
    return _QUOTED_OR_SPACES.sub(lambda found: " " if found[0].isspace() else found[0], expression).strip()


def _describe_source(source: Source | None) -> str | None:
    if source is None:
        return None
    unit = source.unit
    # the approval of changes in a form does not affect the rows of a batch
    options = sorted((name, str(value)) for name, value in unit.options.items() if name != APPROVAL)
    # CHANGED does not affect the rows of a batch, so it is left out
    each = f" {source.each}" if source.each else ""
    return f"{unit} {unit.query} {options} {source.batching.value} {source.time_column} {source.lookback}{each}"


def code_of_function(function: Function) -> str:
    """Return a text that identifies the code of a SQL or Python function."""
    body = _with_single_spaces(function.body) if function.body else ""
    python = (
        function.python.fingerprint or function.python.source if isinstance(function.python, PythonFunction) else ""
    )
    return f"{function.name} {function.parameters} {function.returns} {body} {python}"
