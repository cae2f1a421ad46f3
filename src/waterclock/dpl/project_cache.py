"""Caches large compiled projects in the user's cache folder, and loads them if their inputs have not changed.

The cache key is a digest of this code, the project file, the environment and the capabilities of the connectors. An
entry also stores the patterns of the project's files and a digest of their contents. Entries that are damaged, belong
to another user or were written by other code are ignored.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile

from waterclock.flow.capabilities import Capabilities
from waterclock.permissions.ownership import cache_folder, make_private_folder

_WORTH_IT = 100  # tables; a smaller project compiles as fast as the cache can be checked
_KEPT_SECONDS = 30 * 86_400
_SOURCES = ("dpl", "files", "flow", "masking", "permissions", "secrets", "temporal", "timelabel")


@dataclass(frozen=True, slots=True)
class CachedProject:
    """A cache entry: the patterns of a project's files, a digest of their texts, and the project without the texts."""

    patterns: tuple[str, ...]
    sources: bytes
    project: object


def key_of(root: Path, env: str, text: str, capabilities: Mapping[str, Capabilities]) -> bytes:
    """Return the cache key of a project; `text` is its project file, `env` the requested environment."""
    able = (_describe_capabilities(name, capabilities[name]) for name in sorted(capabilities))
    return _digest([str(root), env, text, *_code(_SOURCES), *able])


def digest_of(sources: Mapping[str, str]) -> bytes:
    """Return a digest of file names and contents."""
    return _digest(part for item in sorted(sources.items()) for part in item)


def _digest(parts: Iterable[str]) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8))
        digest.update(data)
    return digest.digest()


def read_cached_project(root: Path, env: str, key: bytes) -> CachedProject | None:
    """Return the cached project of a root and environment; None if it is not cached with this `key`."""
    with suppress(Exception):  # if the cached file cannot be read, the project is compiled from its files
        with _path(root, env).open("rb") as file:
            if os.fstat(file.fileno()).st_uid != os.getuid() or file.read(len(key)) != key:
                return None
            kept = pickle.load(file)  # noqa: S301 - this user's own file, written below
        return kept if isinstance(kept, CachedProject) else None
    return None


def write_cached_project(root: Path, env: str, key: bytes, kept: CachedProject, tables: int) -> None:
    """Write a project of at least 100 tables to the cache, and replace its older entry. Errors are ignored."""
    if tables < _WORTH_IT:
        return
    with suppress(Exception):
        path = _path(root, env)
        make_private_folder(path.parent)
        with NamedTemporaryFile(dir=path.parent, delete=False) as file:
            try:
                file.write(key + pickle.dumps(kept, pickle.HIGHEST_PROTOCOL))
                file.close()
                Path(file.name).replace(path)
            finally:
                Path(file.name).unlink(missing_ok=True)
        for old in path.parent.iterdir():
            if old.stat().st_mtime < time.time() - _KEPT_SECONDS:
                old.unlink()


def _path(root: Path, env: str) -> Path:
    name = hashlib.sha256(f"{root} {env}".encode()).hexdigest()[:32]
    return cache_folder() / "flows" / name


@cache
def _code(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Return texts that identify the code of this process: Python's version, files of `folders`, sqlglot, pydantic."""
    ours = Path(__file__).parents[1]
    files = [*ours.glob("*.py"), *(file for folder in folders for file in (ours / folder).rglob("*.py"))]
    for parser in map(find_spec, ("sqlglot", "pydantic")):
        if parser is not None and parser.origin is not None:
            files += Path(parser.origin).parent.glob("*.py")
    found = ((file, file.stat()) for file in sorted(files))
    return sys.version, *(f"{file} {stat.st_mtime_ns} {stat.st_size}" for file, stat in found)


def _describe_capabilities(name: str, can: Capabilities) -> str:
    options = (can.connection_options, can.collect_options, can.publish_options)
    sets = (sorted(each.value for each in can.collects), sorted(each.value for each in can.publishes))
    return repr((name, can.type, [sorted(each.items()) for each in options], sets, can.takes_query))
