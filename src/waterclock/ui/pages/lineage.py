"""The page of lineage: a drawing of the selected tables, of the tables around one, or of those between two."""

from __future__ import annotations

from waterclock.errors import WaterclockError
from waterclock.operations.display_states import State
from waterclock.operations.formatting import count_words, number_words
from waterclock.operations.lineage import (
    list_lineage_columns,
    map_inputs,
    reverse_arrows,
    tables_on_paths,
    tables_within,
)
from waterclock.operations.project_opening import OpenedProject, one_table
from waterclock.selection import select
from waterclock.ui.page_query import Content, PageQuery, lineage_address
from waterclock.ui.pages.column_lineage import column_lineage
from waterclock.ui.pages.grid import fresh_words
from waterclock.ui.pages.lineage_drawing import LOUD, describe_drawing
from waterclock.ui.pages.lineage_scene import Scene


def lineage(at: OpenedProject, parameters: PageQuery) -> Content:
    """Return the drawing and the list of the selected tables. Cost: a plan, the layout, and three ledger queries.

    Raises E510 and E511 for unknown tables, E517 for an unknown column, E910 for an invalid depth.
    """
    if "table" not in parameters.values:
        tables, labels = parameters.tables(at)
        names = _expand_tables(at, parameters, {table.name for table in tables})
        return describe_drawing(Scene.build(at, parameters, names, labels), parameters)
    name, _ = one_table(at.flow, f"`{parameters.values['table']}`")
    if parameters.values.get("column"):
        return column_lineage(at, parameters, name)
    if parameters.values.get("to"):
        return _paths_content(at, parameters, name)
    return _neighborhood_content(at, parameters, name)


def _neighborhood_content(at: OpenedProject, parameters: PageQuery, name: str) -> Content:
    up, depth = map_inputs(at.flow), _parse_depth(parameters)
    down = reverse_arrows(up)
    names = tables_within(up, [name], depth) | tables_within(down, [name], depth)
    is_all = names == tables_within(up, [name]) | tables_within(down, [name])
    scene = Scene.build(at, parameters, _expand_tables(at, parameters, names), here=name)
    above, below = len(tables_within(up, [name])) - 1, len(tables_within(down, [name])) - 1
    made = f"is made from {count_words(above, 'table')}" if above else "is made from no other table"
    went = f"went into {count_words(below, 'table')}" if below else "went into none"
    title = [_sentence_part(name), _sentence_part(f" {made} and {went}.")]
    return describe_drawing(scene, parameters) | {
        "title": title,
        "more": _describe_freshness(scene, name),
        "columns": list(list_lineage_columns(at.project, name, at.ledger)),
        "depth": depth,
        "fewer": lineage_address(name, parameters, depth=str(depth - 1) if depth > 2 else "") if depth > 1 else "",
        "further": "" if is_all else lineage_address(name, parameters, depth=str(depth + 1)),
    }


def _paths_content(at: OpenedProject, parameters: PageQuery, name: str) -> Content:
    other, _ = one_table(at.flow, parameters.values["to"])
    found = tables_on_paths(map_inputs(at.flow), name, other)
    scene = Scene.build(at, parameters, found or {name, other}, here=name, has_stubs=False)
    count = len(found) - len({name, other})
    subject = "No table is" if not count else "One table is" if count == 1 else f"{number_words(count)} tables are"
    first, last = sorted((name, other), key=at.flow.order.index)
    sentence = (
        f"{subject} between {first} and {last}." if found else f"Neither of {name} and {other} is made from the other."
    )
    drawn = describe_drawing(scene, parameters)
    return drawn | {"title": [_sentence_part(sentence)], "more": drawn["title"], "to": other}


def _expand_tables(at: OpenedProject, parameters: PageQuery, names: set[str]) -> set[str]:
    """Add the neighbours of the tables whose box `+7 more` the user has opened (`open` in the address)."""
    if not parameters.values.get("open"):
        return names
    up = map_inputs(at.flow)
    opened = select(at.flow, parameters.values["open"]).tables
    return names | tables_within(up, opened, 1) | tables_within(reverse_arrows(up), opened, 1)


def _parse_depth(parameters: PageQuery) -> int:
    given = parameters.values.get("depth") or "1"
    if not given.isascii() or not given.isdecimal() or not 1 <= int(given[:4]) <= 999:
        raise WaterclockError(
            "E910",
            f"a depth of {given[:20]} cannot be drawn",
            why="it is how many steps are followed each way",
            fix="write a whole number from 1 to 999",
        )
    return int(given[:4])


def _sentence_part(text: str, mark: State | None = None) -> Content:
    return {"text": text, "mark": None if mark is None else str(mark)}


def _describe_freshness(scene: Scene, name: str) -> list[Content]:
    """Return a sentence about the freshness of a table, and the tables that block it."""
    fresh = scene.found[name]
    words = fresh_words(scene.at.flow.tables[name], fresh, scene.at.now)
    parts = [_sentence_part("No batch of it was made yet" if fresh.label is None else f"Fresh to {words}")]
    if fresh.state in LOUD:
        roots = sorted(scene.roots.get(name, set()) - {name})
        by = f" by {', '.join(roots[:3])}" if fresh.state is State.BLOCKED and roots else ""
        is_so = "; a batch " if fresh.state is State.FAILED else "; a batch is "
        parts += [_sentence_part(is_so), _sentence_part(str(fresh.state), fresh.state), _sentence_part(by)]
    return [*parts, _sentence_part(".")]
