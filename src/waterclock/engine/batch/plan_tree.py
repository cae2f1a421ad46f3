"""Parses the JSON of Spark's analysed plan into a tree of nodes. Pure functions on text.

A plan is a list of nodes in which each node precedes its children. An expression in a node is such a list as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

Parts = Sequence[Mapping[str, Any]]
"""An expression or a plan as a list of nodes, each before its children."""

_CLASS, _CHILDREN = "class", "num-children"


@dataclass(frozen=True, slots=True)
class PlanNode:
    """An operator of a plan: the last part of its class name, its fields as in the JSON, and its child operators."""

    kind: str
    fields: Mapping[str, Any]
    children: tuple[PlanNode, ...]

    def expressions(self, name: str) -> tuple[Parts, ...]:
        """Return the expressions in a field that contains one or several. Empty for any other field."""
        value = self.fields.get(name)
        if is_tree(value):
            return (value,)
        return tuple(each for each in value if is_tree(each)) if isinstance(value, list) else ()


def plan_of(text: str) -> PlanNode:
    """Parse a plan. Raises ValueError if the text is no plan."""
    nodes = json.loads(text)
    if not is_tree(nodes):
        raise ValueError("no nodes of a plan")
    return tree(nodes)


def tree(parts: Parts) -> PlanNode:
    """Build the tree from a list of nodes. Raises ValueError if a node's number of children is not the declared one."""
    ready: list[PlanNode] = []
    for part in reversed(parts):  # in reverse, children come first, and the first child last
        count = part[_CHILDREN]
        if count > len(ready):
            raise ValueError(f"{kind_of(part)} has no children")
        children = tuple(ready.pop() for _ in range(count))
        ready.append(PlanNode(kind_of(part), part, children))
    if len(ready) != 1:
        raise ValueError(f"{len(ready)} plans, and one is meant")
    return ready[0]


def skip_subtree(parts: Parts, at: int) -> int:
    """Return the position after the node at `at` and all its descendants."""
    open_ = 1
    while open_:
        open_ += parts[at][_CHILDREN] - 1
        at += 1
    return at


def kind_of(part: Mapping[str, Any]) -> str:
    """Return the class name of a node without its package."""
    return str(part[_CLASS]).rpartition(".")[2]


def is_tree(value: object) -> TypeGuard[list[Mapping[str, Any]]]:
    """Return whether a field's value is an expression or a plan."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and _CHILDREN in value[0]


def id_of(part: Mapping[str, Any]) -> int | None:
    """Return the id of an attribute in Spark's plan, or None if the node is no attribute."""
    expression_id = part.get("exprId")
    return expression_id.get("id") if isinstance(expression_id, dict) else None


def trees_in_fields(part: Mapping[str, Any]) -> Iterator[tuple[str, Parts]]:
    """Yield the name and the tree of each field of a node that has one. The node's children are not included."""
    for name, value in part.items():
        if is_tree(value):
            yield name, value
        elif isinstance(value, list):
            yield from ((name, each) for each in value if is_tree(each))
