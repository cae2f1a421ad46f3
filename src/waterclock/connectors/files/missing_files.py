"""Errors for units of which no file can be read."""

from __future__ import annotations

from datetime import datetime

from waterclock.connectors.interface import Item
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit


def later_files_error(unit: Unit, oldest: Item, now: datetime | None) -> WaterclockError:
    """Build the error for a snapshot of which all files are stamped after the time of the run."""
    return WaterclockError(
        "E804",
        f"{unit} has no file up to {now:%Y-%m-%d %H:%M:%SZ}",
        where=str(unit),
        why=f"the oldest, {oldest.name}, is stamped {oldest.stamp:%Y-%m-%d %H:%M:%SZ}, and a run ignores files "
        "stamped after the time of the run",
        fix="set a later START, or add `OPTIONS (stamp_zone '...')` if stamps are not in UTC",
    )


def missing_file_error(unit: Unit) -> WaterclockError:
    """Build the error for a unit that names one file, which does not exist."""
    supplier, source = unit.path.split(".")
    return WaterclockError(
        "E804",
        f"there is no file {unit.path}",
        where=str(unit),
        why=f"a name that ends in .{source} is a file, or a glob of files, and not a source: "
        f"the folder {supplier}/{source} is not searched",
        fix=f"name the files there by a glob: FROM {unit.connection}.`{supplier}/{source}/*`; or deliver {unit.path}",
    )


def no_files_error(unit: Unit) -> WaterclockError:
    """Build the error for a snapshot of a unit without complete files."""
    return WaterclockError(
        "E804",
        f"{unit} has no files to read",
        where=str(unit),
        why="no complete file of that name is in the landing folder or the archive",
        fix="check which files `waterclock plan` reports as half-written or misnamed",
    )
