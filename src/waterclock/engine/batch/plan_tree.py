"""Reads Spark's analysed plan, as it writes itself in JSON, into nodes with their children. Pure: text alone.

A plan is a list of its nodes, each before its children, and an expression within it is such a list again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

Parts = Sequence[Mapping[str, Any]]
"""An expression or a plan as its nodes, each before its children."""

_CLASS, _CHILDREN = "class", "num-children"


@dataclass(frozen=True, slots=True)
class Node:
    """An operator of a plan: the last part of its class, its fields as they are written, and the operators below."""

    kind: str
    fields: Mapping[str, Any]
    children: tuple[Node, ...]

    def expressions(self, name: str) -> tuple[Parts, ...]:
        """Return the expressions in a field that holds a list of them, or one; none where it holds anything else."""
        said = self.fields.get(name)
        if is_tree(said):
            return (said,)
        return tuple(each for each in said if is_tree(each)) if isinstance(said, list) else ()


def plan_of(text: str) -> Node:
    """Read a plan.

    Raises  ValueError where it is none
    """
    said = json.loads(text)
    if not is_tree(said):
        raise ValueError("no nodes of a plan")
    return tree(said)


def tree(parts: Parts) -> Node:
    """Put the nodes of a plan together.

    Raises  ValueError where some have other children than they say
    """
    ready: list[Node] = []
    for part in reversed(parts):  # so that children come first, the first child last
        count = part[_CHILDREN]
        if count > len(ready):
            raise ValueError(f"{kind_of(part)} lacks children")
        children = tuple(ready.pop() for _ in range(count))
        ready.append(Node(kind_of(part), part, children))
    if len(ready) != 1:
        raise ValueError(f"{len(ready)} plans, and one is meant")
    return ready[0]


def behind(parts: Parts, at: int) -> int:
    """Return where the node at that place, and all below it, ends."""
    open_ = 1
    while open_:
        open_ += parts[at][_CHILDREN] - 1
        at += 1
    return at


def kind_of(part: Mapping[str, Any]) -> str:
    """Return the class of a node without its package."""
    return str(part[_CLASS]).rpartition(".")[2]


def is_tree(said: object) -> TypeGuard[list[Mapping[str, Any]]]:
    """Tell whether a field holds an expression or a plan."""
    return isinstance(said, list) and bool(said) and isinstance(said[0], dict) and _CHILDREN in said[0]


def id_of(part: Mapping[str, Any]) -> int | None:
    """Return the number by which Spark tells one attribute from all others."""
    said = part.get("exprId")
    return said.get("id") if isinstance(said, dict) else None


def within(part: Mapping[str, Any]) -> Iterator[tuple[str, Parts]]:
    """Yield the trees in the fields of a node, each with the field's name; its children stand beside it, not in it."""
    for name, said in part.items():
        if is_tree(said):
            yield name, said
        elif isinstance(said, list):
            yield from ((name, each) for each in said if is_tree(each))
