"""Computes how many labels of a table share a claim, and how many Spark queries make them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from waterclock.flow.enums import Batching, Kind
from waterclock.flow.flats import flats_of
from waterclock.planner.dependency_graph import Node

# Lower for collects by data time: each label records all items that were read for its whole claim.
_MAX_BY_DATA_TIME = 31
# Limited, since Spark plans the query of each window in a union, and runs its exchanges before the whole query.
MOST_WINDOWS_OF_A_UNION = 31


@dataclass(frozen=True, slots=True)
class SharedQueries:
    """The smallest and the largest number of Spark queries needed to make some labels of a table.

    `least` is reached if Spark can convert the query of each claim's windows into one query. `most` is reached if
    every window needs a query of its own; 31 of these are combined into one.
    """

    least: int
    most: int

    def to_dict(self) -> dict[str, Any]:
        """Return the smallest and the largest number of queries as a dictionary for JSON."""
        return {"least": self.least, "most": self.most}


def queries_of(node: Node, count: int, group_cap: int, of_parents: int = 0) -> SharedQueries:
    """Return how many Spark queries make `count` due labels of a table other than a publish.

    Python functions and FLATs run window by window; for SQL, Spark decides at run time. `of_parents` is how many
    queries make the table's inputs: labels may become ready with each of them. Two cases are not counted: labels that
    failed before, which run alone, and windows that together read more than 500 files, which are split.
    """
    shares = not node.is_single or node.groups_in_order
    together = max_labels_per_claim(node, group_cap) if shares else 1
    claims = _count_parts(count, together)
    if node.table.kind is not Kind.TRANSFORM or together == 1:
        return SharedQueries(claims, claims)
    unions = count // together * _count_parts(together, MOST_WINDOWS_OF_A_UNION)
    unions += _count_parts(count % together, MOST_WINDOWS_OF_A_UNION)
    most = max(unions, min(count, of_parents))
    return SharedQueries(unions if node.table.query is None or flats_of(node.table.query) else claims, most)


_BY_LABEL = frozenset({Batching.DATA_TIME, Batching.LABELS, Batching.AS_OF, Batching.EACH})


def max_labels_per_claim(node: Node, group_cap: int) -> int:
    """Return how many labels of a table may share a claim.

    Of a table with SHUFFLE NONE, it is one: Spark shuffles the rows of several labels to write a file for each.
    """
    if node.table.is_unshuffled:
        return 1
    source = node.table.source
    reads_by_label = source is not None and source.batching in _BY_LABEL
    return min(group_cap, _MAX_BY_DATA_TIME) if reads_by_label else group_cap


def _count_parts(count: int, most: int) -> int:
    return -(-count // max(most, 1))
