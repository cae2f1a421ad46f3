"""Builds notes and warnings about files whose stamp is their last modification, although it may be in their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from waterclock.connectors.files.file_name_matching import WILDCARD, FileNaming, is_stamped, names_below
from waterclock.connectors.files.name_stamps import CHANGED, undeclared_date
from waterclock.files.filesystem import entry_path
from waterclock.files.object_stores import is_remote
from waterclock.flow.capabilities import InvalidOption


def stamp_note(names: FileNaming, found: Sequence[str]) -> str | None:
    """Return a note about files of a glob whose stamp is neither declared nor in their names; None if all have one."""
    by_change = _names_without_date(names, found)
    if not by_change:
        return None
    if (wrong := _build_date_warning(by_change)) is not None:
        return f"{wrong.what}; {wrong.why}. Fix: {wrong.fix}"
    return f"the stamp of {_summarize_names(by_change)} is the time of the last change: the name has no date"


def stamp_warning(folder: Path, connection: Mapping[str, Any], names: FileNaming) -> InvalidOption | None:
    """Return a warning if file names contain dates that no option declares. Cost: a listing of a glob's folders."""
    path = str(connection.get("path") or "")
    if not path or is_remote(path):
        return None
    by_change = _names_without_date(names, names_below(entry_path(folder, path), names))
    return _build_date_warning(by_change) if by_change else None


def _names_without_date(names: FileNaming, found: Sequence[str]) -> list[str]:
    if names.supplier or names.stamp or not WILDCARD.search(names.path):
        return []
    return [name for name in found if not is_stamped(name)]


def _build_date_warning(by_change: Sequence[str]) -> InvalidOption | None:
    dated = [name for name in by_change if undeclared_date(name)]
    if not dated:
        return None
    pattern = undeclared_date(dated[0])
    return InvalidOption(
        "W203",
        "",
        f"{_summarize_names(dated)} "
        f"{'has a date in its name' if len(dated) == 1 else 'have dates in their names'} that nothing "
        "declares",
        "the stamp of such a file is the time of its last change",
        f"add OPTIONS (stamp '{pattern}') after the unit; or (stamp '{CHANGED}') to use the last change",
    )


def _summarize_names(names: Sequence[str]) -> str:
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")
