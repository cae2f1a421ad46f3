"""Checks that the Python packages that connectors need are installed."""

from __future__ import annotations

import importlib

from waterclock.errors import WaterclockError
from waterclock.extras import extra_install_command, package_install_command
from waterclock.flow.capabilities import Capabilities


def missing_library_error(files: str, package: str, extra: str, *, is_of_workers: bool) -> WaterclockError:
    """Build the error for a missing package that reads or writes a kind of files, such as Excel.

    `is_of_workers`: the package must be installed on the machines of Spark's workers too.
    """
    fix = extra_install_command(extra)
    return WaterclockError(
        "E888",
        f"{files} files need a library",
        why=f"{package} is not installed",
        fix=f"{fix}, on the machines of a cluster's workers too" if is_of_workers else fix,
    )


def require_driver(capabilities: Capabilities, connection: str, where: str | None = None) -> None:
    """Import the driver of a connection. `where` is the place of the connection's declaration.

    Raises E825 with an install command if the driver is not installed.
    """
    driver = capabilities.driver
    if driver is None:
        return
    try:
        importlib.import_module(driver.module)
    except ImportError as error:
        raise WaterclockError(
            "E825",
            f"the connection {connection} needs a driver that is not installed",
            where=where or connection,
            why=f"connections of type {capabilities.type} use {driver.module}: {error}",
            fix=extra_install_command(driver.extra) if driver.extra else package_install_command(driver.package),
        ) from error
