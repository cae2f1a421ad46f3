"""Finds connectors: those of Waterclock, and those that other packages register as entry points."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType

from waterclock.connectors.interface import Connector
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import Capabilities
from waterclock.similar_names import did_you_mean

GROUP = "waterclock.connectors"

BUILT_IN: Mapping[str, str] = MappingProxyType(
    {
        "duckdb": "waterclock.connectors.duckdb.connector:CONNECTOR",
        "files": "waterclock.connectors.files.connector:CONNECTOR",
        "firebird": "waterclock.connectors.firebird.connector:CONNECTOR",
        "forms": "waterclock.connectors.forms.connector:CONNECTOR",
        "kafka": "waterclock.connectors.kafka.connector:CONNECTOR",
        "keys": "waterclock.connectors.keys.connector:CONNECTOR",
        "mysql": "waterclock.connectors.mysql.connector:CONNECTOR",
        "postgres": "waterclock.connectors.postgres.connector:CONNECTOR",
        "receiver": "waterclock.connectors.receiver.connector:CONNECTOR",
        "rest": "waterclock.connectors.rest.connector:CONNECTOR",
        "sqlite": "waterclock.connectors.sqlite.connector:CONNECTOR",
        "waterclock": "waterclock.connectors.waterclock.connector:CONNECTOR",
    }
)


def connector(type_name: str) -> Connector:
    """Return the connector of a type.

    Raises E801 for an unknown type, E802 if a connector cannot be loaded or two packages register the type.
    """
    points = _entry_points()
    if type_name not in points:
        raise WaterclockError(
            "E801",
            f"unknown connection type {type_name}",
            why=f"the types are {', '.join(sorted(points))}; packages with the entry point {GROUP} add others",
            fix=did_you_mean(type_name, points),
        )
    return _load_connector(points[type_name])


def capabilities() -> Mapping[str, Capabilities]:
    """Return the capabilities of each connection type, by its name.

    Every connector's module is imported. None of them imports anything heavy.
    """
    return {name: _load_connector(point).capabilities for name, point in sorted(_entry_points().items())}


@cache
def _entry_points() -> Mapping[str, EntryPoint]:
    points = {name: EntryPoint(name=name, value=value, group=GROUP) for name, value in BUILT_IN.items()}
    for point in entry_points(group=GROUP):
        known = points.setdefault(point.name, point)
        if known.value != point.value:
            raise WaterclockError(
                "E802",
                f"two connectors are called {point.name}",
                why=f"{known.value} and {point.value} both register the type",
                fix="uninstall one of the packages",
            )
    return points


@cache
def _load_connector(point: EntryPoint) -> Connector:
    try:
        loaded: Connector = point.load()
    except (ImportError, AttributeError) as error:
        raise WaterclockError(
            "E802",
            f"the connector {point.name} cannot be loaded",
            where=point.value,
            why=f"{type(error).__name__}: {error}",
            fix="install the requirements of its package, or uninstall it",
        ) from error
    return loaded
