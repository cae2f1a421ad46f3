"""Builds the settings of a branch: an environment that inherits the settings of another one, and borrows its tables.

A branch is declared by `from` in its section, or was created by `waterclock branch create`, which records its base in a
file of the branch's folder.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BRANCHES = ".branches"
"""The folder of the project with the storage of each branch that declares none."""
BRANCH_FILE = "branch.json"
"""The file in the storage of a branch with its base, its tick and the end of its lease."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_MOST_BYTES = 64_000_000
# a branch has its own places, and sends nothing to others unless its own section enables it
_OWN_SETTINGS = frozenset({"storage", "ledger", "publish", "alerts", "openlineage", "catalog", "from_", "sandbox"})


def is_branch_name(name: str) -> bool:
    """Return whether a name can be that of a branch: it is also the name of a folder."""
    return _NAME.fullmatch(name) is not None and ".." not in name


def is_branch_file(file: Path) -> bool:
    """Return whether a local file can be that of a branch. A device or a pipe never ends. Raises OSError."""
    status = file.stat()
    return stat.S_ISREG(status.st_mode) and status.st_size <= _MOST_BYTES


def recorded_base(root: Path, env: str | None) -> str | None:
    """Return the environment from which `branch create` made the branch `env`, or None if it made no such branch."""
    if env is None or not is_branch_name(env):
        return None
    file = root / BRANCHES / env / BRANCH_FILE
    try:
        if not is_branch_file(file):
            return None
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    base = found.get("from") if isinstance(found, dict) else None
    return base if isinstance(base, str) else None


def recorded_branches(root: Path) -> list[str]:
    """Return the names of the branches that `branch create` made in a project, sorted; also those with a damaged file.

    A folder without that file is no branch: it may be anything.
    """
    try:
        names = sorted(path.name for path in (root / BRANCHES).iterdir())
    except OSError:
        return []
    return [name for name in names if is_branch_name(name) and (root / BRANCHES / name / BRANCH_FILE).is_file()]


def recorded_chain(root: Path, env: str | None) -> dict[str, str]:
    """Map a branch that `branch create` made to its base, and each base that is such a branch to its own base."""
    found: dict[str, str] = {}
    while env is not None and env not in found and (base := recorded_base(root, env)) is not None:
        found[env] = base
        env = base
    return found


def inherited_settings(name: str, own: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a branch: its own, and for all others those of its base.

    `own` has only the settings that the branch's section has. Connections and variables are inherited one by one. The
    options of a sandbox replace those of the connection with its name.
    """
    found = {key: value for key, value in base.items() if key not in _OWN_SETTINGS} | dict(own)
    for key in ("connections", "vars", "pools", "roles", "users"):
        found[key] = {**base[key], **own.get(key, {})}
    found["connections"].update(own.get("sandbox", {}))
    if "storage" not in own:
        found["storage"] = f"{BRANCHES}/{name}"
        found["storage_options"] = own.get("storage_options", {})
    return found


def chain_of_bases(name: str, bases: Mapping[str, str | None]) -> list[str] | None:
    """Return a branch and the environments that it borrows from, directly or not. None if it borrows from itself."""
    chain = [name]
    while (base := bases.get(chain[-1])) is not None:
        if base in chain:
            return None
        chain.append(base)
    return chain
