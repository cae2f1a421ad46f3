"""Resolves the setting `catalog` of an environment: the metastore in which its tables are entered."""

from __future__ import annotations

import importlib.util

from waterclock.dpl.config.model import Config
from waterclock.errors import WaterclockError
from waterclock.extras import extra_install_command
from waterclock.flow.metastore import Metastore, parse_metastore


def resolve_catalog(config: Config, errors: list[WaterclockError]) -> Metastore | None:
    """Return the metastore of the environment, or None without one. Append all errors of the setting to `errors`."""
    address = config.environment.catalog
    if address is None:
        return None
    found, place = parse_metastore(address), config.place(("env", config.env, "catalog"))
    if found is None:
        errors.append(
            place.refuse(
                "E242", f"{address!r} is not the address of a Hive metastore", fix='write it as "thrift://host:9083"'
            )
        )
    elif importlib.util.find_spec("thriftpy2") is None:
        why = "it is not installed in this Python environment"
        fix = extra_install_command("metastore")
        errors.append(place.refuse("E242", "a catalog needs the library thriftpy2", why=why, fix=fix))
    return found
