"""Checks rules on the inputs of a transform (EXPECT ... OF): the transform must read the input by its plain name."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from waterclock.dpl.resolve.table_options import keeps_open_windows
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import ParsedOptions, ParsedRule
from waterclock.dpl.syntax.unsupported import unsupported_error
from waterclock.errors import WaterclockError
from waterclock.flow.checks import MOST_CHECKS, can_quarantine_rows, list_marked_checks, marks_rows
from waterclock.flow.declarations import Choice, Query, Read
from waterclock.flow.enums import Kind, ReadKind
from waterclock.similar_names import did_you_mean

_ROW_ORIGINS = {Kind.COLLECT: "are collected", Kind.PUBLISH: "are published"}


def check_input_rules(drafts: Mapping[str, UnresolvedTable], views: Container[str]) -> Iterator[WaterclockError]:
    """Yield errors for rules OF tables that are not read by their plain names, and for rules that cannot be checked.

    `views` are the names of all views. Tables with an unknown input are skipped.
    """
    for draft in drafts.values():
        rules = [(rule, rule.of_span) for rule in rules_of_inputs(draft) if rule.of_span is not None]
        if not rules:
            continue
        if draft.kind in _ROW_ORIGINS:
            yield from (_rule_kind_error(draft, rule, span) for rule, span in rules)
            continue
        if draft.is_incomplete:
            continue
        read = plain_names(draft)
        for rule, span in rules:
            if rule.of not in read:
                yield _unread_input_error(
                    draft, rule.of, span, read, is_view=rule.of in views, is_there=rule.of in drafts
                )
            elif any(_is_read_otherwise(rule.of, choice) for choice in draft.declared.choices):
                fix = f"make two tables, or read {rule.of} in the same way in all queries"
                yield unsupported_error(
                    f"a rule OF {rule.of}, which one query reads by name and another by FLAT", span, fix=fix
                )
        yield from _check_unsupported(draft, rules[0][1])
        takes = can_quarantine_rows(draft.declared) or marks_rows(draft.declared)
        if takes and len(found := list_marked_checks(draft.declared)) > MOST_CHECKS:
            yield draft.at("EXPECT").refuse(
                "E275",
                f"{draft.name} has {len(found)} checks of a row, for rows that it reads and rows that it makes",
                why=f"a table that quarantines or drops rows can have up to {MOST_CHECKS} checks",
                fix="combine rules by AND, or split them over two tables",
            )


def rules_of_inputs(draft: UnresolvedTable) -> list[ParsedRule]:
    """Return the rules of a statement that check its inputs (EXPECT ... OF)."""
    return [rule for clause in draft.statement.clauses if clause.word == "EXPECT" for rule in clause.value if rule.of]


def plain_names(draft: UnresolvedTable) -> dict[str, None]:
    """Return the tables that a transform or its views read by their plain names, in the order written."""
    found: dict[str, None] = {}
    if draft.declared.query is not None:
        found.update(dict.fromkeys(_plain_reads(draft.declared.query)))
    for argument in draft.declared.function.arguments if draft.declared.function is not None else ():
        if argument.read is not None and argument.read.kind is ReadKind.PLAIN:
            found[argument.read.table] = None
        if argument.query is not None:
            found.update(dict.fromkeys(_plain_reads(argument.query)))
    return found


def _plain_reads(query: Query) -> Iterator[str]:
    for branch in query.branches:
        yield from _plain_reads(branch)
    for reference in query.tables:
        if reference.read is not None and reference.read.kind is ReadKind.PLAIN and not reference.is_mark:
            yield reference.read.table
        if reference.view is not None:
            yield from _plain_reads(reference.view)


def _is_read_otherwise(name: str, choice: Choice) -> bool:
    """Return whether one of several queries (WHEN) reads a table, but not by its plain name."""
    return Read(name) in choice.reads and name not in _plain_reads(choice.query)


def _rule_kind_error(draft: UnresolvedTable, rule: ParsedRule, span: Span) -> WaterclockError:
    return span.refuse(
        "E320",
        f"a rule of a {draft.kind.name} cannot have OF",
        why=f"each rule of a {draft.kind.name} checks the rows that {_ROW_ORIGINS[draft.kind]}",
        fix=f"leave OF {rule.of} out",
    )


def _unread_input_error(
    draft: UnresolvedTable, name: str, span: Span, read: Mapping[str, None], *, is_view: bool, is_there: bool
) -> WaterclockError:
    names = ", ".join(read) or "no table by its plain name"
    if is_view:
        return span.refuse(
            "E321",
            f"{name} is a view; OF needs a table that {draft.name} reads",
            why="a view is replaced by its query: the tables in that query are read",
            fix=f"name the table it reads: OF {' or OF '.join(read)}" if read else "name the table it reads",
        )
    how = next((each for each in draft.declared.reads if each.table == name), None)
    if how is not None:
        by = "FLAT or REFERENCES" if how.kind is ReadKind.PLAIN else how.kind.name
        return span.refuse(
            "E321",
            f"{draft.name} reads {name} only by {by}, and OF needs a plain read",
            why=f"OF checks the rows that FROM {name} returns; {by} returns other rows",
            fix=f"write the rule where {name} is made; or read it by FROM {name}",
        )
    return span.refuse(
        "E321",
        f"{draft.name} does not read {name}",
        why=f"it reads {names}",
        fix=f"read {name} in its query, or write the rule OF a table that it reads"
        if is_there
        else did_you_mean(name, read, otherwise="name a table of its query"),
    )


def _check_unsupported(draft: UnresolvedTable, span: Span) -> Iterator[WaterclockError]:
    if keeps_open_windows(draft.statement.value("OPTIONS", ParsedOptions)):
        yield unsupported_error("a rule OF an input, with open windows", span, fix="leave open_windows out, or OF")
    if draft.declared.function is not None and draft.declared.function.step is not None:
        fix = "write it in a TRANSFORM that it reads"
        yield unsupported_error("a rule OF an input of a stateful table", span, fix=fix)
