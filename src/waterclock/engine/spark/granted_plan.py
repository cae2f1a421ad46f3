"""Checks Spark's analysed plan of a restricted person's query: the second check, which does not use our parser.

Each leaf that reads stored rows must be below a view that was created for this query. Below it, Spark must show
exactly the granted columns, each masked one computed and not copied, and the condition on rows. No attribute from
below a view may be used above it, except the view's own columns. `plan_check` has already refused all other leaves
that read stored rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from waterclock.engine.spark.connect import is_remote
from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from waterclock.dpl.query.granted_select import GrantedSelect, SeenColumn

_PLANS = "org.apache.spark.sql.catalyst.plans.logical."
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
_VIEW, _PROJECT, _FILTER = (_PLANS + name for name in ("View", "Project", "Filter"))
_ALIAS, _ATTRIBUTE = (_EXPRESSIONS + name for name in ("Alias", "AttributeReference"))
_REFUSED = frozenset(
    _EXPRESSIONS + name
    for name in """
    AssertTrue InputFileBlockLength InputFileBlockStart InputFileName PythonUDAF PythonUDF PythonUDTF RaiseError
    """.split()
)

Tree = list[dict[str, Any]]


def prepare_restricted_session(spark: SparkSession) -> None:
    """Prepare a session that only the query of a restricted person uses.

    Spark must not infer conditions of the query for columns that are equal to others: it evaluates these before the
    condition of a grant, on rows that are not granted, and one that fails would reveal them.

    Raises E946 if Spark shows no plan, as over Spark Connect: the query cannot be checked there.
    """
    if is_remote(spark):
        raise _refused_query_error("Spark Connect shows no plan, so the query cannot be checked against the grants")
    spark.conf.set("spark.sql.constraintPropagation.enabled", "false")


def check_granted_plan(plan: Tree, granted: Mapping[str, GrantedSelect | None]) -> None:
    """Check the analysed plan of a query. `granted` maps its views to their grants; None is a table that is seen whole.

    Raises E946 if Spark's plan reads more than the grants allow.
    """
    above, inside, shown = set[Any](), set[Any](), set[Any]()
    for node, below in _walk(plan):
        if below is None:
            if node["class"] in _REFUSED:
                raise _refused_query_error(f"it uses {node['class'].rpartition('.')[2]}")
            if node["class"] == _ATTRIBUTE:
                above.add(_id_of(node))
            continue
        name = node["desc"]["identifier"]["table"]
        if name not in granted:
            raise _refused_query_error("it reads a view of another query")
        inside |= {_id_of(each) for each in _nodes(below) if each["class"] == _ATTRIBUTE}
        if (seen := granted[name]) is None:
            inside -= {_id_of(each) for each in _nodes(below) if each["class"] == _ATTRIBUTE}
        else:
            shown |= _check_view(below, seen)
    if above & (inside - shown):
        raise _refused_query_error("it uses a column that is not granted")


def _check_view(below: Tree, seen: GrantedSelect) -> set[Any]:
    """Check the plan below a view of a granted table, and return the ids of the columns that it shows."""
    outputs = below[0].get("projectList", []) if below[0]["class"] == _PROJECT else []
    if len(outputs) != len(seen.columns):
        raise _refused_query_error("it reads other columns than those that are granted")
    # a function in SQL adds further projections, which compute its arguments
    first = next((node["class"] for node in below if node["class"] != _PROJECT), None)
    if seen.where is not None and first != _FILTER:
        raise _refused_query_error("it reads rows without the condition of the grant")
    for output, column in zip(outputs, seen.columns, strict=True):
        if output[0].get("name") != column.name or not _is_as_granted(output, column):
            raise _refused_query_error("it reads a column without its mask")
    return {_id_of(output[0]) for output in outputs}


def _is_as_granted(output: Tree, column: SeenColumn) -> bool:
    """Return whether an output copies a column that is granted without a mask, and computes one that is masked."""
    if output[0]["class"] not in {_ALIAS, _ATTRIBUTE}:
        return False
    value = output[-1] if len(output) <= 2 else None
    is_copy = value is not None and value["class"] == _ATTRIBUTE and value["name"] == column.name
    return is_copy == column.is_plain


def _walk(tree: Tree) -> Iterator[tuple[dict[str, Any], Tree | None]]:
    """Yield each node outside of views with None, and each view with the nodes below it.

    Spark writes a tree as a list in which each node precedes its children, and a tree within a field as a nested list.
    """
    at = 0
    while at < len(tree):
        node = tree[at]
        if node["class"] == _VIEW:
            end = _end_of(tree, at)
            yield node, tree[at + 1 : end]
            at = end
            continue
        yield node, None
        for inner in _trees_in(node.values()):
            yield from _walk(inner)
        at += 1


def _nodes(tree: Tree) -> Iterator[dict[str, Any]]:
    """Yield all nodes of a tree and of the trees in its fields."""
    for node in tree:
        yield node
        for inner in _trees_in(node.values()):
            yield from _nodes(inner)


def _trees_in(values: Any) -> Iterator[Tree]:
    for value in values:
        if isinstance(value, dict):
            if "class" in value:
                yield [value]
            else:
                yield from _trees_in(value.values())
        elif isinstance(value, list) and value:
            if all(isinstance(each, dict) and "class" in each for each in value):
                yield value
            else:
                yield from _trees_in(value)


def _end_of(tree: Tree, at: int) -> int:
    """Return the index after the last node below the node at an index."""
    open_ones = 1
    while open_ones:
        open_ones += tree[at]["num-children"] - 1
        at += 1
    return at


def _id_of(node: Mapping[str, Any]) -> Any:
    return node["exprId"]["id"]


def _refused_query_error(why: str) -> WaterclockError:
    return WaterclockError(
        "E946",
        "the query is not permitted",
        why=why,
        fix="read the granted tables by their names; or ask an administrator to run the query",
    )
