"""Builds the commands that a user can run to install optional libraries into the current Python environment."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import sys
from pathlib import Path

_REQUIREMENT_OF_EXTRA = re.compile(r"^(?P<requirement>[^;]+?)\s*;\s*extra == ['\"](?P<extra>[^'\"]+)['\"]$")


def extra_install_command(extra: str) -> str:
    """Return the command that installs the libraries of an extra (`waterclock[extra]`) into the current environment.

    The command names the libraries themselves, in the versions that this release needs. It never names Waterclock: a
    package index may have another project of that name.
    """
    from importlib import metadata  # needed in errors only

    try:
        listed = metadata.requires("waterclock") or ()
    except metadata.PackageNotFoundError:  # run from a folder of sources
        return f"pip install '.[{extra}]' in the checkout of Waterclock"
    found = map(_REQUIREMENT_OF_EXTRA.match, listed)
    return package_install_command(
        *(each["requirement"] for each in found if each is not None and each["extra"] == extra)
    )


def package_install_command(*requirements: str) -> str:
    """Return the command that installs packages into the current environment, even if it is not activated."""
    return f"{_install_command()} {' '.join(map(shlex.quote, requirements))}"


def _install_command() -> str:
    if importlib.util.find_spec("pip") is None:  # an environment made by uv
        return f"uv pip install --python {shlex.quote(sys.prefix)}"
    pip = shutil.which("pip")
    if pip is not None and Path(pip).parent == Path(sys.executable).parent:
        return "pip install"
    return f"{shlex.quote(sys.executable)} -m pip install"
