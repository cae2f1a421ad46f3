"""Reads calls of `wc.stateful`, which declare a function and two tables that it makes: output rows and state."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from waterclock.dpl.python.decorators import Call
from waterclock.dpl.python.fingerprints import End
from waterclock.dpl.python.functions import describe_function, find_function
from waterclock.dpl.python.sources import PythonSources
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import Clause, ParsedColumnList
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Argument, PythonFunction, Read
from waterclock.flow.enums import ReadKind
from waterclock.flow.stateful_steps import ROWS, STATE, StatefulStep

_PARAMETERS = ("key", "state_rows", "rows", "window")
_SHAPE = f"write def name({', '.join(_PARAMETERS)}): below it, and return state_rows and out_rows"


def step_function(
    call: Call, texts: PythonSources, span: Span, declarations: frozenset[End], clauses: Sequence[Clause]
) -> tuple[PythonFunction, list[Clause]]:
    """Return the function for the state or output table of `wc.stateful`, and clauses with its inputs' positions.

    Raises E259 if the function has other parameters, or if not all columns of the table are declared with types.
    """
    step = call.step
    if step is None:
        raise AssertionError(f"{call.name} is no step")
    found = find_function(call, texts, span)
    parameters = list(inspect.signature(found.function).parameters.values())
    if len(parameters) != len(_PARAMETERS) or any(each.kind is not each.POSITIONAL_OR_KEYWORD for each in parameters):
        raise found.span.refuse(
            "E259", f"{found.function.__name__} does not take {', '.join(_PARAMETERS)}",
            why="the function is called for each key, with the rows of the state and of the window", fix=_SHAPE,
        )  # fmt: skip
    if not _are_declared(clauses):
        argument = "state_columns" if step.is_state else "columns"
        raise texts.argument_span(call.site, argument).refuse(
            "E259", f"not all {argument} of {call.name} have a type",
            why="the function returns plain rows, which get the declared types",
            fix=f'write types, as in {argument}="user_id STRING, began TIMESTAMP"',
        )  # fmt: skip
    rows, at = texts.table_name(texts.argument(call.site, "rows", step.rows))
    state, at_state = texts.table_name(texts.argument(call.site, "state", step.state))
    arguments = (
        Argument(ROWS, read=Read(rows)),
        Argument(STATE, read=Read(state, ReadKind.PREVIOUS)),
        Argument("window", is_window=True),
    )
    made = describe_function(found, texts, arguments, declarations, StatefulStep(_keys(call, texts), step.is_state))
    places = ((ROWS, at), (STATE, at_state))
    return made, [Clause(f"ARGUMENT {name}", None, place) for name, place in places]


def _are_declared(clauses: Sequence[Clause]) -> bool:
    column_list = next((clause.value for clause in clauses if isinstance(clause.value, ParsedColumnList)), None)
    return (
        column_list is not None
        and not column_list.is_open
        and all(column.declared.type for column in column_list.columns)
    )


def _keys(call: Call, texts: PythonSources) -> tuple[str, ...]:
    cursor = texts.cursor(texts.argument(call.site, "key", call.step.key if call.step else None))
    names = [cursor.name("a column of the key").text]
    while cursor.accept(","):
        names.append(cursor.name("a column of the key").text)
    if not cursor.is_done:
        cursor.raise_unexpected("nothing after the key", fix="write names of columns, as in user_id or user_id, device")
    return tuple(names)


def check_step_arguments(call: Call, texts: PythonSources) -> WaterclockError | None:
    """Return the error for a call of `wc.stateful` without `rows`, `state` or `key`; None if it has all of them."""
    step = call.step
    missing = [name for name in ("rows", "state", "key") if step is not None and not getattr(step, name)]
    if not missing:
        return None
    return texts.site(call.site).refuse(
        "E259", f"wc.stateful has no {', '.join(missing)}",
        why="it reads the rows of one table, by key, and keeps its state in another",
        fix='add it, as in rows="web.clicks", state="web.pending", key="user_id"',
    )  # fmt: skip
