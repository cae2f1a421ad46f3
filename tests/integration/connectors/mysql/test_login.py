"""Authentication with a MariaDB server in both directions: by passwords that change meanwhile, and by certificates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import mariadb
from tests.authority import Authority
from waterclock.connectors.interface import Collector
from waterclock.engine.connections import Connections
from waterclock.errors import WaterclockError
from waterclock.flow.about import About
from waterclock.flow.declarations import Connection, Place, Secret, Unit, Value
from waterclock.secrets.reader import SecretPlaces, Secrets

pytestmark = pytest.mark.slow

HERE = Place("waterclock.toml", 1, 1)
UNIT = Unit("ops", "orders", None, {}, HERE)


@pytest.fixture
def server() -> Iterator[mariadb.Server]:
    found = mariadb.server()
    found.run("CREATE OR REPLACE USER rotating@'%' IDENTIFIED BY 'old w\u00f6rd'")
    found.run("CREATE OR REPLACE USER certified@'%' REQUIRE SUBJECT '/CN=certified'")
    yield found
    found.run("DROP USER rotating@'%', certified@'%'")


def opened(folder: Path, **options: Value | Secret) -> Connections:
    said = Connection("ops", "mysql", options, About(), HERE)
    return Connections(folder, folder / "archive", {"ops": said}, Secrets.from_places(SecretPlaces(folder / "secrets")))


def keep(folder: Path, value: str) -> None:
    (folder / "secrets").mkdir(exist_ok=True)
    (folder / "secrets" / "password").write_text(f"{value}\n")


def clock(connections: Connections) -> bool:
    collector: Collector = connections.collector("ops")
    at = collector.clock(UNIT)
    return at is not None and at.tzinfo is not None


def test_a_password_that_changes_is_the_new_one_at_the_next_batch(server: mariadb.Server, tmp_path: Path) -> None:
    keep(tmp_path, "old w\u00f6rd")
    connections = opened(tmp_path, url=server.url("information_schema", "rotating"), password=Secret("password"))
    assert clock(connections)
    server.run("SET PASSWORD FOR rotating@'%' = PASSWORD('new w\u00f6rd')")
    with pytest.raises(WaterclockError) as raised:
        clock(connections)
    assert (raised.value.code, raised.value.transient) == ("E810", False)
    assert raised.value.what == "the database of the connection ops refuses the login"
    assert "connections.ops" in str(raised.value.fix)
    assert "w\u00f6rd" not in str(raised.value)
    keep(tmp_path, "new w\u00f6rd")
    assert clock(connections)


@pytest.fixture
def certain(server: mariadb.Server, tmp_path: Path) -> Iterator[mariadb.Server]:
    """Yield the server with a certificate, which requires client certificates."""
    authority = Authority(tmp_path)
    authority.sign("server", "127.0.0.1", owner=server.folder, user="root")
    authority.sign("client", "certified")
    server.stop()
    server.more = tuple(
        f"--ssl-{name}={server.folder / file}"
        for name, file in (("ca", "ca.crt"), ("cert", "server.crt"), ("key", "server.key"))
    )
    server.start()
    yield server
    server.stop()
    server.more = ()
    server.start()


def test_a_client_certificate_replaces_the_password(certain: mariadb.Server, tmp_path: Path) -> None:
    url = certain.url("information_schema", "certified")
    files = {"certificate": "client.crt", "key": "client.key", "ca": "ca.crt"}
    assert clock(opened(tmp_path, url=url, **files))
    with pytest.raises(WaterclockError, match="E810"):
        clock(opened(tmp_path, url=url))  # no other login is accepted
    Authority(tmp_path / "others")
    with pytest.raises(WaterclockError, match="certificate verify failed"):
        clock(opened(tmp_path, url=url, **files | {"ca": "others/ca.crt"}))
    with pytest.raises(WaterclockError, match="has no key"):
        clock(opened(tmp_path, url=url, certificate="client.crt"))
