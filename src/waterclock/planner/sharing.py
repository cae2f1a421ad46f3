"""How many labels of a table share a claim, and how many of Spark's queries make them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from waterclock.flow.choices import Batching, Kind
from waterclock.flow.declarations import Table
from waterclock.flow.flats import flats_of
from waterclock.planner.graph import Node

# By data time each label notes all items that were read for all of its claim.
_MOST_BY_DATA_TIME = 31
# Spark plans a query for each window of a union, and runs what each has to exchange before the whole.
MOST_WINDOWS_OF_A_UNION = 31


@dataclass(frozen=True, slots=True)
class Queries:
    """How many queries write some labels.

    `least` where Spark can turn each claim's windows into one query, `most` where every window takes a query of its own
    and 31 of these are put together.
    """

    least: int
    most: int

    def to_dict(self) -> dict[str, Any]:
        """Return both numbers for JSON."""
        return {"least": self.least, "most": self.most}


def queries_of(node: Node, count: int, group_cap: int, of_parents: int = 0) -> Queries:
    """Return how many queries write so many due labels of a table that is no publish.

    Python functions and FLATs are asked window by window; of SQL Spark decides, when it runs. `of_parents` is how many
    queries make what the table reads: labels may become ready with each of them. Not counted: labels that failed
    before, which go alone, and windows that read more than 500 files together, which are taken in parts.
    """
    shares = not node.is_single or node.groups_in_order
    together = most_together(node, group_cap) if shares else 1
    claims = _parts(count, together)
    if node.table.kind is not Kind.TRANSFORM or together == 1:
        return Queries(claims, claims)
    unions = count // together * _parts(together, MOST_WINDOWS_OF_A_UNION)
    unions += _parts(count % together, MOST_WINDOWS_OF_A_UNION)
    most = max(unions, min(count, of_parents))
    return Queries(unions if _is_by_window(node.table) else claims, most)


def most_together(node: Node, group_cap: int) -> int:
    """Return how many labels may share a claim."""
    source = node.table.source
    asks_by_label = source is not None and source.batching in {Batching.DATA_TIME, Batching.LABELS, Batching.EACH}
    return min(group_cap, _MOST_BY_DATA_TIME) if asks_by_label else group_cap


def _is_by_window(table: Table) -> bool:
    return table.query is None or bool(flats_of(table.query))


def _parts(count: int, most: int) -> int:
    return -(-count // max(most, 1))
