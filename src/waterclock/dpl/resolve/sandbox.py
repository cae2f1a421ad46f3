"""Checks the sandbox of a branch: the connections to which its publishes deliver."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from waterclock.dpl.config.environment import Environment
from waterclock.dpl.config.model import Config, flat_options, option_value
from waterclock.dpl.syntax.statements import ParsedOptions, Statement
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Connection, Options

_ADDRESS = frozenset({"url", "path", "schema", "database", "servers", "endpoint"})
_USER = re.compile(r"//[^/@]*@")


def check_sandbox(
    connections: Mapping[str, Connection], statements: Mapping[str, Statement], config: Config, root: Path
) -> Iterator[WaterclockError]:
    """Yield E479 for a sandbox of an environment that is not a branch, and for one that is a destination of its base.

    Such a destination is a connection, and a file in the storage. Links of local paths are followed. Other addresses
    are compared as they are written: two of them may be those of one server.
    """
    section = ("env", config.env, "sandbox")
    if config.environment.sandbox and not config.bases:
        yield config.place(section).refuse(
            "E479",
            f"{config.env} cannot have a sandbox",
            why="it is not a branch, so its publishes deliver to its own connections",
            fix=f"remove it, or add `from` to [env.{config.env}]",
        )
        return
    for name in config.environment.sandbox:
        if name not in connections or name not in statements:
            continue
        own = _destination(connections[name].type, connections[name].options, root)
        used = (
            (other, base)
            for base, environment in config.bases
            for other in (name, *statements)
            if _of_base(statements[other], environment.connections, root) == own
        )
        stored = (base for base, environment in config.bases if _is_stored(own.get("path"), environment, root))
        if found := next(used, None):
            yield config.place((*section, name)).refuse(
                "E479",
                f"the sandbox {name} is the connection {found[0]} of {found[1]}",
                why=f"its address is the same, so the branch would deliver to a destination of {found[1]}",
                fix="name a destination that only the branch uses",
            )
        elif base := next(stored, None):
            yield config.place((*section, name)).refuse(
                "E479",
                f"the sandbox {name} is in the storage of {base}",
                why=f"the branch would write to files of {base}",
                fix="name a destination that only the branch uses",
            )


def _is_stored(path: object, environment: Environment, root: Path) -> bool:
    """Return whether a path is that of an environment's ledger, or in its storage."""
    if not isinstance(path, str):
        return False
    ledger = environment.ledger
    file = ledger.removeprefix("sqlite:///") if isinstance(ledger, str) and ledger.startswith("sqlite:///") else None
    return f"{path}/".startswith(f"{_plain(environment.storage, root)}/") or (
        file is not None and path == _plain(file, root)
    )


def _of_base(statement: Statement, connections: Mapping[str, Mapping[str, object]], root: Path) -> Mapping[str, object]:
    """Return the type and the options of a connection in another environment."""
    declared = statement.value("OPTIONS", ParsedOptions)
    clause = statement.clause("TYPE")
    overlay = flat_options(dict(connections.get(statement.name, {})))
    type_name = str(overlay.pop("type", clause.value if clause else "")).lower()
    values = {key: value for key, raw in overlay.items() if (value := option_value(raw)) is not None}
    return _destination(type_name, {**(declared.values if declared else {}), **values}, root)


def _destination(type_name: str, options: Options, root: Path) -> Mapping[str, object]:
    """Return what an address depends on: the type and the options in `_ADDRESS`, without the user in a URL."""
    address = {key: value for key, value in options.items() if key in _ADDRESS}
    return {
        "type": type_name,
        **{
            key: (_plain(value, root) if key == "path" else _USER.sub("//", value)) if isinstance(value, str) else value
            for key, value in address.items()
        },
    }


def _plain(path: str, root: Path) -> str:
    """Return the path of a local file without links, or a URL without its user."""
    return _USER.sub("//", path).rstrip("/") if "://" in path else os.path.realpath(root / path)
