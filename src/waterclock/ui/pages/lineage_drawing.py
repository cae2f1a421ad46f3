"""Draws tables, or only their schemas if there are many, from left to right with their states, and lists them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import groupby

from waterclock.operations.display_states import LOUDNESS, State
from waterclock.operations.formatting import count_words, number_words, short_label
from waterclock.operations.freshness import count_fresh_tables
from waterclock.operations.lineage import reverse_arrows
from waterclock.operations.project_summary import verdict
from waterclock.operations.timeline_bars import BarPiece, build_timeline_bars
from waterclock.ui.layout import Box, Sizes, lay_out
from waterclock.ui.page_query import Content, PageQuery, lineage_address, table_address
from waterclock.ui.pages.grid import axis_of, fresh_words, sentence_part
from waterclock.ui.pages.lineage_scene import Scene

_STRIP = 30  # labels in each box
_SCHEMAS_FROM = 150  # tables, above which schemas are drawn instead
_NEAR = Sizes()
_FAR = Sizes(height=26, across=44, below=8, line=7)
_STUB_HEIGHT = 20  # the height of a box with the number of hidden neighbours
_PAD = 10
LOUD = frozenset({State.FAILED, State.HELD, State.BLOCKED, State.EXPIRED, State.RUNNING})
_QUIET = frozenset({State.STOOD_FOR, State.NOT_NEEDED})
_RESET_PARAMETERS = {
    "depth": "",
    "open": "",
    "to": "",
    "column": "",
    "t": "",
    "all": "",
}  # dropped in links to another table


def describe_drawing(scene: Scene, parameters: PageQuery) -> Content:
    """Return the drawing and the list, with the links around them."""
    summary = verdict(scene.at.flow, scene.found, scene.plan)
    layers = {name.rpartition(".")[0] for name in scene.names}
    is_closed = len(scene.names) > _SCHEMAS_FROM and len(layers) > 1 and parameters.values.get("all") != "1"
    drawn = _draw_schemas(scene, parameters) if is_closed else _draw_tables(scene, parameters)
    note = (
        f"{count_words(len(scene.names), 'table')} are drawn as their {number_words(len(layers))} schemas; "
        "open one, or name fewer tables"
    )
    here = scene.here
    return {
        "kind": "schemas" if is_closed else "tables",
        "table": here or "",
        "title": [sentence_part(part) for part in summary.title],
        "more": [sentence_part(part) for part in summary.more],
        "note": note if is_closed else "",
        "every": lineage_address(here, parameters, all="1") if is_closed else "",
        "view": "list" if parameters.values.get("view") == "list" else "picture",
        "picture": lineage_address(here, parameters, view=""),
        "list": lineage_address(here, parameters, view="list"),
        "svg": lineage_address(here, parameters, suffix=".svg", view=""),
        "page": "" if here is None else table_address(here),
        "columns": [],
        "column": "",
        "depth": 0,
        "fewer": "",
        "further": "",
        "to": "",
        **drawn,
    }


def _draw_tables(scene: Scene, parameters: PageQuery) -> Content:
    """Draw each table as a box, and hidden neighbours as smaller boxes."""
    sizes = _FAR if scene.is_far else _NEAR
    edges = scene.edges()
    stubs = list(_list_hidden_neighbours(scene, parameters)) if scene.has_stubs else []
    names = [
        *(stub["id"] for stub in stubs if stub["is_up"]),
        *scene.names,
        *(stub["id"] for stub in stubs if not stub["is_up"]),
    ]
    beyond = [(each["id"], each["of"]) if each["is_up"] else (each["of"], each["id"]) for each in stubs]
    laid = lay_out(names, [*edges, *beyond], sizes, {stub["id"]: _STUB_HEIGHT for stub in stubs})
    strips, span = ({}, "") if scene.is_far else _draw_strips(scene, sizes)
    nodes = [_build_node(scene, name, parameters, strips.get(name, [])) for name in scene.names]
    bad = {edge for edge in edges if scene.is_bad(*edge)} | {
        (stub["id"], stub["of"]) for stub in stubs if stub["is_bad"]
    }
    return {
        "nodes": [node | box_position(laid.boxes[node["id"]]) for node in (*nodes, *stubs)],
        "edges": [
            {
                "from": line.source,
                "to": line.target,
                "read": scene.reads.get(line.target, {}).get(line.source, ""),
                "is_bad": (line.source, line.target) in bad,
                "is_stub": (line.source, line.target) in beyond,
                "path": line.path,
            }
            for line in laid.lines
        ],
        "width": laid.width,
        "height": laid.height,
        "is_far": scene.is_far,
        "span": span,
        "rows": _list_rows(scene, parameters, edges),
    }


def box_position(box: Box) -> Content:
    """Return the position and size of a box as a dictionary."""
    return asdict(box)


def _build_node(scene: Scene, name: str, parameters: PageQuery, strip: list[Content]) -> Content:
    table, fresh = scene.at.flow.tables[name], scene.found[name]
    words = fresh_words(table, fresh, scene.at.now)
    return {
        "id": name,
        "kind": "table",
        "table": name,
        "name": name.rpartition(".")[2],
        "under": name.rpartition(".")[0],
        "fresh_to": words,
        "state": str(fresh.state),
        "is_fresh": fresh.is_fresh,
        "is_here": name == scene.here,
        "words": f"{name}: {fresh.state}, {words if fresh.label is None else f'fresh to {words}'}",
        "address": table_address(name)
        if name == scene.here
        else lineage_address(name, parameters, **_RESET_PARAMETERS),
        "strip": strip,
    }


def _list_hidden_neighbours(scene: Scene, parameters: PageQuery) -> Iterable[Content]:
    """Yield, for each shown table with hidden neighbours, a box `+7 more`, whose link adds them to the drawing."""
    shown = set(scene.names)
    for is_up, arrows in ((True, scene.reads), (False, reverse_arrows(scene.reads))):
        for name in scene.names:
            count = sum(1 for other in arrows[name] if other not in shown)
            if count:
                opened = f"{parameters.values.get('open', '')} `{name}`".strip()
                yield {
                    "id": f"{'<' if is_up else '>'}{name}",
                    "kind": "more",
                    "of": name,
                    "is_up": is_up,
                    "is_bad": is_up and scene.is_hidden_bad(name),
                    "name": f"+{number_words(count)} more",
                    "words": f"{count_words(count, 'more table')} {'read by' if is_up else 'made from'} {name}",
                    "is_here": False,
                    "address": lineage_address(scene.here, parameters, open=opened),
                }


def _draw_strips(scene: Scene, sizes: Sizes) -> tuple[dict[str, list[Content]], str]:
    """Return the newest labels of each table as rectangles by state, and the span of these labels."""
    tables = [scene.at.flow.tables[name] for name in scene.names]
    axis = axis_of(scene.at, tables, scene.labels.values(), _STRIP)
    if not axis.columns or not tables:
        return {}, ""
    unit = (sizes.width - 2 * _PAD) / len(axis.columns)
    drawn = build_timeline_bars(scene.at, tables, axis, scene.plan.batches)
    ends = (short_label(each, axis.by, scene.at.now) for each in (axis.columns[0], axis.columns[-1]))
    return {row.table: [_draw_piece(piece, unit) for piece in row.pieces] for row in drawn}, " to ".join(ends)


def _draw_piece(piece: BarPiece, unit: float) -> Content:
    """Return a piece of a strip. Severe states are higher than others, and always wide enough to be visible."""
    is_loud = piece.state in LOUD
    width = max(4.0 if is_loud else 1.0, piece.columns * unit * piece.part)
    left = min(piece.column * unit, (piece.column + piece.columns) * unit - width) if is_loud else piece.column * unit
    return _draw_bar(_PAD + left, width, piece.state)


def _draw_bar(x: float, width: float, state: State) -> Content:
    height = 11 if state in LOUD else 2 if state in _QUIET else 6
    return {"x": round(x, 1), "width": round(width, 1), "height": height, "state": str(state)}


def _list_rows(scene: Scene, parameters: PageQuery, edges: Sequence[tuple[str, str]]) -> list[Content]:
    """List the drawn tables, each once, indented below the table that blocks it, or else below its last input."""
    rank = {name: number for number, name in enumerate(scene.names)}
    by_weight = sorted(edges, key=lambda edge: (scene.is_bad(*edge), rank[edge[0]]))
    above = {target: source for source, target in by_weight}  # a later edge of a target replaces an earlier one
    below: dict[str, list[str]] = {}
    for target, source in above.items():
        below.setdefault(source, []).append(target)
    rows: list[Content] = []
    reads: dict[str, list[str]] = {}
    for source, target in edges:
        reads.setdefault(target, []).append(source)
    to_do = [(name, 0) for name in reversed(scene.names) if name not in above]
    while to_do:
        name, indent = to_do.pop()
        rows.append(_build_node(scene, name, parameters, []) | {"indent": indent, "reads": reads.get(name, [])})
        to_do += [(each, indent + 1) for each in reversed(below.get(name, []))]
    return rows


def _draw_schemas(scene: Scene, parameters: PageQuery) -> Content:
    """Draw each schema as one box, with the share of its tables in each state."""
    of_schema = {schema: list(names) for schema, names in groupby(sorted(scene.names, key=_schema), key=_schema)}
    order = list(dict.fromkeys(map(_schema, scene.names)))
    counts = Counter((_schema(source), _schema(target)) for source, target in scene.edges())
    bad = {(_schema(source), _schema(target)) for source, target in scene.edges() if scene.is_bad(source, target)}
    laid = lay_out(order, counts, _NEAR)
    nodes = [
        _draw_schema(scene, schema, of_schema[schema], parameters) | box_position(laid.boxes[schema])
        for schema in order
    ]
    return {
        "nodes": nodes,
        "edges": [
            {
                "from": line.source,
                "to": line.target,
                "read": count_words(counts[line.source, line.target], "arrow"),
                "is_bad": (line.source, line.target) in bad,
                "is_stub": False,
                "path": line.path,
            }
            for line in laid.lines
        ],
        "width": laid.width,
        "height": laid.height,
        "is_far": False,
        "span": "",
        "rows": [
            node | {"indent": 0, "reads": [source for source, target in counts if target == node["id"] != source]}
            for node in nodes
        ],
    }


def _schema(name: str) -> str:
    return name.rpartition(".")[0]


def _draw_schema(scene: Scene, schema: str, names: Sequence[str], parameters: PageQuery) -> Content:
    counts = Counter(scene.found[name].state for name in names)
    unit, left = (_NEAR.width - 2 * _PAD) / len(names), float(_PAD)
    strip: list[Content] = []
    for state in sorted(counts, key=LOUDNESS.__getitem__):
        width = counts[state] * unit
        strip.append(_draw_bar(left, width, state))
        left += width
    fresh = f"{number_words(count_fresh_tables(scene.found, names))} of {number_words(len(names))} fresh"
    loud = ", ".join(f"{number_words(counts[state])} {state}" for state in counts if state in LOUD)
    return {
        "id": schema,
        "kind": "schema",
        "table": "",
        "name": schema or "no schema",
        "under": count_words(len(names), "table"),
        "fresh_to": fresh,
        "state": str(State.OK),
        "is_fresh": True,
        "is_here": False,
        "words": f"{schema}: {count_words(len(names), 'table')}, {fresh}{f', {loud}' if loud else ''}",
        "address": lineage_address(None, parameters, t=f"{schema}.*", open="", all="", depth="", to=""),
        "strip": strip,
    }
