"""OPTIONS that are said of a table, not of the unit that it is collected from: how others find its files."""

from __future__ import annotations

from dataclasses import replace

from waterclock.dpl.syntax.statements import OptionsSaid
from waterclock.flow.capabilities import Option
from waterclock.flow.declarations import Unit

MANIFEST = "manifest"
OPEN_WINDOWS = "open_windows"
TABLE_OPTIONS = {
    MANIFEST: Option(choices=("symlink",), help="a list of the live files beside the table, for engines without Delta"),
}
TRANSFORM_OPTIONS = {
    **TABLE_OPTIONS,
    OPEN_WINDOWS: Option(
        choices=("kept",), help="beside a table with CLOSE WHEN, a table of its open windows, made at each boundary"
    ),
}


def without_table_options(unit: Unit) -> Unit:
    """Return a unit with the options that its connector knows."""
    return replace(unit, options={name: value for name, value in unit.options.items() if name not in TABLE_OPTIONS})


def keeps_open_windows(said: OptionsSaid | None) -> bool:
    """Tell whether a table is to be made beside it that holds its open windows."""
    return said is not None and said.values.get(OPEN_WINDOWS) in TRANSFORM_OPTIONS[OPEN_WINDOWS].choices


def manifest_of(said: OptionsSaid | None) -> str | None:
    """Return which manifest a table keeps beside it; None where it says none, or one that there is not."""
    value = said.values.get(MANIFEST) if said else None
    return str(value) if value in TABLE_OPTIONS[MANIFEST].choices else None
