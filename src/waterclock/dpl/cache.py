"""The flow of a big project as it was last compiled, kept in the user's cache: nothing that was read then has changed.

What it is kept under is a digest of all that compiling depends on: this code, the files' texts, the environment and
what the connectors can do. A kept flow that is damaged, foreign or of other code is none.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile

from waterclock.flow.capabilities import Capabilities
from waterclock.flow.declarations import Flow, Secret
from waterclock.secrets import Secrets

_WORTH_IT = 100  # tables; below that compiling is done in the time that the look would take
_KEPT_SECONDS = 30 * 86_400
_SOURCES = ("dpl", "flow", "temporal", "timelabel")


def key_of(root: Path, env: str, texts: Mapping[str, str], capabilities: Mapping[str, Capabilities]) -> bytes:
    """Return the digest of all that a flow is compiled from; `texts` are its files with the project's own, by name."""
    digest = hashlib.sha256()
    parts = [str(root), env, *_code(), *(text for item in sorted(texts.items()) for text in item)]
    for part in (*parts, *(_can(name, capabilities[name]) for name in sorted(capabilities))):
        said = part.encode()
        digest.update(len(said).to_bytes(8))
        digest.update(said)
    return digest.digest()


def remembered(root: Path, env: str, key: bytes, secrets: Path) -> Flow | None:
    """Return the flow that was kept under `key`; None where there is none, or where a secret of it is gone since."""
    with suppress(Exception):  # whatever is wrong with what was kept, the project's files say it all again
        path = _path(root, env)
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_uid != os.getuid() or file.read(len(key)) != key:
                return None
            flow = pickle.load(file)  # noqa: S301 - this user's own file, written below
        if isinstance(flow, Flow) and all(Secrets.of(secrets).has(name) for name in _secrets_of(flow)):
            return flow
    return None


def remember(root: Path, env: str, key: bytes, flow: Flow) -> None:
    """Keep a big project's flow in place of what was kept of it before; where that cannot be, nothing is kept."""
    if len(flow.tables) < _WORTH_IT:
        return
    with suppress(Exception):
        path = _path(root, env)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=path.parent, delete=False) as file:
            try:
                file.write(key + pickle.dumps(flow, pickle.HIGHEST_PROTOCOL))
                file.close()
                Path(file.name).replace(path)
            finally:
                Path(file.name).unlink(missing_ok=True)
        for old in path.parent.iterdir():
            if old.stat().st_mtime < time.time() - _KEPT_SECONDS:
                old.unlink()


def _path(root: Path, env: str) -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = hashlib.sha256(f"{root} {env}".encode()).hexdigest()[:32]
    return folder / "waterclock" / "flows" / name


def _code() -> Iterator[str]:
    """Return what tells this code from any other: Python, sqlglot, and each file of ours that compiling runs."""
    yield sys.version
    sqlglot = find_spec("sqlglot")
    ours = Path(__file__).parents[1]
    files = [*ours.glob("*.py"), *(file for folder in _SOURCES for file in (ours / folder).rglob("*.py"))]
    if sqlglot is not None and sqlglot.origin is not None:
        files += Path(sqlglot.origin).parent.glob("*.py")
    for file in sorted(files):
        stat = file.stat()
        yield f"{file} {stat.st_mtime_ns} {stat.st_size}"


def _can(name: str, can: Capabilities) -> str:
    options = (can.connection_options, can.collect_options, can.publish_options)
    sets = (sorted(each.value for each in can.collects), sorted(each.value for each in can.publishes))
    return repr((name, can.type, [sorted(each.items()) for each in options], sets, can.takes_query))


def _secrets_of(flow: Flow) -> Iterator[str]:
    for connection in flow.connections.values():
        yield from (value.name for value in connection.options.values() if isinstance(value, Secret))
