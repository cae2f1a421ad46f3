"""Addresses of Firebird databases, and servers that do not respond."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from tests.systems import FirebirdDatabase, setting_of, unit_of
from waterclock.connectors.firebird import database as module
from waterclock.connectors.firebird.collection import FirebirdCollector
from waterclock.connectors.firebird.database import database_of
from waterclock.errors import WaterclockError

UNIT = unit_of("ops", "totals")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("firebird://u:wo/rd@host/x", "%2F"),
        ("firebird://host", "names no database"),
        ("firebird://host:many/x", "malformed"),
        ("firebird://host/x?role=r", "role is unknown"),
        ("mysql://host/x", "begins with mysql"),
    ],
)
def test_an_address_that_cannot_be_read_is_refused_without_its_password(url: str, said: str) -> None:
    with pytest.raises(WaterclockError) as caught:
        database_of(setting_of("ops", Path(), url=url))
    assert caught.value.code == "E803"
    assert said in str(caught.value.why)
    assert "wo/rd" not in caught.value.render()


def test_an_alias_and_a_path_in_a_url_are_distinguished() -> None:
    said = {
        url: database_of(setting_of("ops", Path(), url=url)).dsn
        for url in ("firebird://me@host/ops", "firebird://me@host:3051//data/ops%20db.fdb")
    }
    assert list(said.values()) == ["inet://host:3050/ops", "inet://host:3051//data/ops db.fdb"]


@pytest.mark.slow
def test_a_silent_server_is_given_up(tmp_path: Path) -> None:
    FirebirdDatabase(tmp_path)  # skips the test if there is no client
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"firebird://me@127.0.0.1:{silent.getsockname()[1]}/ops"
        begun = time.monotonic()
        with pytest.raises(WaterclockError) as caught:
            FirebirdCollector(database_of(setting_of("ops", tmp_path, url=url, password="w"))).schema(UNIT)
    assert time.monotonic() - begun < 60
    assert (caught.value.code, caught.value.transient) == ("E810", True)


@pytest.mark.slow
def test_a_server_that_stops_answering_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = FirebirdDatabase(tmp_path)
    monkeypatch.setattr(module, "LONGEST_QUERY_SECONDS", 1)
    process = database.server.process
    assert process is not None

    def ask() -> None:
        with database_of(database.setting).open_for_reading("ops.totals") as connection:
            os.kill(process.pid, signal.SIGSTOP)
            connection.run("SELECT count(*) FROM unrelated")

    try:
        with pytest.raises(WaterclockError, match="rejected") as caught:
            ask()
    finally:
        os.kill(process.pid, signal.SIGCONT)
    assert caught.value.code == "E813"
    assert "the query was not over within 1 seconds" in str(caught.value.why)


@pytest.mark.slow
def test_a_missing_client_library_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = FirebirdDatabase(tmp_path)

    def fail() -> None:
        raise Exception("no libfbclient.so.2")  # noqa: TRY002 - like the driver

    monkeypatch.setattr("firebird.driver.get_api", fail)
    with pytest.raises(WaterclockError, match="library") as caught:
        FirebirdCollector(database_of(database.setting)).schema(UNIT)
    assert caught.value.code == "E825"
