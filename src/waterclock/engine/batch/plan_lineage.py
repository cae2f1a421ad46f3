"""Traces the columns of an analysed plan down to its inputs, by Spark's attribute ids. Pure functions.

An input is recognised by the alias that it was given (`Sources`). Under an unknown operator, or one that runs code that
the plan does not show, every column may depend on all its inputs. No input is ever left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from waterclock.engine.batch.plan_tree import (
    Parts,
    PlanNode,
    id_of,
    is_tree,
    kind_of,
    skip_subtree,
    tree,
    trees_in_fields,
)
from waterclock.flow.code_lineage import (
    AGGREGATED,
    COMPUTED,
    FILTER,
    GROUP,
    JOIN,
    MAY_READ,
    SORT,
    WINDOW,
    CodeLineage,
    Input,
    Origin,
    unknown_lineage,
)

Sources = Mapping[str, Callable[[str], Input]]
"""Maps the alias of an input to a function that converts its column names to table and column."""

_LEFT_ONLY_JOINS = ("LeftSemi", "LeftAnti")
_NOTHING = Origin(how=COMPUTED)
_OPERATOR_WORDS = {
    "Expand": "unpivot",
    "FlatMapCoGroupsInArrow": "applyInArrow",
    "FlatMapCoGroupsInPandas": "applyInPandas",
    "FlatMapGroupsInArrow": "applyInArrow",
    "FlatMapGroupsInPandas": "applyInPandas",
    "LogicalRDD": "rows from Python or an RDD",
    "LogicalRelation": "rows that it does not read by the name of a table",
    "MapInArrow": "mapInArrow",
    "MapInPandas": "mapInPandas",
}


@dataclass(frozen=True, slots=True)
class _Column:
    """A column that an operator returns: its id in the plan (None: nothing above can refer to it), name and origin."""

    id: int | None
    name: str
    origin: Origin


_Columns = tuple[_Column, ...]


def lineage_of(plan: PlanNode, names: Sequence[str], sources: Sources, tables: Iterable[str]) -> CodeLineage:
    """Return the lineage of a plan's columns. It is unknown if their names are not `names`.

    `tables` are all input tables. Cost: some microseconds for each column of each operator.
    """
    tables = tuple(tables)
    follower = _PlanWalker(sources, frozenset((table, "*") for table in tables))
    columns = follower.follow(plan)
    if [each.name for each in columns] != list(names):
        return unknown_lineage(names, tables, ["its plan"])
    return CodeLineage(
        {each.name: each.origin for each in columns}, {use: frozenset(of) for use, of in follower.uses.items() if of}
    )


@dataclass(slots=True)
class _PlanWalker:
    """Walks a plan bottom-up and finds the origin of each column. `outer`: the columns of an enclosing query."""

    sources: Sources
    everything: frozenset[Input]
    outer: Mapping[int | None, Origin] = field(default_factory=dict)
    ctes: dict[int, _Columns] = field(default_factory=dict)
    uses: dict[str, set[Input]] = field(default_factory=dict)
    _env: dict[int | None, Origin] = field(default_factory=dict)

    def follow(self, plan: PlanNode) -> _Columns:
        """Return the columns of a plan. Children are visited first, left to right, so that CTEs are known when used."""
        ready: list[_Columns] = []
        waiting: list[tuple[PlanNode, bool]] = [(plan, False)]
        while waiting:
            node, is_open = waiting.pop()
            if not is_open:
                column_of = self._find_input(node)
                if column_of is not None:
                    ready.append(self._read(node, column_of))
                    continue
                waiting.append((node, True))
                waiting.extend((child, False) for child in reversed(node.children))
                continue
            first = len(ready) - len(node.children)
            children, ready = ready[first:], ready[:first]
            self._env = {each.id: each.origin for columns in children for each in columns if each.id is not None}
            ready.append(self._columns(node, children))
        return ready[0]

    def _columns(self, node: PlanNode, children: Sequence[_Columns]) -> _Columns:
        for how, names in _USES.get(node.kind, ()):
            for name in names:
                self._use(how, node.expressions(name))
        if node.kind in _USES_ALL:
            self._use_all(_USES_ALL[node.kind], children)
        return _VISITORS.get(node.kind, _PlanWalker.visit_unknown)(self, node, children)

    def visit_unchanged(self, node: PlanNode, children: Sequence[_Columns]) -> _Columns:
        return children[0] if children else self.visit_unknown(node, children)

    def visit_constant(self, node: PlanNode, _: Sequence[_Columns]) -> _Columns:
        return _output(node)

    def visit_project(self, node: PlanNode, _: Sequence[_Columns]) -> _Columns:
        return self._resolve_columns(node.expressions("projectList"))

    def visit_aggregate(self, node: PlanNode, _: Sequence[_Columns]) -> _Columns:
        return self._resolve_columns(node.expressions("aggregateExpressions"))

    def visit_window(self, node: PlanNode, children: Sequence[_Columns]) -> _Columns:
        return (*children[0], *self._resolve_columns(node.expressions("windowExpressions")))

    def visit_generate(self, node: PlanNode, children: Sequence[_Columns]) -> _Columns:
        output = _output(node, "generatorOutput")
        values = [part for parts in node.expressions("generator") for part in _split_generator(parts, len(output))]
        made = [_unite_origins(map(self._value, each)).derive(COMPUTED) for each in values]
        return (*children[0], *(replace(each, origin=one) for each, one in zip(output, made, strict=True)))

    def visit_union(self, node: PlanNode, children: Sequence[_Columns]) -> _Columns:
        """Return the columns of a UNION: those of the first query, with the origins of the same position in each."""
        if len({len(columns) for columns in children}) != 1:
            return self.visit_unknown(node, children)
        return tuple(
            replace(columns[0], origin=_unite_origins(each.origin for each in columns))
            for columns in zip(*children, strict=True)
        )

    def visit_cte_definition(self, node: PlanNode, children: Sequence[_Columns]) -> _Columns:
        self.ctes[node.fields.get("id", -1)] = children[0]
        return children[0]

    def visit_with_cte(self, _: PlanNode, children: Sequence[_Columns]) -> _Columns:
        return children[-1]

    def visit_cte_reference(self, node: PlanNode, children: Sequence[_Columns]) -> _Columns:
        output, columns = _output(node), self.ctes.get(node.fields.get("cteId", -1), ())
        if len(output) != len(columns):
            return self.visit_unknown(node, children)
        return tuple(replace(each, origin=one.origin) for each, one in zip(output, columns, strict=True))

    def _use(self, how: str, expressions: Iterable[Parts]) -> None:
        for each in expressions:
            self._add(how, self._value(each))

    def _use_all(self, how: str, children: Iterable[_Columns]) -> None:
        for columns in children:
            for each in columns:
                self._add(how, each.origin)

    def _add(self, how: str, origin: Origin) -> None:
        self.uses.setdefault(how, set()).update(origin.inputs)
        self.uses.setdefault(MAY_READ, set()).update(origin.maybe)

    def _find_input(self, node: PlanNode) -> Callable[[str], Input] | None:
        """Return the function that converts column names of an input if the node is its alias, or None."""
        identifier = node.fields.get("identifier") if node.kind == "SubqueryAlias" else None
        return self.sources.get(str(identifier.get("name"))) if isinstance(identifier, dict) else None

    def _read(self, node: PlanNode, column_of: Callable[[str], Input]) -> _Columns:
        """Return the columns of an input. How the input itself computes them is not part of the lineage."""
        below = _PlanWalker({}, self.everything).follow(node.children[0])
        return tuple(replace(each, origin=Origin(frozenset({column_of(each.name)}))) for each in below)

    def _resolve_columns(self, expressions: Iterable[Parts]) -> _Columns:
        return tuple(self._column(each) for each in expressions)

    def _column(self, parts: Parts) -> _Column:
        top = parts[0]
        is_alias = kind_of(top) == "Alias"
        rest = parts[1:] if is_alias else parts
        made = self._value(rest)
        if len(rest) > 1 or kind_of(rest[0]) != "AttributeReference":
            made = made.derive(AGGREGATED if any(map(_aggregates, rest)) else COMPUTED)
        return _Column(id_of(top), str(top.get("name", "")), made)

    def _value(self, parts: Parts) -> Origin:
        """Return the origin of an expression: all columns that it names, at any depth, and those of its subqueries."""
        found: Origin | None = None
        at = 0
        while at < len(parts):
            part, origin = parts[at], None
            inner = [inner_tree for name, inner_tree in trees_in_fields(part) if name == "plan"]
            if inner:  # a subquery: its children are outer columns to which its rows are compared
                origin, at = self._follow_subquery(kind_of(part), inner[0]), skip_subtree(parts, at)
            else:
                at += 1
                if kind_of(part) == "AttributeReference":
                    origin = self._find_origin(id_of(part))
                elif kind_of(part) == "OuterReference":
                    origin = _unite_origins(
                        self._find_origin(id_of(e), self.outer)
                        for _, inner_tree in trees_in_fields(part)
                        for e in inner_tree
                    )
                else:
                    for _, inner_tree in trees_in_fields(part):
                        origin = self._value(inner_tree) if origin is None else origin | self._value(inner_tree)
            if origin is not None:
                found = origin if found is None else found | origin
        return _NOTHING if found is None else found

    def _find_origin(self, id: int | None, first: Mapping[int | None, Origin] | None = None) -> Origin:  # noqa: A002 - Spark's term
        for known in (first or {}, self._env, self.outer):
            if id is not None and id in known:
                return known[id]
        return Origin(maybe=self.everything, how=COMPUTED, why=frozenset({"a column that its plan does not show"}))

    def _follow_subquery(self, kind: str, plan: Parts) -> Origin:
        """Return the origin of a subquery's value, for a subquery in an expression."""
        inner = _PlanWalker(self.sources, self.everything, {**self.outer, **self._env}, self.ctes)
        columns = inner.follow(tree(plan))
        for how, of in inner.uses.items():
            self.uses.setdefault(how, set()).update(of)
        if kind == "Exists":
            sure = {each for how, of in inner.uses.items() if how != MAY_READ for each in of}
            maybe = inner.uses.get(MAY_READ, set()) - sure
            return Origin(frozenset(sure), frozenset(maybe), COMPUTED)
        return _unite_origins(each.origin for each in (columns[:1] if kind == "ScalarSubquery" else columns))

    def visit_join(self, node: PlanNode, children: Sequence[_Columns]) -> _Columns:
        kind = str(node.fields.get("joinType"))
        if any(word in kind for word in _LEFT_ONLY_JOINS):
            return children[0]
        if "Existence" in kind:
            return self.visit_unknown(node, children)
        return tuple(each for columns in children for each in columns)

    def visit_lateral_join(self, node: PlanNode, children: Sequence[_Columns]) -> _Columns:
        plans = [
            value for parts in node.expressions("right") for name, value in trees_in_fields(parts[0]) if name == "plan"
        ]
        if len(plans) != 1:
            return self.visit_unknown(node, children)
        inner = _PlanWalker(self.sources, self.everything, {**self.outer, **self._env}, self.ctes, self.uses)
        return (*children[0], *inner.follow(tree(plans[0])))

    def visit_expand(self, node: PlanNode, children: Sequence[_Columns]) -> _Columns:
        """Return the columns of rows that are repeated: for each grouping set, or for each unpivoted column."""
        output = _output(node)
        projections = node.fields.get("projections")
        if not isinstance(
            projections, list
        ):  # an unpivot has no projections in the JSON; unchanged columns keep their ids
            new = self.visit_unknown(node, children)
            return tuple(replace(each, origin=self._env.get(each.id, each.origin)) for each in new)
        rows = [[self._column(each) for each in row if is_tree(each)] for row in projections]
        if any(len(row) != len(output) for row in rows):
            return self.visit_unknown(node, children)
        return tuple(
            replace(each, origin=_unite_origins(row[at].origin for row in rows)) for at, each in enumerate(output)
        )

    def visit_unknown(self, node: PlanNode, children: Sequence[_Columns]) -> _Columns:
        """Return columns of an unknown operator: each may depend on all columns of its children, or on all inputs."""
        come = _unite_origins(each.origin for columns in children for each in columns)
        maybe = (come.inputs | come.maybe) if children else self.everything
        self.uses.setdefault(MAY_READ, set()).update(maybe)
        origin = Origin(
            maybe=maybe, how=COMPUTED, why=come.why | {_OPERATOR_WORDS.get(node.kind, f"Spark's {node.kind}")}
        )
        made = _output(node) or _output(node, "outputAttrs")
        if made:
            return tuple(replace(each, origin=origin) for each in made)
        return tuple(replace(each, origin=each.origin | origin) for columns in children for each in columns)


def _split_generator(generator: Parts, count: int) -> list[list[Parts]]:
    """Return the expressions of each column of a generator. Those of a stack alternate between its columns."""
    if kind_of(generator[0]) != "Stack":
        return [[generator]] * count
    at, values = skip_subtree(generator, 1), []  # the first child is the number of rows
    while at < len(generator):
        end = skip_subtree(generator, at)
        values.append(generator[at:end])
        at = end
    return [values[column::count] for column in range(count)]


def _output(node: PlanNode, name: str = "output") -> _Columns:
    """Return the output attributes of an operator, with no origin yet."""
    return tuple(_Column(id_of(parts[0]), str(parts[0].get("name", "")), _NOTHING) for parts in node.expressions(name))


def _unite_origins(origins: Iterable[Origin]) -> Origin:
    found: Origin | None = None
    for each in origins:
        found = each if found is None else found | each
    return _NOTHING if found is None else found


def _aggregates(part: Mapping[str, object]) -> bool:
    return ".aggregate." in str(part["class"])


_UNCHANGED = (
    "CollectMetrics", "Deduplicate", "DeduplicateWithinWatermark", "Distinct", "EventTimeWatermark", "Except", "Filter",
    "GlobalLimit", "Intersect", "LocalLimit", "Offset", "PipeOperator",
    "RebalancePartitions", "Repartition", "RepartitionByExpression",
    "ResolvedHint", "ReturnAnswer", "Sample", "Sort", "Subquery", "SubqueryAlias", "Tail", "View",
)  # fmt: skip
_USES: Mapping[str, Sequence[tuple[str, Sequence[str]]]] = {
    "Aggregate": [(GROUP, ["groupingExpressions"])],
    "Deduplicate": [(GROUP, ["keys"])],
    "DeduplicateWithinWatermark": [(GROUP, ["keys"])],
    "Filter": [(FILTER, ["condition"])],
    "Join": [(JOIN, ["condition"])],
    "LateralJoin": [(JOIN, ["condition"])],
    "Sort": [(SORT, ["order"])],
    "Window": [(WINDOW, ["partitionSpec", "orderSpec"])],
}
_USES_ALL: Mapping[str, str] = {"Distinct": GROUP, "Except": FILTER, "Intersect": FILTER}
_VISITORS: Mapping[str, Callable[[_PlanWalker, PlanNode, Sequence[_Columns]], _Columns]] = {
    **dict.fromkeys(_UNCHANGED, _PlanWalker.visit_unchanged),
    **dict.fromkeys(("LocalRelation", "OneRowRelation", "Range"), _PlanWalker.visit_constant),
    "Aggregate": _PlanWalker.visit_aggregate,
    "CTERelationDef": _PlanWalker.visit_cte_definition,
    "CTERelationRef": _PlanWalker.visit_cte_reference,
    "Expand": _PlanWalker.visit_expand,
    "Generate": _PlanWalker.visit_generate,
    "Join": _PlanWalker.visit_join,
    "LateralJoin": _PlanWalker.visit_lateral_join,
    "Project": _PlanWalker.visit_project,
    "Union": _PlanWalker.visit_union,
    "Window": _PlanWalker.visit_window,
    "WithCTE": _PlanWalker.visit_with_cte,
}
