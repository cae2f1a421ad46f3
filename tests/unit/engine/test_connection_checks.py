"""The checks of `check --connect`, except Spark, which the end-to-end tests cover."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.systems import unit_of
from waterclock.cli.views.check import CheckOutcome
from waterclock.connectors.registry import capabilities
from waterclock.connectors.sql.privileges import Privilege, SourceLogin, missing_privileges_error
from waterclock.connectors.sqlite.collection import SqliteCollector
from waterclock.connectors.sqlite.delivery import SqliteDeliverer
from waterclock.dpl.project import load_project
from waterclock.engine import connection_checks
from waterclock.engine.connection_checks import ConnectionTest, probes

FLOW = """
CREATE CONNECTION shop TYPE sqlite;
CREATE CONNECTION out TYPE sqlite;
COLLECT shop.orders (id BIGINT) FROM shop.orders EVERY DAY;
COLLECT shop.lost (id BIGINT) FROM shop.lost EVERY DAY;
PUBLISH shop.orders TO out.orders;
"""
TOML = """
[project]
name = "shop"
[env.dev]
storage = "lake"
publish = {publish}
{ledger}
connections.shop = {{ path = "shop.sqlite" }}
connections.out = {{ path = "out.sqlite", create = true }}
"""


def tried(
    root: Path, monkeypatch: pytest.MonkeyPatch, *, publish: bool = True, ledger: str = "", flow: str = FLOW
) -> dict[str, ConnectionTest]:
    monkeypatch.setattr(connection_checks, "_check_spark", lambda _: "starts")
    (root / "flows").mkdir()
    (root / "flows" / "flow.dpl").write_text(flow)
    (root / "waterclock.toml").write_text(TOML.format(publish=str(publish).lower(), ledger=ledger))
    with closing(sqlite3.connect(root / "shop.sqlite")) as database:
        database.execute("CREATE TABLE orders (id INTEGER)")
    found = list(probes(load_project(root, capabilities=capabilities())))
    return {f"{probe.kind} {probe.name}": probe for probe in found}


def test_each_thing_is_tried_whatever_is_wrong_with_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = tried(tmp_path, monkeypatch)
    ledger = f"ledger sqlite:///{tmp_path / 'lake' / 'ledger.db'}"
    assert list(found) == [
        ledger, f"storage {tmp_path / 'lake'}", "source shop.orders", "source shop.lost", "destination out.orders",
        "spark Spark",
    ]  # fmt: skip
    assert found[ledger].description == "does not exist yet: the first run creates it"
    assert not (tmp_path / "lake" / "ledger.db").exists()
    assert found["source shop.orders"].description == "shop.orders answers, 1 column"
    lost = found["source shop.lost"].error
    assert lost is not None
    assert lost.code == "E804"
    assert "orders" in str(lost.why)
    assert found["destination out.orders"].description == "out.orders answers, nothing was delivered yet"
    assert not (tmp_path / "out.sqlite").exists()


def test_a_destination_is_not_checked_if_publish_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = tried(tmp_path, monkeypatch, publish=False)
    assert "publish = false" in found["destination out.orders"].description


def test_an_unreachable_ledger_is_reported_and_the_other_systems_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATERCLOCK_SECRET_LEDGER", "postgresql://ann:secret@127.0.0.1:1/none")
    found = tried(tmp_path, monkeypatch, ledger='ledger = { secret = "ledger" }')
    ledger = found["ledger postgresql://ann:***@127.0.0.1:1/none"].error
    assert ledger is not None
    assert ledger.code == "E423"
    assert found["source shop.orders"].error is None


def test_a_storage_that_cannot_be_written_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lake").write_text("a file is in the way")
    storage = tried(tmp_path, monkeypatch)[f"storage {tmp_path / 'lake'}"].error
    assert storage is not None
    assert storage.code == "E603"


def test_keys_are_derived_without_showing_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_checks, "_check_spark", lambda _: "starts")
    monkeypatch.setenv("WATERCLOCK_SECRET_NEW", "0123456789abcdef" * 4)
    monkeypatch.setenv("WATERCLOCK_SECRET_WEAK", "guess me")
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text('[project]\nname = "x"\n')
    (tmp_path / "flows" / "flow.dpl").write_text(
        "CREATE CONNECTION pii TYPE keys OPTIONS (key.2025 SECRET 'new', key.2026 SECRET 'new', current '2026');"
        "CREATE CONNECTION hr TYPE keys OPTIONS (key.1 SECRET 'weak', current '1');"
    )
    found = {probe.name: probe for probe in probes(load_project(tmp_path, capabilities=capabilities()))}
    assert found["pii"].description == "has the keys 2025, 2026, and 2026 is current"
    error = found["hr"].error
    assert error is not None
    assert error.code == "E924"
    assert "guess me" not in error.render()


WRITES = SourceLogin((Privilege("INSERT", "orders", "ann"),))


@pytest.mark.parametrize(
    ("login", "flow", "warnings"),
    [
        (WRITES, FLOW, ["W206"]),
        (SourceLogin(), FLOW, []),
        (None, FLOW, None),  # a database without logins
        (WRITES, f"{FLOW} PUBLISH shop.lost TO shop.copies;", None),  # the login has to write
    ],
)
def test_a_login_that_only_collects_is_reported_if_it_has_write_privileges(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    login: SourceLogin | None,
    flow: str,
    warnings: list[str] | None,
) -> None:
    monkeypatch.setattr(SqliteCollector, "check_privileges", lambda *_, **__: login)
    found = tried(tmp_path, monkeypatch, flow=flow)
    probe = found.get("login shop")
    assert (None if probe is None else [each.code for each in (probe.warning,) if each]) == warnings
    if probe is None:
        return
    assert probe.is_ok
    if probe.warning is not None:
        assert probe.warning.what == "the login of shop can do more than collect"
        assert probe.warning.where == "flows/flow.dpl:2:19"
        assert probe.warning.fix == "run in the database: REVOKE INSERT ON orders FROM ann"
        told = CheckOutcome(None, "dev", (), 0.0).to_answer(list(found.values())).to_json()
        assert [each["code"] for each in told["warnings"]] == ["W206"]


def test_a_missing_privilege_is_found_before_the_first_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = missing_privileges_error(unit_of("shop", "orders"), WRITES.extra, "collected")

    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(SqliteCollector, "check_privileges", refuse)
    monkeypatch.setattr(SqliteDeliverer, "require_privileges", refuse)
    found = tried(tmp_path, monkeypatch)
    assert found["source shop.orders"].error is error
    assert found["destination out.orders"].error is error
