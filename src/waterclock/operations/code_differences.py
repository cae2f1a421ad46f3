"""Describes how the code of a table differs between two declarations: by clause, without comments and spacing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from waterclock.batches.former_names import replace_table_names
from waterclock.dpl.syntax.parser import parse_text
from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.dpl.syntax.statements import Clause, ParsedColumn, ParsedColumnList, ParsedQuery, Statement
from waterclock.flow.declarations import Flow, Value

_PARTS = {"AS": "query", "COLUMNS": "columns", "EXPECT": "rules", "WHEN": "query"}
_ELSEWHERE = "a view, function, variable or input that it uses"
_PYTHON = "Python code"
_TYPES, _UPSTREAM = "types", "upstream"


def describe_change(
    before: str,
    after: str,
    variables: Mapping[str, Value],
    names: Collection[str] = (),
    renamed: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """Return the parts of a changed statement: `query`, `columns`, `types`, `rules`, or the words of other clauses.

    `upstream` follows `query` if the query uses other tables or views of `names`. If no part differs, the change is in
    something that the statement uses. Statements in Python are not taken apart. `renamed` maps former names of tables
    to current ones: a renamed table is the same table, so WAS is no change, and neither is its new name in a query.
    """
    renamed = renamed or {}
    old, new = _parse(before, variables), _parse(after, variables)
    if old is None or new is None:
        return (_PYTHON,)
    words = dict.fromkeys(clause.word for statement in (new, old) for clause in statement.clauses)
    words.pop("WAS", None)
    found = list[str]()
    for word in words:
        olds, news = _clauses_of(old, word), _clauses_of(new, word)
        if [replace_table_names(text, renamed) for text in _texts(olds)] == _texts(news):
            continue
        found += _describe_columns(olds, news) if word == "COLUMNS" else [_PARTS.get(word, word)]
        if word == "AS" and _used_names(olds, names, renamed) != _used_names(news, names, {}):
            found.append(_UPSTREAM)
    return tuple(dict.fromkeys(found)) or (_ELSEWHERE,)


def renamed_tables(flow: Flow) -> dict[str, str]:
    """Map the declared former name (WAS) of each table to its current name."""
    return {table.was: name for name, table in flow.tables.items() if table.was is not None}


def find_reworded(
    flow: Flow, borrowed: Collection[str], before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the borrowed tables whose statement was written in another way, which cannot change their rows.

    `before` and `after` are the texts of the statements by table.
    """
    former = {name: flow.tables[name].was or name for name in borrowed}
    return tuple(name for name, was in former.items() if was in before and before[was].strip() != after[name].strip())


def _parse(text: str, variables: Mapping[str, Value]) -> Statement | None:
    """Parse the statement of a table. None if the text is no statement of the language."""
    statements, errors = parse_text(SourceText("statement", text), variables=variables)
    return None if errors or not statements else statements[0]


def _clauses_of(statement: Statement, word: str) -> list[Clause]:
    return [clause for clause in statement.clauses if clause.word == word]


def _texts(clauses: Sequence[Clause]) -> list[str]:
    return [_text_of(clause.span) for clause in clauses]


def _text_of(span: Span) -> str:
    return " ".join(span.text.split())


def _describe_columns(before: Sequence[Clause], after: Sequence[Clause]) -> list[str]:
    """Return whether the types of columns differ, or anything else of the column list."""
    lists = [clause.value for clause in (*before, *after) if isinstance(clause.value, ParsedColumnList)]
    if len(lists) != 2:
        return [_PARTS["COLUMNS"]]
    old, new = lists
    types = [{each.name: each.declared.type for each in of.columns} for of in lists]
    others = [each for each in new.columns if types[0].get(each.name) == types[1][each.name]]
    texts = [{each.name: _text_of(each.span) for each in of.columns} for of in lists]
    is_other_list = (
        old.is_open != new.is_open
        or list(types[0]) != list(types[1])
        or any(texts[0][each.name] != texts[1][each.name] for each in others)
        or list(map(_without_type, old.columns)) != list(map(_without_type, new.columns))
    )
    has_other_types = any(types[1][name] != of for name, of in types[0].items() if name in types[1])
    return [_PARTS["COLUMNS"]] * is_other_list + [_TYPES] * has_other_types or [_PARTS["COLUMNS"]]


def _without_type(column: ParsedColumn) -> object:
    return replace(column.declared, type=None), [_text_of(rule.expression.span) for rule in column.rules]


def _used_names(clauses: Sequence[Clause], names: Collection[str], renamed: Mapping[str, str]) -> set[str]:
    """Return those of `names` that a query uses, former names as current ones.

    A name has a schema: it is two tokens with a dot between them.
    """
    tokens = [token.text for each in clauses if isinstance(each.value, ParsedQuery) for token in each.value.tokens]
    dotted = {f"{left}.{right}" for (left, dot), (_, right) in pairwise(pairwise(tokens)) if dot == "."}
    return {renamed.get(name, name) for name in dotted}.intersection(names)
