"""Recognises members of JSON documents that count rows, although a part of their name is that of a column."""

from __future__ import annotations

from collections.abc import Mapping

_MEASURES = "measures"
_RULES = frozenset({"broken", "first"})  # members of the measures of a batch
_PROFILE = (".nulls", ".distinct")
_NULLS = {"nulls": "files", "nullCount": "stats"}  # of a manifest's file; of Delta's statistics


def is_row_count(parents: str, name: str, value: object) -> bool:
    """Return whether a member counts rows. `parents` are the names of the members that contain it, joined by dots.

    These are counts of NULLs by column, of rows by rule, whose name may be that of a column as in `KEY (id)`, and those
    of PROFILE.
    """
    path = parents.split(".")
    if name in _NULLS and path[-1] == _NULLS[name]:
        return _has_integers_only(value)
    if _MEASURES not in path:
        return False
    if name in _RULES:
        return isinstance(value, Mapping) and all(isinstance(each, int) for each in value.values())
    return name.endswith(_PROFILE) and "(" not in name


def _has_integers_only(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(map(_has_integers_only, value.values()))
    return isinstance(value, int)
