"""Imports the Python package through which a connector reaches its systems, before it opens one of them."""

from __future__ import annotations

import importlib

from waterclock.errors import WaterclockError
from waterclock.extras import install_extra, install_packages
from waterclock.flow.capabilities import Capabilities


def require_driver(capabilities: Capabilities, connection: str, where: str | None = None) -> None:
    """Import the driver of a connection declared at `where`. Raises  E825, with the command that installs it."""
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
            fix=install_extra(driver.extra) if driver.extra else install_packages(driver.package),
        ) from error
