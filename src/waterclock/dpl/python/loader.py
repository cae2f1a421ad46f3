"""Runs a project's Python file as a module, isolated from other files and from earlier and later runs."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from waterclock.dpl.python.checked_imports import check_imports_of
from waterclock.permissions.project_trust import read_trusted_file

_PREFIX = "waterclock_file_"
_NEVER_REMOVED = sys.stdlib_module_names | {"waterclock", "__main__"}
_lock = threading.RLock()


def run_file(path: Path, root: Path) -> ModuleType:
    """Run a Python file and return its module; `root` must be on `sys.path` for imports from the project.

    The module is removed from `sys.modules` afterwards, so that its objects are pickled by value and Spark's workers do
    not need the file. `from .x import y` imports the file next to it.
    Raises E930 if another user can change the file, and the exceptions of the file itself.
    """
    check_imports_of(root)
    spec = _module_spec(path, root)
    module = importlib.util.module_from_spec(spec)
    source = importlib.util.decode_source(read_trusted_file(path, root))
    code = compile(source, str(path), "exec", dont_inherit=True)
    with _lock:
        sys.modules[spec.name] = module  # dataclasses look their own module up while the file runs
        try:
            exec(code, module.__dict__)  # noqa: S102  the user's own file
        finally:
            sys.modules.pop(spec.name, None)
    return module


@contextmanager
def isolate_imports(root: Path) -> Iterator[None]:
    """Put `root` first on `sys.path`; on exit, restore the path and remove the imported modules of the project.

    Output of the project's files is redirected to stderr, because a command's own output may be JSON.
    """
    with _lock:
        saved_modules = {name: sys.modules.pop(name) for name in _modules_of(root)}
        path, writes = list(sys.path), sys.dont_write_bytecode
        sys.path.insert(0, str(root))
        sys.dont_write_bytecode = True
        importlib.invalidate_caches()
        try:
            with redirect_stdout(sys.stderr):
                yield
        finally:
            sys.path[:], sys.dont_write_bytecode = path, writes
            for name in _modules_of(root):
                del sys.modules[name]
            sys.modules.update(saved_modules)


@contextmanager
def import_from(root: Path) -> Iterator[None]:
    """Put `root` first on `sys.path` within the block. Blocks of several threads may overlap."""
    sys.path.insert(0, str(root))
    try:
        yield
    finally:
        with suppress(ValueError):  # the user's code may have changed the path
            sys.path.remove(str(root))


def forget(root: Path) -> None:
    """Remove the modules of the project at `root` from `sys.modules`, so that the next import loads them again.

    Modules of the same names from other projects are removed too.
    """
    for name in _modules_of(root):
        del sys.modules[name]
    importlib.invalidate_caches()


def _module_spec(path: Path, root: Path) -> ModuleSpec:
    folders = path.relative_to(root).parts[:-1] if path.is_relative_to(root) else ()
    package = [*folders] if all(folder.isidentifier() for folder in folders) else []
    stem = "".join(sign if sign.isalnum() else "_" for sign in path.stem)
    spec = importlib.util.spec_from_file_location(".".join([*package, _PREFIX + stem]), path)
    if spec is None:
        raise ImportError(f"{path.name} is no Python file")
    return spec


def _modules_of(root: Path) -> list[str]:
    """Return the names of imported modules named like files and folders in `root`, also modules of other projects."""
    names = {entry.name.removesuffix(".py") for entry in root.iterdir() if entry.is_dir() or entry.suffix == ".py"}
    names -= _NEVER_REMOVED
    return [name for name, module in [*sys.modules.items()] if name.partition(".")[0] in names and _is_plain(module)]


def _is_plain(module: ModuleType) -> bool:
    """Return whether a module does not belong to an installed package: its file is elsewhere, or it has no file."""
    file = getattr(module, "__file__", None)
    return file is None or "site-packages" not in Path(file).parts


def project_modules(root: Path) -> list[ModuleType]:
    """Return the imported modules whose files are below `root`, except installed packages."""
    modules = [module for module in [*sys.modules.values()] if getattr(module, "__file__", None)]
    return [module for module in modules if _is_plain(module) and Path(str(module.__file__)).is_relative_to(root)]
