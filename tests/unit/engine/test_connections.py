"""A connection's secrets are read when a batch opens it, and those of other connections are not."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from tests.systems import unit_of
from waterclock.engine.connections import Connections
from waterclock.errors import WaterclockError
from waterclock.flow.about import About
from waterclock.flow.declarations import Connection, Place, Secret
from waterclock.secrets.reader import SecretPlaces, Secrets

HERE = Place("flows/flow.dpl", 1, 1)


class _Recording(dict[str, str]):
    """An environment that records the names of secrets that are read."""

    def __init__(self, values: Mapping[str, str]) -> None:
        super().__init__(values)
        self.read: list[str] = []

    def get(self, key: str, default: object = None) -> object:  # type: ignore[override]
        self.read.append(key)
        return super().get(key, default)


def test_only_the_secrets_of_the_opened_connection_are_read(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        database.execute("CREATE TABLE orders (id INTEGER)")
    environ = _Recording({"WATERCLOCK_SECRET_SHOP_PATH": "shop.db"})
    declared = {
        name: Connection(name, "sqlite", {"path": Secret(f"{name}/path")}, About(), HERE)
        for name in ("shop", "payroll")
    }
    connections = Connections(tmp_path, tmp_path / "archive", declared, Secrets(SecretPlaces(tmp_path), environ))
    assert connections.collector("shop").schema(unit_of("shop", "orders")) == {"id": "BIGINT"}
    assert environ.read == ["WATERCLOCK_SECRET_SHOP_PATH"]
    with pytest.raises(WaterclockError, match="secret payroll/path does not resolve"):
        connections.collector("payroll")
