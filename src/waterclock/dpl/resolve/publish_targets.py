"""Resolves the type, mode and key of a publish, and checks that its table and destination support them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from waterclock.dpl.resolve.connections import ValidConnections
from waterclock.dpl.resolve.hidden import set_left_out_columns
from waterclock.dpl.resolve.merge_keys import resolve_merge
from waterclock.dpl.resolve.published_columns import resolve_sent_keys
from waterclock.dpl.resolve.replace_where import overwrite_of, rule_of_overwrite
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.statements import Expression, ParsedMode, ParsedOptions
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import Capabilities
from waterclock.flow.enums import Mode, TableType
from waterclock.flow.merge_settings import RECORD, Order, Temporal
from waterclock.timelabel.duration import parse_duration


def resolve_publish_target(
    draft: UnresolvedTable,
    table: UnresolvedTable,
    systems: ValidConnections,
    variables: Mapping[str, Any],
    errors: list[WaterclockError],
) -> None:
    """Set the type, mode and key of a publish. Mode and key default to those of the published table.

    Modes that are not valid for the table or the destination are reported.
    """
    draft.declared = replace(draft.declared, type=table.declared.type)
    set_left_out_columns(draft, table)
    mode = draft.statement.value("MODE", ParsedMode)
    draft.declared = replace(draft.declared, mode=mode.mode if mode else table.declared.mode)
    if table.declared.temporal is not None:
        _resolve_mode_of_versions(draft, table.declared.temporal, mode, errors)
    keys = table.declared.keys if table.declared.temporal is None else (*table.declared.keys, RECORD[0])
    if draft.declared.mode is Mode.MERGE:
        resolve_merge(draft, mode, keys, variables, errors)
        resolve_sent_keys(draft, mode, errors)
    legal = {Mode.MERGE} | ({Mode.APPEND} if table.declared.mode is Mode.APPEND else set())
    legal |= set() if table.declared.type is TableType.PARTITIONED else {Mode.REPLACE}
    if draft.declared.mode not in legal:
        errors.append(_illegal_publish(draft, table, legal))
        return
    capabilities = systems.capabilities_of(draft.declared.destination) if draft.declared.destination else None
    if not capabilities or "behind" in capabilities.publish_options:
        _check_view(draft, errors)
    if mode is not None and mode.where is not None:
        _resolve_overwrite(draft, mode.where, capabilities, variables, errors)
    if mode is not None and draft.declared.mode is Mode.APPEND and mode.order_by:
        _resolve_order(draft, Order(mode.order_by, mode.per), capabilities, errors)
    if capabilities and draft.declared.mode not in capabilities.publishes:
        errors.append(
            draft.at("MODE" if mode else "TO").refuse(
                "E224",
                f"{draft.declared.mode.name} is not supported for connections of type {capabilities.type}"
                if capabilities.publishes
                else f"nothing can be published to a connection of type {capabilities.type}",
                why=f"they support {_modes(capabilities.publishes)}"
                + ("" if mode else f"; {table.name} has the mode {table.declared.mode.name}")
                if capabilities.publishes
                else "such connections can only be collected from",
                fix=f"write {_modes(legal & capabilities.publishes)}"
                if legal & capabilities.publishes
                else "publish to a connection of another type, such as a database",
            )
        )


def _resolve_order(
    draft: UnresolvedTable, order: Order, capabilities: Capabilities | None, errors: list[WaterclockError]
) -> None:
    """Set the order of APPEND ORDER BY; report a destination that keeps no order or gets concurrent requests."""
    draft.declared = replace(draft.declared, order=order)
    options = draft.declared.destination.options if draft.declared.destination else {}
    if capabilities is not None and not capabilities.keeps_order:
        errors.append(
            draft.at("MODE").refuse(
                "E316",
                f"ORDER BY is not supported for connections of type {capabilities.type}",
                why="they store rows without an order",
                fix="leave the ORDER BY out",
            )
        )
    elif not order.per and options.get("in_flight", 1) != 1:
        declared = draft.statement.value("OPTIONS", ParsedOptions)
        span = declared.spans["in_flight"] if declared else draft.at("MODE")
        errors.append(
            span.refuse(
                "E316",
                f"{options['in_flight']} concurrent requests keep no order",
                why="without PER all rows are one sequence",
                fix="leave in_flight out, or order rows per column: APPEND ORDER BY ... PER (column)",
            )
        )


def _check_view(draft: UnresolvedTable, errors: list[WaterclockError]) -> None:
    """Report invalid values of the options `behind` and `keep`, which publish tables behind a view."""
    options = draft.declared.destination.options if draft.declared.destination else {}
    declared = draft.statement.value("OPTIONS", ParsedOptions)
    if declared is None or not {"behind", "keep"} & options.keys():
        return
    is_by_label = draft.declared.type is TableType.PARTITIONED and draft.declared.mode is Mode.APPEND
    mode = draft.statement.value("MODE", ParsedMode)
    if "behind" in options and not is_by_label and (draft.declared.mode is not Mode.REPLACE or (mode and mode.where)):
        errors.append(
            declared.spans["behind"].refuse(
                "E832",
                f"{draft.declared.mode.name}{' WHERE' if mode and mode.where else ''} cannot publish behind a view",
                why="behind a view each version, or each label of a PARTITIONED table, is a table of its own",
                fix="write REPLACE, publish a PARTITIONED table by APPEND, or leave the option out",
            )
        )
    if "keep" in options:
        try:
            parse_duration(str(options["keep"]))
            is_wrong = "behind" not in options or is_by_label
        except WaterclockError:
            is_wrong = True
        if is_wrong:
            errors.append(
                declared.spans["keep"].refuse(
                    "E832",
                    f"keep cannot be {options['keep']!r} here",
                    why="it is the time for which a replaced version behind a view is kept",
                    fix="write OPTIONS (behind 'view', keep '7 DAYS') for a REPLACE; labels follow RETAIN of the table",
                )
            )


def _resolve_overwrite(
    draft: UnresolvedTable,
    expression: Expression,
    capabilities: Capabilities | None,
    variables: Mapping[str, Any],
    errors: list[WaterclockError],
) -> None:
    """Set the condition of REPLACE WHERE, and a rule that all published rows meet it; report unsupported conditions."""
    if capabilities is not None and not capabilities.replaces_some:
        errors.append(
            draft.at("MODE").refuse(
                "E224",
                f"REPLACE WHERE is not supported for connections of type {capabilities.type}",
                why="only a database can replace some rows and keep others",
                fix="leave the WHERE out, or publish to a database",
            )
        )
        return
    draft.declared = replace(draft.declared, where=overwrite_of(expression, variables, errors))
    if draft.declared.where is not None:
        draft.declared = replace(
            draft.declared, rules=(*draft.declared.rules, rule_of_overwrite(expression, draft.declared.where))
        )


def _resolve_mode_of_versions(
    draft: UnresolvedTable, temporal: Temporal, mode: ParsedMode | None, errors: list[WaterclockError]
) -> None:
    """Set REPLACE as the default mode of publishing a TEMPORAL table; report an ON that is not its key and its time."""
    if mode is None:
        draft.declared = replace(draft.declared, mode=Mode.REPLACE)
    names = (*temporal.keys, RECORD[0])
    if mode is not None and mode.keys and {name.lower() for name in mode.keys} != {name.lower() for name in names}:
        errors.append(
            draft.at("MODE").refuse(
                "E227",
                f"({', '.join(mode.keys)}) is not the key of a version",
                why=f"{draft.statement.name} is a TEMPORAL table, with many rows for each {', '.join(temporal.keys)}",
                fix=f"write MERGE ON ({', '.join(names)}), or REPLACE",
            )
        )


def _illegal_publish(draft: UnresolvedTable, table: UnresolvedTable, legal: set[Mode]) -> WaterclockError:
    why = (
        f"{table.name} is PARTITIONED: each label is delivered separately"
        if table.declared.type is TableType.PARTITIONED
        else f"{table.name} has the mode {table.declared.mode.name}: its newest state is delivered"
    )
    return draft.at("MODE").refuse(
        "E226", f"{draft.declared.mode.name} cannot publish {table.name}", why=why, fix=f"write {_modes(legal)}"
    )


def _modes(modes: Iterable[Mode]) -> str:
    return " or ".join(sorted(mode.name for mode in modes))
