"""Rejects a query if Spark's plan of it does more than read the tables bound to it and compute.

The checks of the language read the text. This one reads Spark's plans of it before anything is executed: first the
parsed plan, since `spark.sql` executes commands at once, then the analysed plan. Both are checked against lists of
allowed classes. Nodes below a temporary view are our own and are not checked. Over Spark Connect no plan is available,
see `queries.build_query_frame`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from waterclock.engine.spark.analysed_plan import analysed_plan
from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

_SPARK = "org.apache.spark.sql."
_NODES = _SPARK + "catalyst.plans.logical."
_VIEW = _NODES + "View"
_NODES_OF_BOTH_PLANS = """
    Aggregate Deduplicate Distinct Except Expand Filter Generate GlobalLimit Intersect Join LateralJoin LocalLimit
    LocalRelation Offset OneRowRelation Pivot Project Range RebalancePartitions Repartition RepartitionByExpression
    Sample Sort SubqueryAlias Union UnionLoop UnionLoopRef Unpivot Window
""".split()
_PARSED = frozenset(
    [
        *(
            _NODES + name
            for name in [*_NODES_OF_BOTH_PLANS, "UnresolvedHint", "UnresolvedWith", "WithWindowDefinition"]
        ),
        _SPARK + "catalyst.expressions.PipeOperator",
        *(
            _SPARK + "catalyst.analysis.Unresolved" + name
            for name in """
            Having InlineTable Qualify Relation SubqueryColumnAliases TVFAliases TableValuedFunction
            """.split()
        ),
    ]
)
_ANALYSED = frozenset(
    [
        *(
            _NODES + name
            for name in [*_NODES_OF_BOTH_PLANS, "CTERelationDef", "CTERelationRef", "ResolvedHint", "View", "WithCTE"]
        ),
        _SPARK + "catalyst.analysis.SQLFunctionNode",  # made by CREATE FUNCTION, with its body below it
    ]
)
_EXPRESSIONS = tuple(
    _SPARK + "catalyst.expressions." + package for package in ("", "aggregate.", "st.", "variant.", "xml.")
)
"""Packages of expressions that only compute a value from their inputs."""
_OTHER_EXPRESSIONS = frozenset(
    [
        *(_SPARK + "avro." + name for name in ("AvroDataToCatalyst", "CatalystDataToAvro", "SchemaOfAvro")),
        *(_SPARK + "protobuf." + name for name in ("ProtobufDataToCatalyst", "CatalystDataToProtobuf")),
        # made by CREATE FUNCTION, and containing its body
        *(_SPARK + "catalyst.analysis." + name for name in ("SQLFunctionExpression", "SQLScalarFunction")),
        # Spark's own functions are replaced by these; no query can name them
        *(_SPARK + "catalyst.expressions.objects." + name for name in ("Invoke", "StaticInvoke")),
    ]
)
_NO_EXPRESSIONS = frozenset(
    _SPARK + "catalyst.expressions." + name for name in ("CallMethodViaReflection", "TryReflect", "ScalaUDF")
)
"""Expressions of these packages that are refused: they call Java methods by name, or functions of other code."""

_DEFAULTS = frozenset({"EXISTS_DEFAULT", "CURRENT_DEFAULT"})
"""Fields of a schema in JSON that contain SQL, which Spark evaluates for a missing column."""


def require_no_command(spark: SparkSession, text: str) -> None:
    """Raise an error if Spark parses a text as a command. Nothing is executed. Cost: one parse, about 1 ms.

    Raises E733. The parser's own errors are left to `spark.sql`, which adds their place.
    """
    parser = spark._jsparkSession.sessionState().sqlParser()  # noqa: SLF001
    try:
        plan = parser.parsePlan(text)
    except Exception:  # noqa: BLE001 - spark.sql parses the same text, and its error has the place
        return
    for node in json.loads(str(plan.toJSON())):
        if node["class"] not in _PARSED:
            raise _forbidden_node_error(node["class"])


def check_plan(frame: DataFrame) -> list[dict[str, Any]]:
    """Raise E733 if a query reads more than temporary views, or calls code. Otherwise return the plan that was checked.

    Cost: no job, some milliseconds.
    """
    text = analysed_plan(frame)
    if text is None:
        raise WaterclockError(
            "E733",
            "the query cannot be checked",
            why="Spark does not show its plan",
            fix="install the version of PySpark that Waterclock requires; if it is installed, report this as a defect",
        )
    tree: list[dict[str, Any]] = json.loads(text)
    for name in _classes(tree):
        is_expression = name in _OTHER_EXPRESSIONS or (
            f"{name.rpartition('.')[0]}." in _EXPRESSIONS and name not in _NO_EXPRESSIONS
        )
        if not is_expression and name not in _ANALYSED:
            raise _forbidden_node_error(name)
    return tree


def _classes(tree: list[Any]) -> Iterator[str]:
    """Yield the class of each node of a plan and of all trees in its fields, except below a temporary view.

    Spark writes a tree as a list in which each node precedes its children, and a tree within a field as a nested list.
    """
    skipped = 0
    for node in tree:
        if skipped:
            skipped += node["num-children"] - 1
            continue
        yield node["class"]
        if node["class"] == _VIEW:
            if node.get("isTempView") is not True:
                yield "a view of the catalog"
            skipped = node["num-children"]
            continue
        yield from _classes_within(node.values())


def _classes_within(values: Any) -> Iterator[str]:
    for value in values:
        if isinstance(value, dict):
            if "class" in value:
                yield value["class"]
            if value.get("type") == "udt":
                yield "a user-defined type"
            if not _DEFAULTS.isdisjoint(value):
                yield "a default as SQL"
            yield from _classes_within(value.values())
        elif isinstance(value, list) and value:
            if all(isinstance(each, dict) and "class" in each for each in value):
                yield from _classes(value)
            else:
                yield from _classes_within(value)


def _forbidden_node_error(name: str) -> WaterclockError:
    return WaterclockError(
        "E733",
        f"the query uses {name.rpartition('.')[2].removesuffix('$')} in Spark's plan, which is not permitted",
        why="queries can only read tables and compute values",
        fix="read the flow's tables by their names, with Spark's functions and those of CREATE FUNCTION",
    )
