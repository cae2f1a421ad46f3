"""Replaces the current names of renamed tables by their former names in the code of tables that read them.

The code of a reader contains the names of its inputs. Renaming an input must not count as changed code, so a second
fingerprint is computed with the former names: a batch that recorded it ran the same query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.tokens import dialect
from waterclock.flow.declarations import Columns, Flat
from waterclock.flow.late_rows import LateRows
from waterclock.spark_sql import quote_name

Names = Mapping[str, str]
_MARKED = re.compile("⟦(.*?)⟧")
_SEPARATOR = "\x1f"  # as `canonical` puts it between tokens


def with_former_table_names(draft: UnresolvedTable, names: Names) -> UnresolvedTable:
    """Return a table with the former names of the tables that it reads; `names` maps current to former names."""
    declared = draft.declared
    source, closes = declared.source, declared.closes
    if source is not None and source.each is not None:
        source = replace(source, each=replace(source.each, table=_former_name(names, source.each.table)))
    if closes is not None:
        marks = (
            replace(it, table=_former_name(names, it.table), text=_rename_in_call(it.text, names))
            for it in closes.marks
        )
        closes = replace(closes, marks=tuple(marks))
    before = replace(
        declared,
        reads=tuple(replace(read, table=_former_name(names, read.table)) for read in declared.reads),
        columns=_rename_in_columns(declared.columns, names),
        input_rules=tuple(replace(rule, of=_former_name(names, rule.of)) for rule in declared.input_rules),
        source=source,
        closes=closes,
    )
    return replace(draft, declared=before)


def flat_with_former_names(flat: Flat, names: Names) -> Flat:
    """Return a FLAT in which tables have their former names."""
    joins = tuple(replace(join, parent=flat_with_former_names(join.parent, names)) for join in flat.joins)
    return replace(flat, read=replace(flat.read, table=_former_name(names, flat.read.table)), joins=joins)


def late_rows_with_former_names(late_rows: LateRows, names: Names) -> LateRows:
    """Return the settings of a late-row table with the former name of the table whose late rows it stores."""
    return replace(late_rows, of=_former_name(names, late_rows.of))


def mark_table_name(table: str) -> str:
    """Return a table name in ⟦⟧, by which `replace_marked_table_names` finds it in the text of a syntax tree."""
    return f"⟦{table}⟧"


def replace_marked_table_names(shapes: Sequence[str], names: Names) -> tuple[str, ...]:
    """Return the texts of a function's syntax trees, with each marked table name replaced by the former name."""
    own, *used = shapes
    return _MARKED.sub(lambda found: _former_name(names, found[1]), own), *used


def text_with_former_names(text: str, names: Names) -> str:
    """Return a canonical text with former table names, also in qualified column names, but not in strings."""
    parts = text.split(_SEPARATOR)
    for now, was in names.items():
        parts = _replace_names(parts, _name_tokens(now), _name_tokens(was))
    return _SEPARATOR.join(parts)


def restore_former_names(text: str, names: Names) -> str:
    """Return a text from `hidden.describe_hidden` with former table names.

    The text contains reads, such as `PAST(shop.orders, '7 days')`, and columns, such as `` `orders`.`file` ``.
    """
    for now, was in names.items():
        text = re.sub(rf"(?<![\w.`]){re.escape(now)}(?![\w.`])", was, text)
        text = text.replace(f"{quote_name(_bare_name(now))}.", f"{quote_name(_bare_name(was))}.")
    return text


def _replace_names(parts: Sequence[str], now: Sequence[str], was: Sequence[str]) -> list[str]:
    found: list[str] = []
    index = 0
    lower = [part.lower() for part in parts]
    whole, bare = [part.lower() for part in now], now[-1].lower()
    while index < len(parts):
        begins = index == 0 or parts[index - 1] != "."
        if begins and lower[index : index + 3] == whole:
            found += was
            index += 3
        elif begins and lower[index] == "".join(whole) and parts[max(index - 1, 0)] != "AS":  # quoted as one name
            found.append("".join(was))
            index += 1
        elif begins and lower[index] == bare and parts[index + 1 : index + 2] == ["."]:
            found.append(was[-1])
            index += 1
        else:
            found.append(parts[index])
            index += 1
    return found


def _name_tokens(name: str) -> list[str]:
    """Return the tokens of a name as `canonical` writes them: keywords in capitals, others unchanged."""
    quoted = (token for token in dialect().tokenize(name))
    return [token.text if token.token_type.name in {"VAR", "IDENTIFIER"} else token.text.upper() for token in quoted]


def _rename_in_call(text: str, names: Names) -> str:
    """Return the text of a call such as `watermark(shop.orders.at)` with former table names."""
    for now, was in names.items():
        text = text.replace(f"{now}.", f"{was}.").replace(f"({_bare_name(now)}.", f"({_bare_name(was)}.")
    return text


def _rename_in_columns(columns: Columns, names: Names) -> Columns:
    named = (
        column
        if column.references is None
        else replace(column, references=replace(column.references, table=_former_name(names, column.references.table)))
        for column in columns.named
    )
    return replace(columns, named=tuple(named))


def _former_name(names: Names, name: str) -> str:
    return names.get(name, name)


def _bare_name(table: str) -> str:
    return table.rpartition(".")[2]
