"""Authentication with a PostgreSQL server: by passwords that change meanwhile, and by certificates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgres
from tests.authority import Authority
from waterclock.connectors.interface import Collector
from waterclock.engine.connections import Connections
from waterclock.errors import WaterclockError
from waterclock.flow.about import About
from waterclock.flow.declarations import Connection, Place, Secret, Unit, Value
from waterclock.ledger.ledger import Ledger
from waterclock.secrets.reader import SecretPlaces, Secrets

pytestmark = pytest.mark.slow

HERE = Place("waterclock.toml", 1, 1)
UNIT = Unit("ops", "orders", None, {}, HERE)


@pytest.fixture
def server() -> Iterator[postgres.Server]:
    """Yield the server: `rotating` needs a password, `certified` a certificate, and all others are trusted."""
    found = postgres.server()
    rules = found.folder / "data/pg_hba.conf"
    before = rules.read_text()
    rules.write_text(
        "host all rotating 127.0.0.1/32 scram-sha-256\nhostssl all certified 127.0.0.1/32 cert\n"
        f"host all certified 127.0.0.1/32 reject\n{before}"
    )
    for role in ("rotating", "certified"):
        found.run(f"CREATE ROLE {role} LOGIN PASSWORD 'old w0rd'")
        found.run(f"GRANT CREATE ON DATABASE postgres TO {role}")
    found.run("SELECT pg_reload_conf()")
    yield found
    rules.write_text(before)
    for role in ("rotating", "certified"):
        found.run(f"DROP OWNED BY {role}")
        found.run(f"DROP ROLE {role}")
    found.run("ALTER SYSTEM RESET ALL")
    found.run("SELECT pg_reload_conf()")


def opened(folder: Path, **options: Value | Secret) -> Connections:
    said = Connection("ops", "postgres", options, About(), HERE)
    return Connections(folder, folder / "archive", {"ops": said}, Secrets.from_places(SecretPlaces(folder / "secrets")))


def keep(folder: Path, name: str, value: str) -> None:
    (folder / "secrets").mkdir(exist_ok=True)
    (folder / "secrets" / name).write_text(f"{value}\n")


def clock(connections: Connections) -> bool:
    collector: Collector = connections.collector("ops")
    at = collector.clock(UNIT)
    return at is not None and at.tzinfo is not None


def test_a_password_that_changes_is_the_new_one_at_the_next_batch(server: postgres.Server, tmp_path: Path) -> None:
    keep(tmp_path, "password", "old w0rd")
    connections = opened(
        tmp_path, url=f"postgresql://rotating@127.0.0.1:{server.port}/postgres", password=Secret("password")
    )
    assert clock(connections)
    assert connections.collector("ops") is connections.collector("ops")
    server.run("ALTER ROLE rotating PASSWORD 'new w0rd'")
    with pytest.raises(WaterclockError) as raised:
        clock(connections)
    assert (raised.value.code, raised.value.transient) == ("E810", False)
    assert raised.value.what == "the database of the connection ops refuses the login"
    assert "connections.ops" in str(raised.value.fix)
    assert "w0rd" not in str(raised.value)
    keep(tmp_path, "password", "new w0rd")
    assert clock(connections)


def test_a_ledger_outlives_that_its_password_changes(server: postgres.Server, tmp_path: Path) -> None:
    def url() -> str:
        word = (tmp_path / "secrets/password").read_text().strip()
        return f"postgresql://rotating:{word}@127.0.0.1:{server.port}/postgres?schema={schema}"

    schema = server.fresh_schema()
    keep(tmp_path, "password", "old%20w0rd")
    with Ledger.open(url()) as ledger:
        ledger.log_in_by(url)
        first = ledger.sequence()
        server.run("ALTER ROLE rotating PASSWORD 'new w0rd'")
        keep(tmp_path, "password", "new%20w0rd")
        server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'rotating'")
        postgres.wait_until(
            lambda: not server.run("SELECT FROM pg_stat_activity WHERE usename = 'rotating'"), seconds=10
        )
        assert ledger.sequence() == first
    server.run(f"DROP SCHEMA {schema} CASCADE")


def test_a_client_certificate_replaces_the_password(server: postgres.Server, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.sign("server", "127.0.0.1", owner=server.folder)
    authority.sign("client", "certified")
    for setting, file in (("ssl_cert_file", "server.crt"), ("ssl_key_file", "server.key"), ("ssl_ca_file", "ca.crt")):
        server.run(f"ALTER SYSTEM SET {setting} = '{server.folder / file}'")
    server.run("ALTER SYSTEM SET ssl = on")
    server.run("SELECT pg_reload_conf()")
    url = f"postgresql://certified@127.0.0.1:{server.port}/postgres"
    files = {"certificate": "client.crt", "key": "client.key", "ca": "ca.crt"}
    postgres.wait_until(lambda: server.run("SHOW ssl") == [("on",)])
    assert clock(opened(tmp_path, url=url, **files))
    with pytest.raises(WaterclockError, match="E810"):
        clock(opened(tmp_path, url=url))  # no other login is accepted
    Authority(tmp_path / "others")
    with pytest.raises(WaterclockError, match="certificate verify failed"):
        clock(opened(tmp_path, url=url, **files | {"ca": "others/ca.crt"}))
    with pytest.raises(WaterclockError, match="has no key"):
        clock(opened(tmp_path, url=url, certificate="client.crt"))
