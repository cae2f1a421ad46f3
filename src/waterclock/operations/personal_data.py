"""Reports the columns of a project that contain personal data: by tags, names, lineage, and values on request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from waterclock.dpl.query.column_trace import ColumnOf
from waterclock.dpl.query.lineage import ColumnLineage
from waterclock.dpl.query.personal_columns import (
    PersonalColumn,
    find_followed_calls,
    find_personal_columns,
    list_tagged_columns,
)
from waterclock.flow.declarations import Column, Table
from waterclock.flow.enums import Kind
from waterclock.flow.personal_data import NO_PII, PII, declared_tag
from waterclock.operations.formatting import count_words
from waterclock.operations.project_opening import columns_collected, columns_stored
from waterclock.personal_data.names import kind_by_name
from waterclock.personal_data.patterns import CHECKED_KINDS
from waterclock.selection import select

if TYPE_CHECKING:
    from waterclock.dpl.project import Project
    from waterclock.engine.query.value_samples import SampledValues

MOST_ROWS = 2000
_ENOUGH_VALUES = 20  # so many values without a pattern show that the name misleads
# without backtracking: the names of fields come from files, and may be any text
_FIELD = re.compile(r"[<,]\s*+`?(?P<name>[^`:<>,]++)`?\s*+:\s*+(?P<type>\w++)")


@dataclass(frozen=True, slots=True)
class PersonalDataReason:
    """A reason why a column contains personal data. `by` is tag, name, values or lineage."""

    by: str
    kind: str | None = None
    pattern: str | None = None
    share: float | None = None
    values: int | None = None
    columns: list[str] | None = None
    is_sure: bool | None = None


@dataclass(frozen=True, slots=True)
class PersonalDataColumn:
    """A column with personal data. `missing` is the declaration that should be added to it, or None."""

    column: str
    tag: str | None
    reasons: tuple[PersonalDataReason, ...]
    missing: str | None = None


@dataclass(frozen=True, slots=True)
class PersonalDataTable:
    """A table with personal data. `sampled_label` and `sampled_rows`: the batch and number of the rows searched."""

    table: str
    kind: str
    columns: tuple[PersonalDataColumn, ...]
    sampled_label: datetime | None = None
    sampled_rows: int = 0


@dataclass(frozen=True, slots=True)
class PersonalDataReport:
    """The tables with personal data, in the order of the flow."""

    tables: tuple[PersonalDataTable, ...]

    @property
    def missing(self) -> int:
        """The number of columns for which a declaration is missing."""
        return sum(column.missing is not None for table in self.tables for column in table.columns)

    def to_json(self) -> dict[str, Any]:
        """Return the tables and their columns, with the reasons and the missing declarations."""
        from waterclock.json_models.personal_data import PersonalDataAnswer

        return PersonalDataAnswer.build(tables=self.tables, missing=self.missing).to_json()


def find_personal_data(project: Project, texts: Iterable[str] = (), *, rows: int = 0) -> PersonalDataReport:
    """Find the columns with personal data of the selected tables, by default of all.

    `rows`: how many stored rows of each table are searched, at most MOST_ROWS; 0 starts no Spark. Columns that derive
    from others need no declaration of their own, except in a PUBLISH. Raises E511 for an unknown table.
    """
    flow = project.flow
    chosen = select(flow, *texts).tables
    names = [name for name, table in flow.tables.items() if table.kind is not Kind.PUBLISH]
    stored = columns_stored(project, names)
    lineage = ColumnLineage(flow, columns_collected(project), calls=find_followed_calls(flow.functions))
    samples = _sample_tables(project, [name for name in names if name in chosen], min(rows, MOST_ROWS)) if rows else {}
    found = {
        ColumnOf(name, column): reasons
        for name in names
        for column, reasons in _find_by_content(lineage, flow.tables[name], stored.get(name, {}), samples.get(name))
    }
    tagged = list_tagged_columns(flow)
    personal = find_personal_columns(lineage, list(dict.fromkeys([*tagged, *found])))
    by_table: dict[str, list[PersonalDataColumn]] = {}
    for each in personal:
        by_table.setdefault(each.column.table, []).append(_describe_column(flow.tables[each.column.table], each, found))
    order = [*flow.order, *(name for name in flow.tables if name not in flow.order)]
    return PersonalDataReport(
        tuple(
            PersonalDataTable(
                name,
                flow.tables[name].kind.value,
                tuple(by_table[name]),
                sample.label if (sample := samples.get(name)) else None,
                sample.rows if sample else 0,
            )
            for name in order
            if name in by_table and name in chosen
        )
    )


def reason_words(reason: PersonalDataReason) -> str:
    """Describe a reason, such as `e-mail address in 98 % of 1,000 values`."""
    if reason.by == "tag":
        return "TAGS (pii)"
    if reason.by == "name":
        return f"name of kind {reason.kind}"
    if reason.by == "values":
        return f"{reason.pattern} in {reason.share or 0:.0%} of {count_words(reason.values or 0, 'value')}"
    maybe = "from" if reason.is_sure else "maybe from"
    return f"{maybe} {', '.join(reason.columns or ())}"


def _sample_tables(project: Project, names: Iterable[str], rows: int) -> Mapping[str, SampledValues | None]:
    from waterclock.engine.query.value_samples import sample_values
    from waterclock.engine.run_opening import open_workplace

    with open_workplace(project, is_question=True) as work:
        return {name: sample_values(work, name, rows) for name in names}


def _find_by_content(
    lineage: ColumnLineage, table: Table, stored: Mapping[str, str], sample: SampledValues | None
) -> Iterator[tuple[str, list[PersonalDataReason]]]:
    """Yield the columns that contain personal data by their names or values; columns with the tag `no_pii` do not."""
    declared = {column.name.lower(): column for column in table.columns.named}
    for column in dict.fromkeys((*lineage.columns(table.name), *stored)):
        own = declared.get(column.lower())
        if column in {"*", "timelabel"} or (own is not None and declared_tag(own) == NO_PII):
            continue
        kind_of_type = stored.get(column) or (own.type if own is not None else None)
        reasons = [*_find_by_name(table, column, kind_of_type, sample), *_find_by_values(column, sample)]
        if reasons:
            yield column, reasons


def _find_by_name(
    table: Table, column: str, type_name: str | None, sample: SampledValues | None
) -> Iterator[PersonalDataReason]:
    named = [(column, kind_by_name(column, type_name, table.name))]
    if type_name is not None and "struct<" in type_name.lower():
        fields = list_named_fields(type_name)
        named += [(f"{column}.{name}", kind_by_name(name, type_, table.name)) for name, type_ in fields]
    for path, kind in named:
        if kind is not None and not _is_contradicted(path, kind, sample):
            yield PersonalDataReason("name", kind)


def list_named_fields(type_name: str) -> list[tuple[str, str]]:
    """Return the names and types of the fields of all structs within a Spark type. Cost: linear in its length."""
    return [(found["name"].rstrip(), found["type"]) for found in _FIELD.finditer(type_name)]


def _is_contradicted(path: str, kind: str, sample: SampledValues | None) -> bool:
    """Return whether the sampled values show that a column does not contain what its name suggests."""
    if sample is None or kind not in CHECKED_KINDS or sample.counts.get(path, 0) < _ENOUGH_VALUES:
        return False
    return all(match.kind != kind for match in sample.matches.get(path, ()))


def _find_by_values(column: str, sample: SampledValues | None) -> Iterator[PersonalDataReason]:
    for path, matches in sample.matches.items() if sample is not None else ():
        if path.lower() == column.lower() or path.lower().startswith(f"{column.lower()}."):
            for match in matches:
                share = round(match.share, 3)
                yield PersonalDataReason(
                    "values", match.kind, match.name, share, sample.counts[path] if sample else None
                )


def _describe_column(
    table: Table, each: PersonalColumn, found: Mapping[ColumnOf, list[PersonalDataReason]]
) -> PersonalDataColumn:
    name = each.column.column
    declared = {column.name.lower(): column for column in table.columns.named}
    own = declared.get(name.lower())
    tag = None if own is None else declared_tag(own)
    reasons = [PersonalDataReason("tag")] if tag == PII else []
    if each.inputs:
        columns = [str(one) if one.table else f"{one.column}()" for one in each.inputs]
        reasons.append(PersonalDataReason("lineage", columns=columns, is_sure=each.is_sure))
    reasons += next((of for column, of in found.items() if column == each.column), [])
    return PersonalDataColumn(
        name, tag, tuple(reasons), None if tag else _find_missing_declaration(table, name, own, each)
    )


def _find_missing_declaration(table: Table, name: str, own: Column | None, each: PersonalColumn) -> str | None:
    """Return the declaration to add to a column without a tag, or None if it needs none."""
    if table.kind is Kind.PUBLISH:
        computed = f" AS ({own.made_as.expression})" if own is not None and own.made_as is not None else ""
        if name == "*":
            return "a column list that masks columns or tags them"
        return f"{name} AS (mask_text({name})), or {name}{computed} TAGS (pii)"
    return None if each.inputs else f"{name} TAGS (pii), or TAGS (no_pii)"
