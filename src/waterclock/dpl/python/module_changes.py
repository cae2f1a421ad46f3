"""Finds the project's modules whose values a statement changes by calls while its file is loaded.

In `rates.load(2)`, the function `load` of the module `rates` may set values that other functions of `rates` use. The
bodies of called functions are followed through all modules of the project.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Imports = ast.Import | ast.ImportFrom
_Target = tuple[Path, Sequence[str]]  # a file, and a name in it with its attributes


@dataclass(frozen=True, slots=True)
class ModuleNames:
    """The top-level names of a project's module.

    `imported` maps names to the full names that they import. `defined` maps names to the other statements that bind
    them. `changes` returns the module's names that the functions of a statement may change.
    """

    imported: Mapping[str, Sequence[Sequence[str]]]
    defined: Mapping[str, Sequence[ast.stmt]]
    changes: Callable[[ast.AST], Iterable[str]]


def full_names(node: Imports, package: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each name that an import binds, with its full name. `package` precedes the names of a relative import."""
    for alias in node.names:
        names = alias.name.split(".")
        if isinstance(node, ast.ImportFrom):
            yield alias.asname or alias.name, [*package, *(node.module.split(".") if node.module else ()), alias.name]
        elif alias.asname:
            yield alias.asname, names
        else:
            yield names[0], names[:1]


class ModuleChanges:
    """Follows calls through the modules of a project.

    `names_of` returns the names of a module. `module_of` returns the file of the longest module that a full name begins
    with, and the remaining names; None outside of the project.
    """

    def __init__(
        self, names_of: Callable[[Path], ModuleNames], module_of: Callable[[Sequence[str]], _Target | None]
    ) -> None:
        self._names_of = names_of
        self._module_of = module_of

    def files_changed_by(self, nodes: Iterable[ast.AST], path: Path) -> set[Path]:
        """Return the other modules whose values the calls in `nodes` of the file at `path` may change.

        `nodes` run at once, while the file is loaded. A function that a called function mentions counts as called.
        """
        changed, seen = set[Path](), set[int]()
        waiting = [*self._targets_of_calls(nodes, path, changed)]
        while waiting:
            file, names = waiting.pop()
            module = self._names_of(file)
            waiting += self._imported_targets(module, names)
            for statement in module.defined.get(names[0], ()):
                if id(statement) in seen:
                    continue
                seen.add(id(statement))
                if any(name in module.defined or name in module.imported for name in module.changes(statement)):
                    changed.add(file)
                inside = [*ast.walk(statement)]
                self._add_changed_parts(inside, file, changed)
                waiting += self._mentioned(inside, file)
        return changed - {path}

    def _targets_of_calls(self, nodes: Iterable[ast.AST], path: Path, changed: set[Path]) -> Iterator[_Target]:
        """Yield what calls and decorators use, and add the modules of values whose methods statements call."""
        nodes = [*nodes]
        self._add_changed_parts(nodes, path, changed)
        for node in nodes:
            used: list[ast.expr] = []
            if isinstance(node, ast.Call):
                used = [node.func, *node.args, *(each.value for each in node.keywords)]
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                used = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
            for expression in used:
                yield from self._target(expression, path)

    def _mentioned(self, nodes: Iterable[ast.AST], path: Path) -> Iterator[_Target]:
        for node in nodes:
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                yield from self._target(node, path)

    def _add_changed_parts(self, nodes: Iterable[ast.AST], path: Path, changed: set[Path]) -> None:
        """Add modules whose values are changed from outside: `rates.DAY = 1`, `rates.RATES.update(usd=2)`."""
        for node in nodes:
            is_set = isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load)
            called = node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
            if not is_set and not isinstance(called, ast.Attribute):
                continue
            for file, names in self._target(node if called is None else called, path):
                if file != path and (is_set or (len(names) > 1 and self._is_value(file, names[0]))):
                    changed.add(file)

    def _is_value(self, file: Path, name: str) -> bool:
        defined = self._names_of(file).defined.get(name, ())
        return any(not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) for each in defined)

    def _target(self, node: ast.AST, path: Path) -> Iterator[_Target]:
        """Yield the place of an expression such as `rates.load` or `RATES["usd"].update` in the project's modules."""
        names: list[str] = []
        while isinstance(node, ast.Subscript | ast.Attribute):
            if isinstance(node, ast.Attribute):
                names.insert(0, node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return
        module = self._names_of(path)
        if node.id in module.defined:
            yield path, [node.id, *names]
        yield from self._imported_targets(module, [node.id, *names])

    def _imported_targets(self, module: ModuleNames, names: Sequence[str]) -> Iterator[_Target]:
        for found in module.imported.get(names[0], ()):
            if (target := self._module_of([*found, *names[1:]])) is not None and target[1]:
                yield target
