"""Computes the expected results of temporal functions row by row in plain Python, slow and short, without Spark.

Times are whole numbers. A raw row is `{"key", "t", "seq", "gone", **attributes}`, and may list attributes that its
source does not have in `lacks`. A version is `{"key", "eff", "exp", **attributes}`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

Row = dict[str, Any]
OPEN = 253_402_214_400_000_000
BEGINNING = -62_135_596_800_000_000


@dataclass(frozen=True)
class Rules:
    """The arguments of `compute_temporal` that change its result."""

    attributes: tuple[str, ...]
    tracked: frozenset[str]
    values: frozenset[str] = frozenset()  # attributes whose null is a value
    fill_back: bool = True


@dataclass
class _Life:
    """The life of a key from its first row, or a delete, to its end: the known values after each time."""

    said: dict[int, Row] = field(default_factory=dict)
    end: int = OPEN


def versions_of(raw: Iterable[Row], rules: Rules) -> list[Row]:
    """Return the versions of all keys."""
    by_key: dict[Any, list[Row]] = defaultdict(list)
    for row in raw:
        if row["t"] is not None and not _lacks(row["key"]):
            by_key[row["key"]].append(row)
    return [
        {"key": key, **version}
        for key, rows in by_key.items()
        for life in _lives(rows, rules)
        for version in _of(life, rules)
    ]


def timed_by_snapshots(raw: Iterable[Row], windows: Mapping[int, tuple[int, int]]) -> list[Row]:
    """Return rows of snapshots with their times, and a delete for each key that is missing in the next snapshot.

    `windows`: start and end of each snapshot's window by label, including snapshots without rows. A row's `label` is
    that of its snapshot, and its `seq` an order within it and the label. A key that was missing in the previous
    snapshot, or was deleted by its last row there, is present since the previous snapshot; in the first snapshot, since
    its window's start. A delete that is followed by another row of its snapshot is ignored.
    """
    shown: dict[int, dict[Any, list[Row]]] = {label: defaultdict(list) for label in windows}
    for row in raw:
        if not _lacks(row["key"]):
            shown[row["label"]][row["key"]].append(row)
    timed: list[Row] = []
    before: set[Any] = set()
    since = min(start for start, _ in windows.values())
    for label in sorted(windows):
        _, end = windows[label]
        there = set()
        for key, rows in shown[label].items():
            is_gone = max(rows, key=lambda row: (row["seq"], not row["gone"]))["gone"]
            there |= set() if is_gone else {key}
            counting = [row for row in rows if is_gone or not row["gone"]]
            timed += [{**row, "t": end if key in before else since, "seq": (label, row["seq"])} for row in counting]
        timed += [{"key": key, "t": end, "seq": (label, ()), "gone": True} for key in before - shown[label].keys()]
        before, since = there, end
    return timed


def _lives(rows: list[Row], rules: Rules) -> list[_Life]:
    lives, known = [_Life()], dict.fromkeys(rules.attributes)
    for row in sorted(rows, key=lambda row: _order(row, rules)):
        if row["gone"]:
            lives[-1].end = row["t"]
            lives.append(_Life())
            known = dict.fromkeys(rules.attributes)
            continue
        for name in rules.attributes:
            if row[name] is not None or (name in rules.values and name not in row.get("lacks", ())):
                known[name] = row[name]
        lives[-1].said[row["t"]] = dict(known)
    return lives


def _order(row: Row, rules: Rules) -> tuple[Any, ...]:
    values = tuple(_nulls_first(None if row["gone"] else row[name]) for name in rules.attributes)
    return (row["t"], _nulls_first(row["seq"]), not row["gone"], values)


def _nulls_first(value: Any) -> tuple[Any, ...]:
    return (0,) if value is None else (1, value)


def _of(life: _Life, rules: Rules) -> list[Row]:
    said = [(time, dict(known)) for time, known in sorted(life.said.items())]
    if rules.fill_back:
        for name in set(rules.attributes) - rules.values:
            first = next((known[name] for _, known in said if known[name] is not None), None)
            for _, known in said:
                known[name] = first if known[name] is None else known[name]
    versions: list[Row] = []
    for time, known in said:
        if versions and all(versions[-1][name] == known[name] for name in rules.tracked):
            versions[-1] |= known  # untracked attributes show their last value
        else:
            versions.append({"eff": time, **known})
    for version, following in pairwise([*versions, {"eff": life.end}]):
        version["exp"] = following["eff"]
    return [version for version in versions if version["eff"] < version["exp"]]


def in_effect(versions: Iterable[Row], key: Any, time: int | None) -> Row | None:
    """Return the version of a key at a time."""
    if time is None or _lacks(key):
        return None
    found = [version for version in versions if version["key"] == key and version["eff"] <= time < version["exp"]]
    assert len(found) <= 1
    return found[0] if found else None


def split(child: Row, parents: Mapping[Any, Sequence[Row]], attributes: Sequence[str]) -> list[Row]:
    """Return the spans of a child's version: cut at every boundary, then joined where the parent did not change."""
    versions = parents.get(child["parent"], ())
    edges = {child["eff"], child["exp"]}
    edges |= {
        edge for version in versions for edge in (version["eff"], version["exp"]) if child["eff"] < edge < child["exp"]
    }
    spans: list[Row] = []
    ordered = sorted(edges)
    for start, end in pairwise(ordered):
        seen = in_effect(versions, child["parent"], start) or {}
        values = {name: seen.get(name) for name in attributes}
        if spans and all(spans[-1][name] == values[name] for name in attributes):
            spans[-1]["exp"] = end
        else:
            spans.append({"eff": start, "exp": end, **values})
    return spans


def _lacks(key: Any) -> bool:
    return key is None or (isinstance(key, tuple) and None in key)
