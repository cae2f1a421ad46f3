"""Describes a table: its columns and its declaration."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.flow.apart import apart_of, whole_of
from waterclock.flow.checks import rules_without_expression
from waterclock.flow.declarations import Rule, Source, Table
from waterclock.flow.rule_actions import format_actions
from waterclock.operations.project_opening import OpenedProject
from waterclock.timelabel.label import TIMELABEL


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """The description of one column: its type after the last run, or else as declared, and its declared properties."""

    name: str
    type: str
    properties: str
    comment: str


def describe_columns(at: OpenedProject, table: Table) -> tuple[ColumnDescription, ...]:
    """Return the columns of a table as its last batch left them, or else as they are declared."""
    stored = _stored_columns(at, table)
    declared = {column.name.lower(): column for column in table.columns.named}
    names = list(stored) or [column.name for column in table.columns.named]
    found = []
    for name in names:
        column = declared.get(name.lower())
        if column is None:
            comment = "the batch's label" if name == TIMELABEL else ""
            found.append(ColumnDescription(name, stored[name], "", comment))
            continue
        properties = ["KEY"] if column.is_key else ["NOT NULL"] if column.is_not_null else []
        properties += [f"EXPECT {rule.expression}" for rule in column.rules]
        properties += [f"REFERENCES {column.references.table}"] if column.references else []
        properties += ["HIDDEN"] if column.is_hidden else []
        properties += [f"SUBJECT {column.subject}{' TOKENS' if column.is_token else ''}"] if column.subject else []
        found.append(
            ColumnDescription(name, stored.get(name) or column.type or "", ", ".join(properties), column.comment or "")
        )
    return tuple(found)


def declared_pairs(table: Table) -> list[tuple[str, str]]:
    """Return the declaration of a table as pairs of name and value."""
    pairs = [("declared", str(table.place))]
    pairs += _describe_source(table.source) if table.source is not None else []
    for choice in table.choices:
        word, _, condition = str(choice).partition(" ")
        reads = ", ".join(map(str, choice.reads)) or "nothing"
        pairs.append((word.lower(), f"{condition}: reads {reads}" if condition else f"reads {reads}"))
    if table.reads and not table.choices:
        pairs.append(("reads", ", ".join(str(read) for read in table.reads)))
    if table.merge is not None:
        order = f" ORDER BY {', '.join(table.merge.order_by)}" if table.merge.order_by else ""
        pairs.append(("merge", f"ON ({', '.join(table.merge.keys)}){order}"))
    if table.temporal is not None:
        pairs.append(("temporal", str(table.temporal)))
    pairs += [("expects", f"of {rule.of}: {_format_rule(rule)}") for rule in table.input_rules]
    pairs += [("expects", _format_rule(rule)) for rule in (*table.rules, *rules_without_expression(table))]
    pairs += [("measures", f"{measure.expression} ({measure.name})") for measure in table.measures]
    pairs += [("measures", "each column: nulls, about how many differ, least, greatest")] if table.is_profiled else []
    pairs += [("measures", optional) for optional in _describe_offline_measures(table)]
    optional = {
        "closes": table.closes and f"when {table.closes.text}",
        "open windows of": table.open_of,
        "on schema change": table.columns.on_change and str(table.columns.on_change).lower(),
        "compatible": table.compatible and str(table.compatible).lower(),
        "partial after": table.partial_after and str(table.partial_after).lower(),
        "deadline": _describe_deadline(table),
        "keeps": table.retain and str(table.retain).lower(),
        "manifest": table.manifest,
        "sorted by": ", ".join(table.sort_by),
        "open windows": table.continuous and f"every {str(table.continuous).lower()}",
        "clustered by": ", ".join(table.cluster_by),
        "a file for each": ", ".join(table.partition_by),
        "in buckets by": str(table.bucket_by or ""),
        "shuffle": "none" if table.is_unshuffled else "",
        "kept apart": _describe_apart(table),
        "keeps versions": table.keep_versions and str(table.keep_versions).lower(),
        "owner": table.about.owner,
        "tags": ", ".join(table.about.tags),
    }
    return pairs + [(name, text) for name, text in optional.items() if text]


def _describe_apart(table: Table) -> str:
    if table.apart is None:
        return ""
    names = ", ".join((table.apart.subject_column, *table.apart.columns))
    return f"{names}, in {apart_of(table.name)}; joined in {whole_of(table.name)}"


def _format_rule(rule: Rule) -> str:
    return f"{rule.expression} ({rule.name}, else {format_actions(rule.actions)})"


def _describe_offline_measures(table: Table) -> list[str]:
    if table.offline is None:
        return []
    found = [f"{measure.expression} ({measure.name})" for measure in table.offline.measures]
    found += ["each column: nulls, about how many differ, least, greatest"] if table.offline.is_profiled else []
    return [f"{words}, offline each {str(table.offline.period).lower()}" for words in found]


def deadline_text(table: Table) -> str:
    """Return a table's deadline in the words of the language, or "" if it has none."""
    return f"{table.deadline or ''}{' BY WATERMARK' if table.is_by_watermark else ''}"


def _describe_deadline(table: Table) -> str:
    if table.deadline is None:
        return ""
    taking = f", taking up to {str(table.runtime).lower()}" if table.runtime else ""
    by = ", by watermark" if table.is_by_watermark else ""
    return f"{str(table.deadline).lower()} after each window{by}{taking}"


def _describe_source(source: Source) -> list[tuple[str, str]]:
    by = f"for each row of {source.each.table}" if source.each else f"by {source.batching}"
    pairs = [("from", f"{source.unit}, {by}")]
    if source.lookback is not None:
        parts = (str(source.lookback), str(source.changed or ""))
        pairs.append(("looks back", " ".join(filter(None, parts))))
    if source.awaits is not None:
        pairs.append(("awaits", str(source.awaits)))
    return pairs


def _stored_columns(at: OpenedProject, table: Table) -> dict[str, str]:
    """Return the columns and types of the stored table. Empty before its first batch."""
    from waterclock.engine.ledger_opening import lake_of
    from waterclock.storage.log.delta_log import table_exists

    lake = lake_of(at.project, at.ledger)
    if table.destination is not None or not table_exists(lake.folder(table.name)):
        return {}
    from waterclock.engine.query.stored_schemas import (
        stored_columns,  # delta-rs is imported only if there is a table
    )

    return stored_columns(lake, table.name)
