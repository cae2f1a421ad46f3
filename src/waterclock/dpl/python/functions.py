"""Describes decorated Python functions: their inputs, which parameters declare, their SQL types and fingerprints."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from datetime import date, datetime
from pathlib import Path
from types import CodeType, FunctionType, NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from waterclock.dpl.python.decorators import Call, ReadCall, VariableCall
from waterclock.dpl.python.fingerprints import End
from waterclock.dpl.python.positions import PythonText
from waterclock.dpl.python.sources import PythonSources
from waterclock.dpl.query.names_in_query import FLAT
from waterclock.dpl.resolve.fingerprints import digest
from waterclock.dpl.resolve.former_code import replace_marked_table_names
from waterclock.dpl.syntax.cursor import parse_at
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import Clause
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Argument, Flat, PythonFunction, Read
from waterclock.flow.enums import ReadKind
from waterclock.flow.stateful_steps import StatefulStep
from waterclock.similar_names import did_you_mean
from waterclock.timelabel.duration import Duration, parse_duration
from waterclock.timelabel.window import Window

SQL_TYPES = {
    bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "STRING", bytes: "BINARY", date: "DATE",
    datetime: "TIMESTAMP",
}  # fmt: skip


class FunctionDefinition:
    """A decorated function, with its definition in the syntax tree of its file. `span` is its position."""

    def __init__(self, function: FunctionType, texts: PythonSources, span: Span) -> None:
        self.function = function
        self.inner = inspect.unwrap(function)
        self.path = Path(self.inner.__code__.co_filename)
        self.text: PythonText | None = texts.file_text(str(self.path))
        self.node = self.text.definition(self.inner.__code__) if self.text else None
        self.span = self.text.span(self.node).source.span(0) if self.text and self.node else span

    def parameters(self) -> Iterator[tuple[inspect.Parameter, Span]]:
        """Yield the parameters with their spans."""
        nodes = {}
        if self.node is not None:
            given = self.node.args
            plain = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            nodes = {one.arg: one for one in plain if one is not None}
        for parameter in inspect.signature(self.function).parameters.values():
            node = nodes.get(parameter.name)
            yield parameter, self.text.span(node) if node is not None and self.text else self.span


def find_function(call: Call, texts: PythonSources, span: Span) -> FunctionDefinition:
    """Return the function that a call decorates. Raises E252 if a batch could not load it by its file and name."""
    found = call.function
    if not isinstance(found, FunctionType):
        raise span.refuse(
            "E252", f"there is no function below the decorator, but {_describe_object(found)}",
            why="a batch calls a function with its inputs", fix="write def name(...): below the decorator",
        )  # fmt: skip
    inner = inspect.unwrap(found)
    name = found.__name__
    if not isinstance(inner, FunctionType) or name == "<lambda>" or "<locals>" in found.__qualname__:
        raise span.refuse(
            "E252", f"{found.__qualname__.replace('.<locals>', '')} is defined inside another function",
            why="a batch finds a function by its file and its name",
            fix="write it at the file's top level (a decorator of your own needs functools.wraps)",
        )  # fmt: skip
    if inner.__code__.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        why = "a batch calls it, and takes the value that it returns"
        raise span.refuse("E252", f"{name} is async", why=why, fix="leave async out")
    there = inner.__globals__.get(name)
    is_there = callable(there) and getattr(inspect.unwrap(there), "__code__", None) is inner.__code__
    if not is_there:
        raise span.refuse(
            "E252", f"{name} is assigned again later in the file",
            why="a batch finds a function by its file and its name", fix="give each function a different name",
        )  # fmt: skip
    function = FunctionDefinition(found, texts, span)
    changed = next(_list_loop_variables(function, call), None)
    if changed is not None:
        raise span.refuse(
            "E252", f"{name} uses {changed}, which the loop around it changes",
            why="batches call the function after the file has run, so for all tables of the loop with the last value",
            fix='write a function for each table, or a query: as_=f"SELECT ..."',
        )  # fmt: skip
    return function


def _list_loop_variables(found: FunctionDefinition, call: Call) -> Iterator[str]:
    """Yield the global names that a function's body uses and that a loop around its declaration changes."""
    if found.text is None or found.node is None or call.site.file != str(found.path):
        return
    shared = set(_list_global_names(found.inner.__code__))
    body = [node for statement in found.node.body for node in ast.walk(statement)]
    used = dict.fromkeys(node.id for node in body if isinstance(node, ast.Name) and node.id in shared)
    for loop in ast.walk(found.text.tree):
        if isinstance(loop, ast.For | ast.While) and loop.lineno <= call.site.line <= (loop.end_lineno or 0):
            assigned = set(_list_assigned_names(loop))
            yield from (name for name in used if name in assigned)


def _list_global_names(code: CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes that a code object and its inner functions use."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _list_global_names(inner)


def _list_assigned_names(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            yield child.id
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _list_assigned_names(child)


def transform_function(
    call: Call, texts: PythonSources, span: Span, declarations: frozenset[End], errors: list[WaterclockError]
) -> tuple[PythonFunction, list[Clause]]:
    """Return the Python function of a transform, and a clause `ARGUMENT name` with the position of each parameter.

    Errors in parameters are appended to `errors`.
    """
    found = find_function(call, texts, span)
    arguments: list[Argument] = []
    clauses: list[Clause] = []
    for parameter, at in found.parameters():
        try:
            argument, place = _argument(parameter, at, found, texts)
        except WaterclockError as error:
            errors.append(error)
            continue
        arguments.append(argument)
        clauses.append(Clause(f"ARGUMENT {parameter.name}", argument, place))
    return describe_function(found, texts, tuple(arguments), declarations), clauses


def describe_function(
    found: FunctionDefinition,
    texts: PythonSources,
    arguments: tuple[Argument, ...],
    declarations: frozenset[End],
    step: StatefulStep | None = None,
) -> PythonFunction:
    """Build the description of a Python function, from which a batch loads it, with its fingerprint.

    `declarations` are the end positions of the calls in its file that declare statements.
    """
    name = found.function.__name__
    if found.text is None or found.node is None:
        raise found.span.refuse(
            "E252", f"{name} is not a function of this project",
            why="a batch finds a function by its file and its name", fix="write a function here that calls it",
        )  # fmt: skip
    shapes = texts.fingerprints.shapes_of(found.node, found.text.tree, found.path, declared=declarations)
    return PythonFunction(
        file=found.text.source.file,
        name=name,
        arguments=arguments,
        source=_source_text(found.text, found.node),
        place=found.span.place,
        fingerprint=digest(replace_marked_table_names(shapes, {})),
        shapes=shapes,
        step=step,
    )


def sql_type(annotation: object, found: FunctionDefinition) -> str | None:
    """Return the Spark SQL type for an annotation, such as BIGINT for `int | None`; None if there is no such type."""
    resolved = _resolve_annotation(annotation, found.function)
    if get_origin(resolved) in {Union, UnionType}:
        inner = [one for one in get_args(resolved) if one is not NoneType]
        resolved = inner[0] if len(inner) == 1 else None
    return SQL_TYPES.get(resolved) if isinstance(resolved, type) else None


def _argument(
    parameter: inspect.Parameter, at: Span, found: FunctionDefinition, texts: PythonSources
) -> tuple[Argument, Span]:
    default = parameter.default
    name = parameter.name
    if parameter.kind not in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
        raise _parameter_error(parameter, at)
    if isinstance(default, ReadCall):
        return _read_call_argument(name, default, at, texts)
    if isinstance(default, VariableCall):
        place, text = texts.positional(default.site, 0, default.name, at)
        return Argument(name, variable=text), place.span(0, len(text) or 1)
    if default is parameter.empty and _is_window(parameter, found):
        return Argument(name, is_window=True), at
    raise _parameter_error(parameter, at, is_window=_is_window(parameter, found))


def _read_call_argument(name: str, read_call: ReadCall, at: Span, texts: PythonSources) -> tuple[Argument, Span]:
    source, _ = texts.positional(read_call.site, 0, read_call.table, at)
    table, place = texts.table_name(source)
    if not isinstance(read_call.hidden, bool):
        raise texts.site(read_call.site, at).refuse(
            "E251", f"hidden is {read_call.hidden!r}, not True or False", fix="write hidden=True, or leave it out"
        )
    if read_call.word == FLAT:
        if not isinstance(read_call.span, bool):
            raise texts.site(read_call.site, at).refuse(
                "E251", f"exact is {read_call.span!r}, not True or False", fix="write exact=True, or leave it out"
            )
        return Argument(name, flat=Flat(Read(table), is_exact=read_call.span), with_hidden=read_call.hidden), place
    kind = ReadKind[read_call.word]
    if kind not in {ReadKind.PAST, ReadKind.UNTIL}:
        return Argument(name, read=Read(table, kind), with_hidden=read_call.hidden), place
    span_source, text = texts.positional(read_call.site, 1, read_call.span, at)
    duration: Duration = parse_at(span_source.span(0, len(text) or 1), lambda: parse_duration(text))
    return Argument(name, read=Read(table, kind, duration), with_hidden=read_call.hidden), place


def _is_window(parameter: inspect.Parameter, found: FunctionDefinition) -> bool:
    if parameter.annotation is parameter.empty:
        return parameter.name == "window"
    resolved = _resolve_annotation(parameter.annotation, found.function)
    if isinstance(resolved, str):  # the type is imported only below TYPE_CHECKING
        return resolved.rpartition(".")[2] == Window.__name__
    return resolved is Window


def _resolve_annotation(annotation: object, function: Callable[..., Any]) -> object:
    """Return the value of an annotation; the annotation itself if its text cannot be evaluated at run time."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, inspect.unwrap(function).__globals__)  # noqa: S307  Python would do the same
    except Exception:  # noqa: BLE001  the type is imported only below TYPE_CHECKING
        return annotation


def _parameter_error(parameter: inspect.Parameter, at: Span, *, is_window: bool = False) -> WaterclockError:
    name, kind = parameter.name, parameter.kind
    if kind not in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
        stars = "*" if kind is parameter.VAR_POSITIONAL else "**" if kind is parameter.VAR_KEYWORD else ""
        why = "a batch passes each parameter by name"
        return at.refuse("E253", f"parameter {stars}{name} is not supported", why=why, fix="name each parameter")
    if parameter.default is None and is_window:
        fix = f"write it after a star and without a default: *, {name}: wc.Window"
    elif parameter.default is not parameter.empty:
        fix = f'write the value inside the function, or {name}=wc.var("{name}") with {name} below [vars]'
    else:
        fix = did_you_mean(name, ["window"]) or (
            f'write {name}=wc.table("schema.name"), {name}=wc.var("name") or {name}: wc.Window'
        )
    why = "a batch passes only inputs, values of [vars] and the window"
    return at.refuse("E253", f"parameter {name} is not an input, a variable or the window", why=why, fix=fix)


def _source_text(text: PythonText, node: ast.FunctionDef) -> str:
    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    return "\n".join(text.source.text.split("\n")[first - 1 : node.end_lineno])


def _describe_object(found: object) -> str:
    return f"the class {found.__name__}" if isinstance(found, type) else f"an object of type {type(found).__name__}"
