"""Defines the OPTIONS of tables, which are not options of their connectors: manifest and open_windows."""

from __future__ import annotations

from dataclasses import replace

from waterclock.dpl.syntax.statements import ParsedOptions
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
        choices=("kept",), help="for a table with CLOSE WHEN, also a table of its open windows, made at each boundary"
    ),
}


def without_table_options(unit: Unit) -> Unit:
    """Return a source or destination without the options of its table."""
    return replace(unit, options={name: value for name, value in unit.options.items() if name not in TABLE_OPTIONS})


def keeps_open_windows(options: ParsedOptions | None) -> bool:
    """Return whether the OPTIONS of a table request a companion table for open windows."""
    return options is not None and options.values.get(OPEN_WINDOWS) in TRANSFORM_OPTIONS[OPEN_WINDOWS].choices


def manifest_of(options: ParsedOptions | None) -> str | None:
    """Return the kind of manifest that the OPTIONS of a table request; None without one, or for an unknown kind."""
    value = options.values.get(MANIFEST) if options else None
    return str(value) if value in TABLE_OPTIONS[MANIFEST].choices else None
