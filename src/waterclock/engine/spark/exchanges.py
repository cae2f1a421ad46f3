"""Finds the exchanges in Spark's plan of a DataFrame or of a write: where rows move between tasks, and why.

An exchange to other tasks is a shuffle. A broadcast, which copies the rows of a small input to all tasks, is not one.

A plan is the text of EXPLAIN FORMATTED, which Spark Connect shows as well. Adaptive execution changes a plan while it
runs. It runs each exchange that has no exchange below it, and accepts only plans without more exchanges. So a first
plan without exchanges stays without them, and one with exchanges runs at least one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from waterclock.engine.spark.connect import is_remote
from waterclock.spark_sql import INTERNAL_PREFIX, quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NODE = re.compile(r"(?P<lead>[ :|+\-]*)(?:\* )?(?P<name>\S.*?) +\((?P<number>\d+)\)")
_INITIAL_PLAN = re.compile(r"[ :|+\-]*(?===+ Initial Plan ==)")
_SUBQUERY = re.compile(r"^Subquery:\d+ Hosting .*\n", re.MULTILINE)
_DETAILS = re.compile(r"^\((\d+)\) .*\n((?:.+\n)*)", re.MULTILINE)
_ID = re.compile(r"#\d+L?\b")
_KEYS = re.compile(r"\w+partitioning\((?P<keys>.*), \d+\)")
_ADDED = re.compile(r"( ASC)? NULLS (FIRST|LAST)")
_WAIT_MS = 10_000
_AT_ONCE = 16
_PLAN_ID = re.compile(r"\[plan_id=(\d+)\]")
_VIEWS = count()
# operators that keep the rows of each task
_LOCAL = ("AQEShuffleRead", "ShuffleQueryStage", "Project", "Filter", "Sort", "InputAdapter", "WholeStageCodegen")
# operators that move rows to one task without an exchange in the plan, unless one task has all rows already
_LIMITS = ("TakeOrderedAndProject", "CollectLimit", "CollectTail")
_HINTS = {"REPARTITION": "a REPARTITION", "REBALANCE": "a REBALANCE"}


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange of a plan: the operator, the keys by which it moves rows, and the part of the query that needs it."""

    operator: str
    keys: str
    cause: str

    def __str__(self) -> str:
        return f"{self.cause} ({self.operator}{f' by {self.keys}' if self.keys else ' to one task'})"


@dataclass(slots=True)
class _Node:
    name: str
    details: Mapping[str, str]
    parent: _Node | None
    children: list[_Node] = field(default_factory=list)


def first_plan(rows: DataFrame) -> str:
    """Return Spark's plan of a DataFrame before it runs. Cost: no job, one planning."""
    view = f"{INTERNAL_PREFIX}plan_{next(_VIEWS)}"
    rows.createOrReplaceTempView(view)
    try:
        return str(rows.sparkSession.sql(f"EXPLAIN FORMATTED SELECT * FROM {quote_name(view)}").collect()[0][0])
    finally:
        rows.sparkSession.catalog.dropTempView(view)


def final_plan(spark: SparkSession, path: str) -> str | None:
    """Return the plan with which Spark has just written files to a path, as it was at the end.

    Return None over Spark Connect, or if Spark has already forgotten the write: it keeps the last queries only. Uses
    private API of PySpark. Cost: no job; waits until Spark has noted its past events, up to 10 s.
    """
    if is_remote(spark):
        return None
    try:
        found = find_write(spark, path)
    except Exception:  # noqa: BLE001 - the first plan has already been checked
        return None
    return None if found is None else found[1]


def find_write(spark: SparkSession, path: str) -> tuple[Any, str] | None:
    """Return Spark's record of the query that has just written files to a path, and its plan at the end.

    Return None if Spark has already forgotten it. Uses private API of PySpark, which Spark Connect does not have.
    """
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(_WAIT_MS)  # noqa: SLF001
    store = spark._jsparkSession.sharedState().statusStore()  # noqa: SLF001
    end = int(store.executionsCount())
    while end > 0:  # the newest first: the write has only just ended
        start = max(0, end - _AT_ONCE)
        known = store.executionsList(start, end - start)
        for at in reversed(range(known.size())):
            text = str(known.apply(at).physicalPlanDescription())
            # the path is the first argument of the write; only EXPLAIN FORMATTED has details of operators
            if f"{path}, false, " in text and "\n(1) " in text:
                return known.apply(at), text
        end = start
    return None


def exchanges_in(plan: str) -> list[Exchange]:
    """Return the exchanges of a plan, of its subqueries and of cached inputs, without equal ones. Broadcasts are none.

    Of an adaptive plan that has run, only the final form counts. Raises ValueError for a text without operators.
    """
    details = {number: _fields_of(text) for number, text in _DETAILS.findall(plan)}
    nodes = list(_nodes_in(plan, details))
    if not nodes:
        raise ValueError(f"Spark wrote a plan in an unknown form: {plan[:200]}")
    found = map(_exchange_of, nodes)
    return list(dict.fromkeys(each for each in found if each is not None))


def exchanges_by_id(plan: str) -> dict[str, Exchange]:
    """Return the exchanges of a plan by the number `plan_id` that Spark gave them. Broadcasts are none."""
    details = {number: _fields_of(text) for number, text in _DETAILS.findall(plan)}
    found = ((plan_id_of(node.details.get("Arguments", "")), _exchange_of(node)) for node in _nodes_in(plan, details))
    return {plan_id: each for plan_id, each in found if plan_id and each is not None}


def plan_id_of(text: str) -> str:
    """Return the number `plan_id` in the description of an exchange, or "" if it has none."""
    found = _PLAN_ID.search(text)
    return found[1] if found else ""


def _fields_of(text: str) -> dict[str, str]:
    """Return the fields of an operator's details, such as `Keys [1]: [k#7L]`, without the ids of columns."""
    pairs = (line.partition(": ") for line in text.splitlines())
    return {name.partition(" [")[0].strip().rstrip(":"): _ID.sub("", value) for name, _, value in pairs}


def _nodes_in(plan: str, details: Mapping[str, Mapping[str, str]]) -> Iterator[_Node]:
    """Yield the operators in the trees of a plan, parents first; those of initial plans that changed are left out."""
    trees = [plan.partition("== Physical Plan ==\n")[2].partition("\n\n")[0]]
    trees += [part.partition("\n\n")[0] for part in _SUBQUERY.split(plan)[1:]]
    for tree in trees:
        nodes: list[_Node] = []
        above: list[tuple[int, _Node]] = []
        skipped_from: int | None = None
        for line in tree.splitlines():
            initial, read = _INITIAL_PLAN.match(line), _NODE.match(line)
            column = read.end("lead") if read else 0
            if initial:
                skipped_from = initial.end()
            elif read is None or (skipped_from is not None and column >= skipped_from):
                continue
            else:
                skipped_from = None
                while above and above[-1][0] >= column:
                    above.pop()
                parent = above[-1][1] if above else None
                node = _Node(read["name"], details.get(read["number"], {}), parent)
                if parent is not None:
                    parent.children.append(node)
                above.append((column, node))
                nodes.append(node)
        yield from nodes


def _exchange_of(node: _Node) -> Exchange | None:
    arguments = node.details.get("Arguments", "")
    if node.name in _LIMITS:
        cause = "LIMIT" if node.name.startswith("Collect") else "ORDER BY with LIMIT"
        return None if _is_in_one_task(node) else Exchange(node.name, "", cause)
    is_shuffle = node.name.endswith("Exchange") and not node.name.startswith(("Broadcast", "Reused"))
    if not is_shuffle:
        return None
    keys = _KEYS.match(arguments)
    written = "an even number of rows" if arguments.startswith("RoundRobin") else _clean(keys["keys"]) if keys else ""
    return Exchange(node.name, written, _cause_of(node, arguments, written))


def _is_in_one_task(node: _Node) -> bool:
    """Return whether one task has all rows of an operator, since the rows below it were coalesced."""
    while len(node.children) == 1:
        [node] = node.children
        if node.name == "Coalesce":
            return node.details.get("Arguments") == "1"
    return False


def _cause_of(node: _Node, arguments: str, keys: str) -> str:
    """Return the part of a query that needs an exchange, in the words of SQL; otherwise the name of the operator."""
    hint = next((text for word, text in _HINTS.items() if f", {word}" in arguments), None)
    if hint is not None or arguments.startswith("rangepartitioning"):
        return hint or f"ORDER BY {keys}"
    user = node.parent
    while user is not None and user.name in _LOCAL:
        user = user.parent
    return _need_of(user, keys) if user is not None else "its rows"


def _need_of(user: _Node, keys: str) -> str:
    name = user.name
    if "Aggregate" in name:
        word = "DISTINCT or GROUP BY" if user.details.get("Functions") == "[]" else "GROUP BY"
        return f"{word} {keys}" if keys else "an aggregate of all rows"
    if name.startswith("Window"):
        return f"OVER (PARTITION BY {keys})" if keys else "OVER () without PARTITION BY"
    if "Join" in name:
        return f"a JOIN on {keys}"
    return "LIMIT" if "Limit" in name else name


def _clean(keys: str) -> str:
    """Return keys as a user may have written them: without ASC and the place of NULLs, which Spark adds."""
    return _ADDED.sub("", keys).replace("_groupingexpression", "an expression")
