"""Resolves the parts of a table's statement that do not depend on other tables: columns, rules, mode, unit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from waterclock.dpl.config.model import Config
from waterclock.dpl.resolve.collect_sources import resolve_source
from waterclock.dpl.resolve.column_lists import columns_of
from waterclock.dpl.resolve.connections import ValidConnections, check_table_options
from waterclock.dpl.resolve.deadlines import is_by_watermark
from waterclock.dpl.resolve.hidden import exclude_hidden_from_rules
from waterclock.dpl.resolve.late_rows import KEEPS_LATE
from waterclock.dpl.resolve.measures import measures_of
from waterclock.dpl.resolve.modes import resolve_mode
from waterclock.dpl.resolve.on_restate import on_restate_of
from waterclock.dpl.resolve.origins import check_origins
from waterclock.dpl.resolve.retention import deadline_of, keep_versions_of, retain_of
from waterclock.dpl.resolve.statement_rules import rules_of
from waterclock.dpl.resolve.table_options import manifest_of
from waterclock.dpl.resolve.unresolved_table import KINDS, UnresolvedTable
from waterclock.dpl.resolve.watermarks import MARKS
from waterclock.dpl.syntax.clause_table import BY_WORD
from waterclock.dpl.syntax.statements import (
    ParsedOptions,
    ParsedUnit,
    Statement,
)
from waterclock.errors import WaterclockError
from waterclock.flow.about import About
from waterclock.flow.declarations import TableDeclaration, Unit
from waterclock.flow.enums import Kind, TableType
from waterclock.flow.late_rows import LateRows
from waterclock.flow.watermarks import Watermark
from waterclock.similar_names import did_you_mean

_LONGEST_DESTINATION = 150  # bytes; file names have at most 255, and the name of a part adds up to 90


def draft_of(
    statement: Statement, config: Config, systems: ValidConnections, errors: list[WaterclockError]
) -> UnresolvedTable:
    """Return the `UnresolvedTable` of a statement with all parts that do not depend on other tables; report errors."""
    columns = columns_of(statement, config.variables, errors)
    rules = rules_of(statement, config.variables, errors)
    restate = on_restate_of(statement, config, errors)
    measures, is_profiled, offline = measures_of(statement, rules, config.variables, errors)
    draft = UnresolvedTable(
        statement,
        TableDeclaration(
            name=statement.name,
            kind=KINDS[statement.kind],
            type=statement.value("TYPE OF TABLE", TableType) or TableType.REGULAR,
            place=statement.span.place,
            columns=columns,
            rules=tuple(rule for rule in rules if not rule.of),
            input_rules=tuple(rule for rule in rules if rule.of),
            on_restate=restate.reaction,
            restate_at_most=restate.at_most,
            is_by_watermark=is_by_watermark(statement),
            about=_about(statement, config),
            function=statement.function,
            marks=statement.value(MARKS, Watermark),
            late_rows=statement.value(KEEPS_LATE, LateRows),
            measures=measures,
            is_profiled=is_profiled,
            offline=offline,
            **_values_as_read(statement),
        ),
    )
    exclude_hidden_from_rules(draft)
    draft.declared = replace(draft.declared, pool=_pool(draft, config, errors))
    if draft.kind is Kind.COLLECT:
        resolve_source(draft, systems, errors)
    elif draft.kind is Kind.TRANSFORM:
        errors.extend(check_origins(statement, None))
    if draft.kind is Kind.PUBLISH:
        unit = _destination(draft, systems, errors)
        draft.declared = replace(draft.declared, destination=unit, name=str(unit) if unit else statement.name)
    else:
        resolve_mode(draft, config.variables, errors)
        _resolve_retention(draft, config, errors)
    # defaults are found by the table's name, which for a publish is that of its unit
    draft.declared = replace(draft.declared, deadline=deadline_of(draft, config, errors))
    return draft


def _values_as_read(statement: Statement) -> dict[str, Any]:
    """Map the fields of `TableDeclaration` that get a clause's parsed value unchanged to these values."""
    definitions = ((clause, BY_WORD.get(clause.word)) for clause in statement.clauses)
    return {known.table_field: clause.value for clause, known in definitions if known is not None and known.table_field}


def _resolve_retention(draft: UnresolvedTable, config: Config, errors: list[WaterclockError]) -> None:
    options = draft.statement.value("OPTIONS", ParsedOptions)
    draft.declared = replace(
        draft.declared,
        retain=retain_of(draft, config, errors),
        keep_versions=keep_versions_of(draft, config, errors),
        manifest=manifest_of(options),
    )
    if draft.kind is Kind.TRANSFORM and options is not None:
        check_table_options(options, errors)


def _about(statement: Statement, config: Config) -> About:
    owner = statement.value("OWNER", str)
    tags = statement.value("TAGS", tuple)
    if owner is None:
        default = config.default(statement.name, "owner")
        owner = str(default[0]) if default else None
    if tags is None:
        default = config.default(statement.name, "tags")
        tags = tuple(default[0]) if default else ()
    return About(owner, tags, statement.value("COMMENT", str))


def _pool(draft: UnresolvedTable, config: Config, errors: list[WaterclockError]) -> str:
    clause = draft.statement.clause("POOL")
    pool, span = (str(clause.value), clause.span) if clause else ("default", draft.span)
    if clause is None and (default := config.default(draft.statement.name, "pool")):
        pool, span = str(default[0]), default[1]
    if pool not in config.pools:
        errors.append(
            span.refuse(
                "E245",
                f"unknown pool {pool}",
                why=f"pools: {', '.join(sorted(config.pools))}",
                fix=did_you_mean(pool, config.pools, otherwise=f"add {pool} = 2 below [pools] in waterclock.toml"),
            )
        )
    return pool


def _destination(draft: UnresolvedTable, systems: ValidConnections, errors: list[WaterclockError]) -> Unit | None:
    unit = draft.statement.value("TO", ParsedUnit)
    if unit is None:
        if not draft.statement.has_failed("TO"):
            errors.append(
                draft.span.refuse("E233", f"the PUBLISH of {draft.name} has no TO", fix="add it, as in TO ops.name")
            )
        return None
    bad = sorted({sign for sign in unit.path if not (sign.isalnum() or sign in "_.-/")})
    if bad or ".." in unit.path or unit.path.startswith("/"):
        errors.append(
            unit.span.refuse(
                "E211",
                f"{unit.path!r} cannot be published to",
                why="a PUBLISH has the name of its unit, which becomes a folder",
                fix="use letters, digits and _ . - / within the connection",
            )
        )
    length = len(f"{unit.connection}.{unit.path}".encode())
    if length > _LONGEST_DESTINATION:
        errors.append(
            unit.span.refuse(
                "E211",
                f"the name of the destination is too long: it has {length} bytes",
                why="a PUBLISH has the name of its unit, which becomes a folder",
                fix=f"choose a name with at most {_LONGEST_DESTINATION} bytes, connection included",
            )
        )
    return systems.unit(unit, draft.statement.value("OPTIONS", ParsedOptions), errors, is_source=False)
