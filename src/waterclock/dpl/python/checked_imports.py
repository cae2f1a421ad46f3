"""Prevents imports of modules in a project's folder that another user of the machine can change."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from waterclock.permissions.project_trust import read_trusted_file


def check_imports_of(root: Path) -> None:
    """Install an import finder that refuses modules of the project at `root` whose files another user can change."""
    found = next((each for each in sys.meta_path if isinstance(each, _ProjectFinder)), None)
    if found is None:
        found = _ProjectFinder()
        finders: list[Any] = sys.meta_path
        finders.insert(finders.index(PathFinder) if PathFinder in finders else len(finders), found)
    found.roots.add(root)


class _ProjectFinder:
    """An import finder that finds modules as Python does, and loads modules of projects with `_ProjectLoader`."""

    def __init__(self) -> None:
        self.roots: set[Path] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification of a module. A source module of a project gets a `_ProjectLoader`."""
        spec = PathFinder.find_spec(name, path, target)
        root = None if spec is None or spec.origin is None or not spec.has_location else self._root_of(spec.origin)
        if spec is None or spec.origin is None or root is None:
            return spec
        if isinstance(spec.loader, SourceFileLoader):
            spec.loader, spec.cached = _ProjectLoader(name, spec.origin, root), None
        else:
            read_trusted_file(Path(spec.origin), root)  # a library or compiled module, which Python opens by its name
        return spec

    def _root_of(self, origin: str) -> Path | None:
        path = Path(origin)
        if "site-packages" in path.parts:
            return None
        return next((root for root in self.roots if path.is_relative_to(root)), None)


class _ProjectLoader(SourceFileLoader):
    """A module loader that checks who can change a source file, and ignores compiled files next to it."""

    def __init__(self, name: str, path: str, root: Path) -> None:
        super().__init__(name, path)
        self._root = root

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of a module. Raises E930 if another user can change its file."""
        path = self.get_filename(fullname)
        return self.source_to_code(read_trusted_file(Path(path), self._root), path)
