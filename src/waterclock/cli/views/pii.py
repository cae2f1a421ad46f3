"""Prints the columns with personal data, with the reasons and the missing declarations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from waterclock.cli.views.theme import console
from waterclock.operations.formatting import count_words
from waterclock.operations.personal_data import reason_words
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from waterclock.operations.personal_data import PersonalDataReport


def print_personal_data(found: PersonalDataReport) -> None:
    """Print each table with its columns, and the number of missing declarations."""
    to = console()
    for table in found.tables:
        sampled = ""
        if table.sampled_label is not None:
            sampled = f", {count_words(table.sampled_rows, 'row')} of {label_of(table.sampled_label)} searched"
        to.print(Text.assemble((table.table, "name"), (f"  {table.kind}{sampled}", "quiet")))
        for column in table.columns:
            name = "any column" if column.column == "*" else column.column
            reasons = "; ".join(map(reason_words, column.reasons))
            to.print(Text.assemble("  ", (name, "name"), f"  {reasons}"), soft_wrap=True)
            if column.missing:
                to.print(Text.assemble(("    missing: ", "fail"), column.missing), soft_wrap=True)
    count = sum(len(table.columns) for table in found.tables)
    missing = f"{count_words(found.missing, 'declaration')} missing" if found.missing else "nothing is missing"
    to.print(f"{count_words(count, 'column')} with personal data, {missing}" if count else "no personal data found")
