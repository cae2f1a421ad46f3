"""Checks that a PUBLISH masks each column with personal data, or declares a tag (pii, no_pii) for the column."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from waterclock.dpl.query.column_trace import ColumnOf
from waterclock.dpl.query.lineage import ColumnLineage
from waterclock.dpl.query.personal_columns import (
    PersonalColumn,
    find_first_columns,
    find_followed_calls,
    find_personal_columns,
    list_tagged_columns,
    may_reveal,
)
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Column, Flow
from waterclock.flow.enums import Kind
from waterclock.flow.personal_data import declared_tag

_SHOWN = 5
_TIMES = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_NTZ"})
_NUMBERS = frozenset({"TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"})


def check_published_personal_data(flow: Flow, drafts: Mapping[str, UnresolvedTable]) -> Iterator[WaterclockError]:
    """Yield an error for each column with personal data that a PUBLISH sends without a mask and without its own tag.

    Columns that the PUBLISH does not name are reported in one error. Parses nothing in a flow without personal data.
    """
    tagged = list_tagged_columns(flow)
    if not tagged and not may_reveal(flow):
        return
    personal = find_personal_columns(ColumnLineage(flow, calls=find_followed_calls(flow.functions)), tagged)
    for table, columns in undecided_columns(flow, personal).items():
        draft = drafts[table]
        named = {column.name.lower(): column for column in flow.tables[table].columns.named}
        unnamed: list[PersonalColumn] = []
        for each in columns:
            column = named.get(each.column.column.lower())
            if column is None:
                unnamed.append(each)
            else:
                mask = _propose_mask(flow, personal, each, column.made_as.expression if column.made_as else None)
                yield _refuse_named(draft, column, each, _origin(personal, each), mask)
        if unnamed:
            mask = _propose_mask(flow, personal, unnamed[0])
            yield _refuse_unnamed(draft, unnamed, _origin(personal, unnamed[0]), mask)


def undecided_columns(flow: Flow, personal: Collection[PersonalColumn]) -> Mapping[str, list[PersonalColumn]]:
    """Map each PUBLISH to the columns with personal data that it sends, and for which its list declares no tag."""
    found: dict[str, list[PersonalColumn]] = {}
    for each in personal:
        table = flow.tables[each.column.table]
        named = {column.name.lower(): column for column in table.columns.named}
        column = named.get(each.column.column.lower())
        if table.kind is Kind.PUBLISH and (column is None or declared_tag(column) is None):
            found.setdefault(table.name, []).append(each)
    return found


def _propose_mask(
    flow: Flow, personal: Collection[PersonalColumn], each: PersonalColumn, expression: str | None = None
) -> str:
    """Return a call that hides a column. It depends on the declared type, if the column is a copy of another one."""
    value = expression or each.column.column
    first = next(iter(find_first_columns(personal, each)), None)
    is_copy = first is not None and expression is None and first.column.lower() == value.lower()
    base = _declared_type(flow, first).partition("(")[0].upper() if first is not None and is_copy else ""
    if base in _TIMES:
        return f"generalize({value}, to => 'year')"
    return f"generalize({value}, width => 10)" if base in _NUMBERS else f"mask_text({value})"


def _declared_type(flow: Flow, column: ColumnOf) -> str:
    table = flow.tables.get(column.table)
    types = {it.name.lower(): it.type for it in table.columns.named} if table is not None else {}
    return types.get(column.column.lower()) or ""


def _refuse_named(draft: UnresolvedTable, column: Column, each: PersonalColumn, why: str, mask: str) -> WaterclockError:
    source = draft.span.source
    start = source.offset(column.place)
    name = column.name
    computed = "" if column.made_as is None else f" AS ({column.made_as.expression})"
    return source.span(start, start + len(name)).refuse(
        "E381",
        f"{name} {_verb(each)} personal data, and is published without a decision",
        why=why,
        fix=f"mask it, as in {name} AS ({mask}); write {name}{computed} TAGS (pii) to send it, or TAGS (no_pii) if it "
        "identifies no person",
    )


def _refuse_unnamed(draft: UnresolvedTable, columns: list[PersonalColumn], why: str, mask: str) -> WaterclockError:
    names = [each.column.column for each in columns]
    if "*" in names:
        what = f"{draft.name} may get personal data in any column, without a decision"
        fix = "name the columns to send, and mask or tag them, as in (id, email AS (mask_text(email)))"
    else:
        listed = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        verb = "contains" if len(names) == 1 else "contain"
        what = f"{listed} {verb} personal data, and {'is' if len(names) == 1 else 'are'} published without a decision"
        fix = (
            f"list the published columns. For {names[0]}, choose: leave it out; mask it, {names[0]} AS ({mask}); or "
            f"send it, {names[0]} TAGS (pii)"
        )
    return draft.at("COLUMNS").refuse("E381", what, why=why, fix=fix)


def _verb(each: PersonalColumn) -> str:
    return "contains" if each.is_sure else "may contain"


def _origin(personal: Collection[PersonalColumn], each: PersonalColumn) -> str:
    """Describe the columns or functions from which a column inherits its tag, for a message."""
    first = [f"{one.column}()" if not one.table else str(one) for one in find_first_columns(personal, each)]
    listed = ", ".join(first[:_SHOWN])
    declared = (
        listed
        if not first or first[0].endswith("()")
        else f"{listed}, which {'has' if len(first) == 1 else 'have'} TAGS (pii)"
    )
    name = each.column.column
    if each.is_sure:
        return f"{name} comes from {declared}"
    return f"the origin of {'its columns' if name == '*' else name} cannot be analyzed; it may be {declared}"
