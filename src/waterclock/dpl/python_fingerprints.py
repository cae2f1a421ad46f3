"""Names of Python code: a function's syntax tree, what it uses of its file, and the project's modules it imports.

Comments, spacing and docstrings do not count, nor do declarations, which are compared as what they declare. What is
imported by other means than import statements is not seen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from waterclock.dpl.fingerprints import digest
from waterclock.dpl.python_places import Site

_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
_Imports = ast.Import | ast.ImportFrom
_LEFT_OUT = frozenset({"ctx", "kind", "type_comment", "type_ignores"})


def python_fingerprint(
    function: ast.FunctionDef, tree: ast.Module, path: Path, root: Path, *, declared: Iterable[Site] = ()
) -> str:
    """Name the code of a function of the file at `path`; the calls at `declared` are left out of its decorators."""
    ends = {(site.end_line, site.end_column) for site in declared}
    decorators = [one for one in function.decorator_list if (one.end_lineno, one.end_col_offset) not in ends]
    bare = ast.FunctionDef(**{**dict(ast.iter_fields(function)), "decorator_list": decorators})
    reach = _Reach(root)
    bindings = _bindings(tree)
    parts = [_shape(bare)]
    seen: set[int] = {id(function)}
    waiting: list[ast.AST] = [bare]
    while waiting:
        node = waiting.pop()
        reach.follow(node, path)
        for name in sorted(_names(node)):
            for statement in bindings.get(name, ()):
                if id(statement) not in seen:
                    seen.add(id(statement))
                    parts.append(_shape(statement))
                    waiting.append(statement)
    parts[1:] = sorted(parts[1:])
    return digest([*parts, *(f"{name}={shape}" for name, shape in sorted(reach.modules.items()))])


@dataclass(slots=True)
class _Reach:
    """The project's modules that code imports, and those that these import, by path with their shapes."""

    root: Path
    modules: dict[str, str] = field(default_factory=dict)

    def follow(self, node: ast.AST, path: Path) -> None:
        """Add the modules that the import statements inside of `node` name."""
        for found in ast.walk(node):
            if isinstance(found, _Imports):
                for file in self._files(found, path):
                    self._add(file)

    def _add(self, file: Path) -> None:
        name = file.relative_to(self.root).as_posix()
        if name in self.modules:
            return
        try:
            tree = ast.parse(file.read_bytes())
        except SyntaxError:
            return  # importing it fails, which is reported
        self.modules[name] = _shape(tree)
        self.follow(tree, file)

    def _files(self, node: _Imports, path: Path) -> Iterator[Path]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from self._module(alias.name.split("."))
            return
        package: list[str] = []
        if node.level:
            package = [*path.relative_to(self.root).parts[: -node.level]]
        package += node.module.split(".") if node.module else []
        yield from self._module(package)
        for alias in node.names:
            yield from self._module([*package, alias.name])

    def _module(self, names: list[str]) -> Iterator[Path]:
        for count in range(1, len(names) + 1):
            stem = self.root.joinpath(*names[:count])
            for file in (stem / "__init__.py", stem.with_name(f"{stem.name}.py")):
                if file.is_file():
                    yield file


def _bindings(tree: ast.Module) -> dict[str, list[ast.stmt]]:
    """Give the statements at a module's top that bind each name."""
    found: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        for name in _bound(statement):
            found.setdefault(name, []).append(statement)
    return found


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, _Imports):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0]
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    if not isinstance(node, _Scope):
        for child in ast.iter_child_nodes(node):
            yield from _bound(child)


def _names(node: ast.AST) -> set[str]:
    return {found.id for found in ast.walk(node) if isinstance(found, ast.Name) and isinstance(found.ctx, ast.Load)}


def _shape(node: ast.AST) -> str:
    """Write a syntax tree without places, docstrings and empty fields, so that Python's own versions write it alike."""
    parts = [type(node).__name__]
    for name, value in ast.iter_fields(node):
        if name in _LEFT_OUT or value is None or value == []:
            continue
        parts.append(f"{name}={_value(_undocumented(node, value) if name == 'body' else value)}")
    return f"({' '.join(parts)})"


def _value(value: object) -> str:
    if isinstance(value, ast.AST):
        return _shape(value)
    if isinstance(value, list):
        return f"[{' '.join(_value(one) for one in value)}]"
    return repr(value)


def _undocumented(node: ast.AST, body: object) -> object:
    """Leave a docstring out; a body of nothing else is as good as `pass`."""
    is_documented = isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    if not is_documented or not isinstance(body, list):
        return body
    first = body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return body[1:] or [ast.Pass()]
    return body
