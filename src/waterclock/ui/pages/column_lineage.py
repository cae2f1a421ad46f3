"""The page of a column's lineage: all upstream and downstream columns, each with its expression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from waterclock.operations.formatting import count_words
from waterclock.operations.lineage import column_trees, list_lineage_columns
from waterclock.operations.project_opening import OpenedProject
from waterclock.ui.layout import Sizes, lay_out
from waterclock.ui.page_query import Content, PageQuery, lineage_address, table_address
from waterclock.ui.pages.lineage_drawing import box_position

if TYPE_CHECKING:
    from waterclock.dpl.query.lineage import Branch

_SIZES = Sizes(width=196, height=56)


def column_lineage(at: OpenedProject, parameters: PageQuery, table: str) -> Content:
    """Return the drawing and lists of a column's lineage. Raises E517 if it is unknown. Cost: a parse of each query."""
    trees = column_trees(at.project, table, parameters.values["column"], ledger=at.ledger)
    column = trees.up.column.column
    found: dict[str, Branch] = {}
    edges = [*_list_edges(trees.up, found, is_up=True), *_list_edges(trees.down, found, is_up=False)]
    laid = lay_out(sorted(found, key=lambda each: at.flow.order.index(found[each].column.table)), edges, _SIZES)
    up, down = ({str(each.column) for each in _walk_tree(tree)} - {trees.column} for tree in (trees.up, trees.down))
    made = f"is made from {count_words(len(up), 'column')}" if up else "is made from no other column"
    went = f"went into {count_words(len(down), 'column')}" if down else "went into none"
    return {
        "kind": "columns",
        "table": table,
        "column": column,
        "title": [{"text": f"{table}.{_column_text(trees.up)} {made} and {went}.", "mark": None}],
        "more": [],
        "note": "",
        "every": "",
        "view": "list" if parameters.values.get("view") == "list" else "picture",
        "picture": lineage_address(table, parameters, view=""),
        "list": lineage_address(table, parameters, view="list"),
        "svg": lineage_address(table, parameters, suffix=".svg", view=""),
        "page": table_address(table),
        "columns": list(list_lineage_columns(at.project, table, at.ledger)),
        "depth": 0,
        "fewer": "",
        "further": "",
        "to": "",
        "nodes": [
            _build_node(branch, parameters, is_here=name == trees.column) | box_position(laid.boxes[name])
            for name, branch in found.items()
        ],
        "edges": [
            {"from": line.source, "to": line.target, "read": "", "is_bad": False, "is_stub": False, "path": line.path}
            for line in laid.lines
        ],
        "width": laid.width,
        "height": laid.height,
        "is_far": False,
        "span": "",
        "rows": [],
        "trees": [
            {"name": "Made from", "rows": list(_list_rows(trees.up, parameters, 0))},
            {"name": "Went into", "rows": list(_list_rows(trees.down, parameters, 0))},
        ],
    }


def _walk_tree(branch: Branch) -> Iterator[Branch]:
    yield branch
    for each in branch.beyond:
        yield from _walk_tree(each)


def _list_edges(branch: Branch, found: dict[str, Branch], *, is_up: bool) -> Iterator[tuple[str, str]]:
    """Yield the edges of a tree, upstream first, and store each column in `found` by its name."""
    if not branch.is_seen or str(branch.column) not in found:
        found[str(branch.column)] = branch
    for each in branch.beyond:
        ends = str(each.column), str(branch.column)
        yield ends if is_up else (ends[1], ends[0])
        yield from _list_edges(each, found, is_up=is_up)


def _column_text(branch: Branch) -> str:
    return "every column" if branch.column.column == "*" else branch.column.column


def _expression_text(branch: Branch) -> str:
    """Return the expression of a column, or "" if it is only the column's name."""
    made = branch.made
    is_bare = made.expression.rpartition(".")[2].lower() == branch.column.column.lower()
    return "" if is_bare else made.expression


def _build_node(branch: Branch, parameters: PageQuery, *, is_here: bool = False) -> Content:
    expression = _expression_text(branch)
    table, column = branch.column.table, branch.column.column
    return {
        "id": str(branch.column),
        "kind": "column",
        "table": table,
        "column": column,
        "name": _column_text(branch),
        "under": table,
        "expression": expression,
        "note": branch.made.note,
        "state": "ok",
        "is_here": is_here,
        "words": f"{table}.{_column_text(branch)}{f' = {expression}' if expression else ''}",
        "address": lineage_address(table, parameters, column="" if column == "*" else column, depth="", open="", t=""),
        "strip": [],
    }


def _list_rows(branch: Branch, parameters: PageQuery, indent: int) -> Iterator[Content]:
    yield _build_node(branch, parameters, is_here=indent == 0) | {"indent": indent, "is_seen": branch.is_seen}
    for each in branch.beyond:
        yield from _list_rows(each, parameters, indent + 1)
