"""The page of personal data: the answer of `waterclock pii`, with links to tables and to the lineage of columns."""

from __future__ import annotations

from waterclock.operations.personal_data import PersonalDataColumn, PersonalDataTable, find_personal_data, reason_words
from waterclock.operations.project_opening import OpenedProject
from waterclock.ui.page_query import Content, PageQuery, lineage_address, table_address
from waterclock.ui.pages.quality import tabs


def personal_data(at: OpenedProject, parameters: PageQuery) -> Content:
    """Return the columns with personal data of the selected tables: by tags, names and lineage, without reading rows.

    Cost: the logs of all stored tables are read.
    """
    found = find_personal_data(at.project, [parameters.selection])
    return {
        **found.to_json(),
        "tabs": tabs("Personal data", parameters),
        "shown": [_describe_table(table, parameters) for table in found.tables],
    }


def _describe_table(table: PersonalDataTable, parameters: PageQuery) -> Content:
    return {
        "table": table.table,
        "kind": table.kind,
        "address": table_address(table.table),
        "columns": [_describe_column(table.table, column, parameters) for column in table.columns],
    }


def _describe_column(table: str, column: PersonalDataColumn, parameters: PageQuery) -> Content:
    """Return a column with its reasons in words, and the address of its lineage, which `*` does not have."""
    is_any = column.column == "*"
    return {
        "name": "any column" if is_any else column.column,
        "address": "" if is_any else lineage_address(table, parameters, column=column.column),
        "reasons": "; ".join(map(reason_words, column.reasons)),
        "missing": column.missing or "",
    }
