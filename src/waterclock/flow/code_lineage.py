"""The column lineage of Python transforms, derived from the Spark plans of their batches.

One plan shows one path through the code, so several plans are combined. The lineage may contain too many input columns,
never too few.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Input = tuple[str, str]
"""A table and one of its columns; the column `*` represents all columns."""

COPIED, COMPUTED, AGGREGATED = "copied", "computed", "aggregated"
HOW = (COPIED, COMPUTED, AGGREGATED)
FILTER, JOIN, GROUP, SORT, WINDOW, MAY_READ = "filter", "join", "group", "sort", "window", "may read"


@dataclass(frozen=True, slots=True)
class Origin:
    """The input columns of a value: certainly `inputs`, and possibly some of `maybe`, for the reasons in `why`.

    `how`: copied, computed or aggregated; if inputs differ, the last of these that applies to one of them.
    """

    inputs: frozenset[Input] = frozenset()
    maybe: frozenset[Input] = frozenset()
    how: str = COPIED
    why: frozenset[str] = frozenset()

    def __or__(self, other: Origin) -> Origin:
        inputs = self.inputs | other.inputs
        return Origin(
            inputs,
            (self.maybe | other.maybe) - inputs,
            max(self.how, other.how, key=HOW.index),
            self.why | other.why,
        )

    def derive(self, how: str) -> Origin:
        """Return the origin of a value that is copied, computed or aggregated (`how`) from the value of this origin."""
        return self if HOW.index(how) <= HOW.index(self.how) else Origin(self.inputs, self.maybe, how, self.why)


@dataclass(frozen=True, slots=True)
class CodeLineage:
    """The column lineage of a table.

    `columns` maps each column to its origin. `uses` maps uses, such as filter, join and group, to their input columns.
    """

    columns: Mapping[str, Origin] = field(default_factory=dict)
    uses: Mapping[str, frozenset[Input]] = field(default_factory=dict)

    def __or__(self, other: CodeLineage) -> CodeLineage:
        columns: dict[str, tuple[str, Origin]] = {name.lower(): (name, made) for name, made in self.columns.items()}
        for name, made in other.columns.items():
            first, before = columns.get(name.lower(), (name, Origin()))
            columns[name.lower()] = first, before | made
        uses = {use: self.uses.get(use, frozenset()) | of for use, of in other.uses.items()}
        return CodeLineage(dict(columns.values()), {**self.uses, **uses})

    def to_json(self) -> dict[str, Any]:
        """Return the lineage as a JSON object; equal lineages give equal objects."""
        return {
            "columns": {
                name: {"from": _sort_inputs(made.inputs), "maybe": _sort_inputs(made.maybe), "how": made.how}
                | ({"why": sorted(made.why)} if made.why else {})
                for name, made in self.columns.items()
            },
            "uses": {use: _sort_inputs(of) for use, of in sorted(self.uses.items()) if of},
        }

    @classmethod
    def of_json(cls, data: Mapping[str, Any]) -> CodeLineage:
        """Parse the result of `to_json`."""
        return cls(
            {
                name: Origin(_inputs(each["from"]), _inputs(each["maybe"]), each["how"], frozenset(each.get("why", ())))
                for name, each in data["columns"].items()
            },
            {use: _inputs(of) for use, of in data["uses"].items()},
        )


def unknown_lineage(names: Iterable[str], tables: Iterable[str], why: Iterable[str]) -> CodeLineage:
    """Return the lineage of code that cannot be analyzed: each column may derive from all columns of all inputs."""
    everything = frozenset((table, "*") for table in tables)
    unknown = Origin(maybe=everything, how=COMPUTED, why=frozenset(why))
    return CodeLineage(dict.fromkeys(names, unknown), {MAY_READ: everything})


def _sort_inputs(inputs: Iterable[Input]) -> list[list[str]]:
    return [list(each) for each in sorted(inputs)]


def _inputs(pairs: Iterable[Iterable[str]]) -> frozenset[Input]:
    return frozenset((table, column) for table, column in pairs)
