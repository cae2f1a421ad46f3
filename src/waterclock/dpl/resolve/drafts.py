"""Resolves the columns, rules, mode and unit of a table, with defaults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from waterclock.dpl.config.model import Config
from waterclock.dpl.resolve.awaits import awaits_of
from waterclock.dpl.resolve.changes import by_changes, refused_changes, with_op
from waterclock.dpl.resolve.column_lists import columns_of
from waterclock.dpl.resolve.connections import Systems, check_table_options
from waterclock.dpl.resolve.deadlines import RUNTIME, is_by_watermark
from waterclock.dpl.resolve.for_each_clause import each_of
from waterclock.dpl.resolve.hidden import hidden_keys, with_hidden_rules, with_hidden_untracked
from waterclock.dpl.resolve.late_rows import KEEPS_LATE
from waterclock.dpl.resolve.links import by_link
from waterclock.dpl.resolve.lookbacks import resolve_changed
from waterclock.dpl.resolve.measures import measures_of
from waterclock.dpl.resolve.merge_keys import settle_merge, settle_temporal
from waterclock.dpl.resolve.origins import refused_origins
from waterclock.dpl.resolve.receivers import check_stream
from waterclock.dpl.resolve.retention import deadline_of, keep_versions_of, retain_of
from waterclock.dpl.resolve.rules import is_parsed, rule_of, unread_of
from waterclock.dpl.resolve.table_options import manifest_of
from waterclock.dpl.resolve.unresolved import KINDS, UnresolvedTable
from waterclock.dpl.resolve.watermarks import MARKS
from waterclock.dpl.syntax.statements import (
    BatchedSaid,
    ColumnSaid,
    ColumnsSaid,
    ModeSaid,
    OptionsSaid,
    RuleSaid,
    Statement,
    StatementKind,
    UnitSaid,
)
from waterclock.errors import WaterclockError, did_you_mean
from waterclock.flow.about import About
from waterclock.flow.choices import LINKED, Batching, Kind, Mode, OnRestate, TableType
from waterclock.flow.compatibility import Compatibility
from waterclock.flow.declarations import Rule, Source, TableDeclaration, Unit
from waterclock.flow.late_rows import LateRows
from waterclock.flow.watermarks import Watermark
from waterclock.timelabel.duration import Duration


def draft_of(statement: Statement, config: Config, systems: Systems, errors: list[WaterclockError]) -> UnresolvedTable:
    """Create the draft of a table, with all parts that depend on no other table."""
    columns = columns_of(statement, config.variables, errors)
    rules = _rules(statement, config.variables, errors)
    measures, is_profiled, offline = measures_of(statement, config.variables, errors)
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
            is_sequential=statement.clause("SEQUENTIAL") is not None,
            on_restate=_on_restate(statement, config),
            partial_after=statement.value("PARTIAL AFTER", Duration),
            is_by_watermark=is_by_watermark(statement),
            runtime=statement.value(RUNTIME, Duration),
            compatible=statement.value("COMPATIBLE", Compatibility),
            about=_about(statement, config),
            function=statement.function,
            marks=statement.value(MARKS, Watermark),
            late_rows=statement.value(KEEPS_LATE, LateRows),
            measures=measures,
            is_profiled=is_profiled,
            offline=offline,
        ),
    )
    with_hidden_rules(draft)
    draft.declared = replace(draft.declared, pool=_pool(draft, config, errors))
    if draft.kind is Kind.COLLECT:
        _settle_source(draft, systems, errors)
    elif draft.kind is Kind.TRANSFORM:
        errors.extend(refused_origins(statement, None))
    if draft.kind is Kind.PUBLISH:
        unit = _destination(draft, systems, errors)
        draft.declared = replace(draft.declared, destination=unit, name=str(unit) if unit else statement.name)
    else:
        _settle_mode(draft, config.variables, errors)
        _settle_keeping(draft, config, errors)
    # by the table's name, which for a publish is that of its unit
    draft.declared = replace(draft.declared, deadline=deadline_of(draft, config, errors))
    return draft


def _settle_source(draft: UnresolvedTable, systems: Systems, errors: list[WaterclockError]) -> None:
    source = _source(draft, systems, errors)
    draft.declared = replace(draft.declared, source=source)
    if of_lines := _list_declared_rules(draft.statement, of_lines=True):
        unread = unread_of(of_lines, systems.of(source.unit) if source else None, errors)
        draft.declared = replace(draft.declared, columns=replace(draft.declared.columns, unread=unread))
    draft.declared = replace(draft.declared, columns=with_op(draft))


def _settle_keeping(draft: UnresolvedTable, config: Config, errors: list[WaterclockError]) -> None:
    options = draft.statement.value("OPTIONS", OptionsSaid)
    draft.declared = replace(
        draft.declared,
        retain=retain_of(draft, config, errors),
        keep_versions=keep_versions_of(draft, config, errors),
        manifest=manifest_of(options),
    )
    if draft.kind is Kind.TRANSFORM and options is not None:
        check_table_options(options, errors)


def _list_declared_rules(statement: Statement, *, of_lines: bool) -> list[RuleSaid]:
    """Return the EXPECTs of a statement; for a COLLECT, either those of lines or those of rows."""
    said = [one for clause in statement.clauses if clause.word == "EXPECT" for one in clause.value]
    is_collect = statement.kind is StatementKind.COLLECT
    return [one for one in said if (is_collect and is_parsed(one.expression)) is of_lines]


def _rules(statement: Statement, variables: Mapping[str, Any], errors: list[WaterclockError]) -> tuple[Rule, ...]:
    said = _list_declared_rules(statement, of_lines=False)
    rules = [rule for rule in (rule_of(one, variables, errors) for one in said) if rule]
    columns = statement.value("COLUMNS", ColumnsSaid)
    seen = {rule.name for column in (columns.columns if columns else ()) for rule in _resolve_column_rules(column)}
    seen |= {one.name or one.expression.text for one in _list_declared_rules(statement, of_lines=True)}
    for rule, span in zip(rules, (one.expression.span for one in said), strict=False):
        if rule.name in seen:
            errors.append(
                span.refuse(
                    "E212", f"two rules are called {rule.name}", fix="give one another name: EXPECT ... AS name"
                )
            )
        seen.add(rule.name)
    return tuple(rules)


def _resolve_column_rules(column: ColumnSaid) -> Iterable[Rule]:
    return [rule for rule in (rule_of(said, {}, [], in_column=True) for said in column.rules) if rule]


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


def _on_restate(statement: Statement, config: Config) -> OnRestate:
    default = config.default(statement.name, "on_restate")
    said = statement.value("ON RESTATE", OnRestate)
    return said or (OnRestate(default[0]) if default else OnRestate.RECOMPUTE)


def _source(draft: UnresolvedTable, systems: Systems, errors: list[WaterclockError]) -> Source | None:
    statement = draft.statement
    said = statement.value("FROM", UnitSaid)
    if said is None:
        if not statement.has_failed("FROM"):
            errors.append(
                draft.span.refuse("E233", f"{draft.name} does not say where FROM", fix="as in FROM shop.public.orders")
            )
        return None
    unit = systems.unit(said, statement.value("OPTIONS", OptionsSaid), errors, is_source=True)
    by = statement.value("BY", BatchedSaid) or BatchedSaid(Batching.SNAPSHOT)
    capabilities = systems.of(unit)
    each = each_of(statement, unit, capabilities, systems.capabilities, errors)
    if statement.clause("FOR EACH") is not None:
        return Source(unit, Batching.EACH, each=each)
    if capabilities and capabilities.collects <= LINKED:
        by = by_link(draft, unit, by, errors)
    elif capabilities and by.batching not in capabilities.collects:
        legal = sorted(_BATCHINGS[batching] for batching in capabilities.collects)
        errors.append(
            draft.at("BY").refuse(
                "E224",
                f"{capabilities.type} cannot be collected {_BATCHINGS[by.batching]}",
                fix=f"collect it {' or '.join(legal)}",
            )
        )
    check_stream(draft, unit, capabilities, errors)
    errors.extend(refused_origins(statement, capabilities, by_changes=by.batching is Batching.CHANGES))
    awaits = awaits_of(statement, capabilities, by.batching, errors)
    changed = resolve_changed(statement, by, capabilities, errors)
    return Source(unit, by.batching, by.time_column, by.lookback, awaits, changed)


_BATCHINGS = {
    Batching.DATA_TIME: "BY DATA TIME",
    Batching.ARRIVAL_TIME: "BY ARRIVAL TIME",
    Batching.CHANGES: "BY CHANGES",
    Batching.SNAPSHOT: "without a BY, as a snapshot",
    Batching.EACH: "FOR EACH row of a table",
    Batching.LABELS: "BY DATA TIME timelabel",
    Batching.STATE: "without a BY, as it stands at the end of each window",
}


def _destination(draft: UnresolvedTable, systems: Systems, errors: list[WaterclockError]) -> Unit | None:
    said = draft.statement.value("TO", UnitSaid)
    if said is None:
        if not draft.statement.has_failed("TO"):
            errors.append(
                draft.span.refuse("E233", f"the PUBLISH of {draft.name} does not say where TO", fix="as in TO ops.name")
            )
        return None
    bad = sorted({sign for sign in said.path if not (sign.isalnum() or sign in "_.-/")})
    if bad or ".." in said.path or said.path.startswith("/"):
        errors.append(
            said.span.refuse(
                "E211",
                f"{said.path!r} cannot be published to",
                why="a publish is named as its unit, and that becomes a folder",
                fix="use letters, digits and _ . - / within the connection",
            )
        )
    return systems.unit(said, draft.statement.value("OPTIONS", OptionsSaid), errors, is_source=False)


def _said_of_a_publish(draft: UnresolvedTable, said: ModeSaid) -> Iterator[WaterclockError]:
    """Report properties of a table's mode that only its publishes can have."""
    if said.mode is Mode.APPEND and said.order_by:
        yield draft.at("MODE").refuse(
            "E316",
            "APPEND ORDER BY is not said of a table of the lake",
            why="its rows have no order; they are sent in one",
            fix=f"say it of the PUBLISH of {draft.name}",
        )
    if said.where is not None:
        yield draft.at("MODE").refuse(
            "E226",
            "REPLACE WHERE is not said of a table of the lake",
            why="a batch replaces its own label, or the whole state",
            fix=f"say it of the PUBLISH of {draft.name}; in the query, WHERE chooses rows",
        )


def _settle_mode(draft: UnresolvedTable, variables: Mapping[str, Any], errors: list[WaterclockError]) -> None:
    statement = draft.statement
    said = statement.value("MODE", ModeSaid)
    is_partitioned = draft.declared.type is TableType.PARTITIONED
    batching = draft.declared.source.batching if draft.declared.source else None
    if batching is Batching.CHANGES:
        refused = refused_changes(draft, said)
        errors.extend(refused)
        if refused:
            return
    if said is None:
        draft.declared = replace(draft.declared, mode=Mode.APPEND if is_partitioned else Mode.REPLACE)
        by_row = {Batching.DATA_TIME, Batching.ARRIVAL_TIME, Batching.LABELS}
        must_say = batching in by_row and not is_partitioned
        if must_say and not statement.has_failed("MODE"):
            errors.append(
                draft.at("BY").refuse(
                    "E226",
                    f"{draft.name} does not say how a batch changes it",
                    why="a wrong guess doubles rows",
                    fix="say PARTITIONED behind the name, or APPEND, MERGE, TEMPORAL or REPLACE",
                )
            )
        if is_partitioned and batching in _WHOLE and not statement.has_failed("BY"):
            errors.append(_missing_by_error(draft, "is PARTITIONED"))
        return
    draft.declared = replace(draft.declared, mode=said.mode)
    errors.extend(_said_of_a_publish(draft, said))
    if is_partitioned and said.mode is not Mode.APPEND:
        errors.append(
            draft.at("MODE").refuse(
                "E226",
                f"{said.mode.name} cannot change a PARTITIONED table",
                why="its labels are slices that stand for themselves",
                fix="leave PARTITIONED out, or the mode",
            )
        )
    elif batching in _WHOLE and said.mode not in _WHOLE[batching] and not statement.has_failed("BY"):
        errors.append(_missing_by_error(draft, f"says {said.mode.name}"))
    if said.mode is Mode.MERGE:
        settle_merge(draft, said, draft.declared.columns.keys, variables, errors)
    if said.mode is Mode.TEMPORAL:
        settle_temporal(draft, said, variables, errors)
    if batching is Batching.CHANGES:
        draft.declared = replace(draft.declared, fold=by_changes(draft, said, errors))
    with_hidden_untracked(draft)
    errors.extend(hidden_keys(draft))


_WHOLE = {Batching.SNAPSHOT: {Mode.REPLACE, Mode.TEMPORAL}, Batching.STATE: {Mode.REPLACE}}


def _missing_by_error(draft: UnresolvedTable, what: str) -> WaterclockError:
    return draft.at("MODE").refuse(
        "E226",
        f"{draft.name} {what}, and not what decides the window of a row",
        why="without a BY the source is taken whole, and REPLACEs what was there",
        fix="say BY DATA TIME timelabel, where that is a table of slices; a TRANSFORM of this one has any mode"
        if draft.declared.source and draft.declared.source.batching is Batching.STATE
        else "say BY DATA TIME column or BY ARRIVAL TIME",
    )
