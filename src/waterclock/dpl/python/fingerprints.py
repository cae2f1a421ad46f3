"""Fingerprints Python functions by the syntax trees of their code.

They cover the function, the statements of its file that bind names it uses, and the project's modules that these
statements import. Comments, spacing, docstrings and calls that declare statements do not count. The text of such
a syntax tree is called a shape.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from waterclock.dpl.python.aliases import find_aliases, with_aliased_names
from waterclock.dpl.python.module_changes import ModuleChanges, ModuleNames, full_names
from waterclock.dpl.resolve.former_code import mark_table_name

_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
_Imports = ast.Import | ast.ImportFrom
_LEFT_OUT = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
_STAR = "*"  # the name that `from rates import *` binds


End = tuple[int | None, int | None]


class PythonFingerprints:
    """Computes the fingerprints of Python functions of the project at `root`. Each file is parsed only once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._modules: dict[Path, _Module] = {}
        self._find_bindings: dict[Path, dict[str, list[_CodePiece]]] = {}
        self._names: dict[Path, ModuleNames] = {}
        self._changes = ModuleChanges(self._names_of, self._module_of)

    def shapes_of(
        self, function: ast.FunctionDef, tree: ast.Module, path: Path, *, declared: Collection[End] = ()
    ) -> tuple[str, ...]:
        """Return the shapes (texts of syntax trees) of a function in the file at `path`, and of all code that it uses.

        In the first shape, names of tables that the parameters read are marked for `replace_marked_table_names`.
        `declared` are the end positions of calls that declare statements; decorators that end there are left out.
        """
        own, pieces = self._collect_pieces(function, tree, path, declared)
        used = sorted(piece.shape for piece in pieces if piece is not own)
        used += _list_orders(self._find_bindings[path], (piece for piece in pieces if piece is not own))
        modules = self._collect_module_shapes(path, pieces)
        whole = _shape(_with_marks(own.node))
        return whole, *used, *(f"{name}={shape}" for name, shape in sorted(modules.items()))

    def code_of(self, function: ast.FunctionDef, tree: ast.Module, path: Path) -> Iterator[tuple[str, ast.AST]]:
        """Yield the syntax trees that a function's fingerprint covers, each with its file's path in the project."""
        _, pieces = self._collect_pieces(function, tree, path, ())
        yield from ((path.relative_to(self.root).as_posix(), piece.node) for piece in pieces)
        for name in self._collect_module_shapes(path, pieces):
            with suppress(SyntaxError):
                yield name, ast.parse((self.root / name).read_bytes())

    def _collect_pieces(
        self, function: ast.FunctionDef, tree: ast.Module, path: Path, declared: Collection[End]
    ) -> tuple[_CodePiece, list[_CodePiece]]:
        """Return a function without the decorators in `declared`, and a list of it and all statements that it uses."""
        if path not in self._find_bindings:
            self._find_bindings[path] = _find_bindings(tree, self._list_values(tree, path))
            self._add_changed_modules(tree, path)
        bindings = self._find_bindings[path]
        decorators = [one for one in function.decorator_list if (one.end_lineno, one.end_col_offset) not in declared]
        own = _CodePiece(ast.FunctionDef(**{**dict(ast.iter_fields(function)), "decorator_list": decorators}))
        stars = bindings.get(_STAR, [])  # they may bind any name
        pieces: dict[int, _CodePiece] = {id(function): own, **{id(piece.node): piece for piece in stars}}
        waiting = [own]
        while waiting:
            using = waiting.pop()
            for name in (*using.names, *self._collect_module_shapes(path, [using])):
                for piece in bindings.get(name, ()):
                    if id(piece.node) not in pieces:
                        pieces[id(piece.node)] = piece
                        waiting.append(piece)
        return own, list(pieces.values())

    def _add_changed_modules(self, tree: ast.Module, path: Path) -> None:
        """Add the statements that change another module by a call, under that module's path in the project."""
        self._names[path] = self._build_names(tree, path)
        for statement in tree.body:
            if isinstance(statement, _Imports) or _is_main_block(statement):
                continue
            nodes = [*_list_nodes_run_at_once(statement)]
            for file in sorted(self._changes.files_changed_by(nodes, path)):
                changed = self._find_bindings[path].setdefault(file.relative_to(self.root).as_posix(), [])
                changed.append(_CodePiece(statement))

    def _names_of(self, file: Path) -> ModuleNames:
        if file not in self._names:
            try:
                tree = ast.parse(file.read_bytes())
            except SyntaxError:
                tree = ast.Module([], [])  # importing it fails, which is reported
            self._names[file] = self._build_names(tree, file)
        return self._names[file]

    def _build_names(self, tree: ast.Module, path: Path) -> ModuleNames:
        imports = [node for node in tree.body if isinstance(node, _Imports)]
        imported: dict[str, list[list[str]]] = {}
        for node in (node for node in ast.walk(tree) if isinstance(node, _Imports)):
            for name, whole in full_names(node, self._package_of(node, path)):
                imported.setdefault(name, []).append(whole)
        defined: dict[str, list[ast.stmt]] = {}
        for statement in tree.body:
            nodes = [*_list_nodes_run_at_once(statement)]
            parts = {name for node in nodes if _is_changed_part(node) for name in _root_name(node)}
            for name in () if isinstance(statement, _Imports) else _list_bound_names(statement):
                if name not in parts or name not in imported:  # `rates.DAY = 1` does not define `rates`
                    defined.setdefault(name, []).append(statement)
        modules = {name for node in imports for name in _list_bound_names(node)} - {*self._list_values(tree, path)}
        declaring = {name for node in imports if _is_of_waterclock(node) for name in _list_bound_names(node)}
        return ModuleNames(
            imported, defined, lambda statement: _list_names_changed_in_functions(statement, declaring, modules)
        )

    def _package_of(self, node: _Imports, path: Path) -> list[str]:
        level = node.level if isinstance(node, ast.ImportFrom) else 0
        return [*path.relative_to(self.root).parts[:-level]] if level else []

    def _module_of(self, names: Sequence[str]) -> tuple[Path, Sequence[str]] | None:
        found = [(file, count) for count in range(1, len(names) + 1) for file in self._files_at(names[:count])]
        return (found[-1][0], names[found[-1][1] :]) if found else None

    def _collect_module_shapes(self, path: Path, pieces: Iterable[_CodePiece]) -> dict[str, str]:
        """Map each project file that code imports, directly or through other modules, to its shape."""
        found: dict[str, str] = {}
        waiting = [file for piece in pieces for node in piece.imports for file in self._imported_files(node, path)]
        while waiting:
            file = waiting.pop()
            name = file.relative_to(self.root).as_posix()
            if name not in found:
                module = self._module(file)
                found[name] = module.shape
                waiting.extend(module.files)
        return found

    def _module(self, file: Path) -> _Module:
        if file not in self._modules:
            try:
                whole = _CodePiece(ast.parse(file.read_bytes()))
            except SyntaxError:
                self._modules[file] = _Module("", ())  # importing it fails, which is reported
            else:
                files = [found for node in whole.imports for found in self._imported_files(node, file)]
                self._modules[file] = _Module(whole.shape, tuple(files))
        return self._modules[file]

    def _imported_files(self, node: _Imports, path: Path) -> Iterator[Path]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from self._files_of(alias.name.split("."))
            return
        package = [*self._package_of(node, path), *(node.module.split(".") if node.module else ())]
        yield from self._files_of(package)
        for alias in node.names:
            yield from self._files_of([*package, alias.name])

    def _list_values(self, tree: ast.Module, path: Path) -> Iterator[str]:
        """Yield the names that a file imports from modules of the project, except names of modules."""
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and any(self._imported_files(node, path)):
                for alias in node.names:
                    alone = ast.ImportFrom(node.module, [alias], node.level)
                    module = ast.ImportFrom(node.module, [], node.level)
                    if {*self._imported_files(alone, path)} == {*self._imported_files(module, path)}:
                        yield alias.asname or alias.name

    def _files_of(self, names: list[str]) -> Iterator[Path]:
        for count in range(1, len(names) + 1):
            yield from self._files_at(names[:count])

    def _files_at(self, names: Sequence[str]) -> Iterator[Path]:
        stem = self.root.joinpath(*names)
        for file in (stem / "__init__.py", stem.with_name(f"{stem.name}.py")):
            if file.is_file():
                yield file


@dataclass(frozen=True, slots=True)
class _Module:
    """A module of the project: its shape, and the project's modules that it imports."""

    shape: str
    files: tuple[Path, ...]


class _CodePiece:
    """A statement or module: its shape, the names that it uses, and its import statements."""

    def __init__(self, node: ast.AST) -> None:
        self.node = node

    @cached_property
    def shape(self) -> str:
        return _shape(self.node)

    @cached_property
    def names(self) -> frozenset[str]:
        found = (node for node in ast.walk(self.node) if isinstance(node, ast.Name))
        return frozenset(node.id for node in found if isinstance(node.ctx, ast.Load))

    def uses_at_once(self, name: str) -> bool:
        """Return whether the code uses a name while the file is loaded, rather than in a later call."""
        return not isinstance(self.node, _Scope) and name in self.names

    @cached_property
    def imports(self) -> tuple[_Imports, ...]:
        return tuple(node for node in ast.walk(self.node) if isinstance(node, _Imports))


def _list_orders(bindings: Mapping[str, list[_CodePiece]], used: Iterable[_CodePiece]) -> Iterator[str]:
    """Yield a text for each name that several statements bind: the shapes that bind and use it, in the file's order.

    No text is needed if this order is the sorted order, in which fingerprints list shapes.
    """
    statements = sorted(
        used, key=lambda piece: (getattr(piece.node, "lineno", 0), getattr(piece.node, "col_offset", 0))
    )
    for name, bound in sorted(bindings.items()):
        shapes = [piece.shape for piece in statements if piece in bound or piece.uses_at_once(name)]
        if len(bound) > 1 and shapes != sorted(shapes):
            yield f"{name}: {' '.join(shapes)}"


def _find_bindings(tree: ast.Module, values: Iterable[str]) -> dict[str, list[_CodePiece]]:
    """Map each name to the top-level statements of a module that bind it or may change its value.

    `values` are the imported names that are not modules: calling a function of a module does not change the module.
    """
    imports = [node for node in tree.body if isinstance(node, _Imports)]
    modules = {name for node in imports for name in _list_bound_names(node)} - {*values}
    declaring = {name for node in imports if _is_of_waterclock(node) for name in _list_bound_names(node)}
    aliases = find_aliases(node for statement in tree.body for node in _list_nodes_run_at_once(statement))
    pieces: list[tuple[_CodePiece, list[str]]] = []
    for statement in tree.body:
        if _is_main_block(statement):
            continue
        called = [name for name in _list_called_names(statement, declaring) if name not in modules]
        nodes = _list_nodes_run_at_once(statement)
        changed = [*called, *(name for node in nodes if _is_changed_part(node) for name in _root_name(node))]
        pieces.append((_CodePiece(statement), [*_list_bound_names(statement), *with_aliased_names(changed, aliases)]))
    direct = _group_by_name(pieces)
    by_call = {
        id(piece): [*_list_names_changed_in_functions(piece.node, declaring, modules)]
        for piece, _ in pieces
        if not isinstance(piece.node, _Imports)
    }
    return _group_by_name(
        (piece, [*names, *with_aliased_names(_list_names_changed_by_calls(piece.node, direct, by_call), aliases)])
        for piece, names in pieces
    )


def _is_main_block(statement: ast.stmt) -> bool:
    """Return whether a statement does not run in a project, but only if its file is run as a program."""
    return isinstance(statement, ast.If) and ast.unparse(statement.test) == "__name__ == '__main__'"


def _list_nodes_run_at_once(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a statement that run while the file is loaded: not those in functions and classes."""
    yield node
    if not isinstance(node, _Scope):
        for child in ast.iter_child_nodes(node):
            yield from _list_nodes_run_at_once(child)


def _group_by_name(pieces: Iterable[tuple[_CodePiece, list[str]]]) -> dict[str, list[_CodePiece]]:
    found: dict[str, list[_CodePiece]] = {}
    for piece, names in pieces:
        for name in dict.fromkeys(names):
            found.setdefault(name, []).append(piece)
    return found


def _list_names_changed_by_calls(
    statement: ast.AST, bindings: Mapping[str, list[_CodePiece]], by_call: Mapping[int, Sequence[str]]
) -> Iterator[str]:
    """Yield the globals that functions of the file may change when a statement calls them while the file is loaded.

    `by_call` has the names that functions change, by the piece that defines them. Functions that a called one mentions
    count as called.
    """
    waiting, seen = [*_list_callees(statement)], set[int]()
    while waiting:
        for piece in bindings.get(waiting.pop(), ()):
            if id(piece) not in seen:
                seen.add(id(piece))
                yield from (name for name in by_call.get(id(piece), ()) if name in bindings)
                waiting += piece.names


def _list_callees(node: ast.AST) -> Iterator[str]:
    """Yield the first names of what a statement calls at once: not in the body of a function that it defines."""
    if isinstance(node, ast.Call):
        yield from _root_name(node.func)
    children = ast.iter_child_nodes(node)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield from (name for decorator in node.decorator_list for name in _root_name(decorator))
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        children = iter([*node.decorator_list, node.args])
    elif isinstance(node, ast.Lambda):
        children = iter([node.args])
    for child in children:
        yield from _list_callees(child)


def _list_names_changed_in_functions(
    statement: ast.AST, declaring: Collection[str], modules: Collection[str]
) -> Iterator[str]:
    """Yield the names from outside of a statement's functions whose values these functions may change."""
    for scope in ast.walk(statement):
        if not isinstance(scope, _Scope):
            continue
        nodes = [node for node in ast.walk(scope) if node is not scope]
        shared = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
        own = {node.arg for node in nodes if isinstance(node, ast.arg)}
        own |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        stored = {name for node in nodes if _is_changed_part(node) for name in _root_name(node)}
        called = {name for node in nodes for name in _list_names_of_call(node, declaring)} - {*modules}
        yield from sorted(shared | {*with_aliased_names(stored | called, find_aliases(nodes))} - own)


def _list_bound_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, _Imports):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0]
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
        yield from (name for inner in ast.walk(node) if isinstance(inner, ast.Global) for name in inner.names)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif _is_changed_part(node):
        yield from _root_name(node)
    if not isinstance(node, _Scope):
        for child in ast.iter_child_nodes(node):
            yield from _list_bound_names(child)


def _is_of_waterclock(node: _Imports) -> bool:
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    return any(name.partition(".")[0] == "waterclock" for name in names)


def _is_changed_part(node: ast.AST) -> bool:
    """Return whether code sets or deletes this item or attribute of a value."""
    return isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load)


def _list_called_names(node: ast.AST, declaring: Collection[str]) -> Iterator[str]:
    """Yield the names whose values calls in a statement may change, as in `rates.update(...)` or `shuffle(names)`.

    Calls of names in `declaring` only declare statements, and change no values.
    """
    yield from _list_names_of_call(node, declaring)
    if not isinstance(node, _Scope):
        for child in ast.iter_child_nodes(node):
            yield from _list_called_names(child, declaring)


def _list_names_of_call(node: ast.AST, declaring: Collection[str]) -> Iterator[str]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        call = node.value
        called = [*_root_name(call.func)]
        if not {*called} & {*declaring}:
            yield from called if isinstance(call.func, ast.Attribute) else ()
            yield from (
                name for given in (*call.args, *(it.value for it in call.keywords)) for name in _root_name(given)
            )


def _root_name(node: ast.AST) -> Iterator[str]:
    """Yield the first name of an expression such as `rates["usd"].day`; nothing if it does not begin with a name."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id


def _with_marks(node: ast.AST) -> ast.AST:
    """Mark the table names in a function's defaults, such as `orders=wc.table("shop.orders")`; return the function."""
    if not isinstance(node, ast.FunctionDef):
        return node
    arguments = deepcopy(node.args)
    for default in (*arguments.defaults, *arguments.kw_defaults):
        if not isinstance(default, ast.Call):
            continue
        named = (keyword.value for keyword in default.keywords if keyword.arg == "name")
        first = default.args[0] if default.args else next(named, None)
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            first.value = mark_table_name(first.value)
    return ast.FunctionDef(**{**dict(ast.iter_fields(node)), "args": arguments})


def _shape(node: ast.AST) -> str:
    """Return the text of a syntax tree without positions, docstrings and empty fields, for any Python version."""
    parts = [type(node).__name__]
    for name, value in ast.iter_fields(node):
        if name in _LEFT_OUT or value is None or value == []:
            continue
        parts.append(f"{name}={_field_text(_strip_docstring(node, value) if name == 'body' else value)}")
    return f"({' '.join(parts)})"


def _field_text(value: object) -> str:
    if isinstance(value, ast.AST):
        return _shape(value)
    if isinstance(value, list):
        return f"[{' '.join(_field_text(one) for one in value)}]"
    return repr(value)


def _strip_docstring(node: ast.AST, body: object) -> object:
    """Return a body without its docstring; a body that is only a docstring becomes `pass`."""
    is_documented = isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    if not is_documented or not isinstance(body, list):
        return body
    first = body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return body[1:] or [ast.Pass()]
    return body
