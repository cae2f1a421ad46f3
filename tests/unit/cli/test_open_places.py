"""`check` warns of data that other users of this machine can reach."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Shop
from waterclock.cli.options import certificate_of


def test_check_warns_of_an_open_storage_until_it_is_closed(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waterclock.permissions.open_places._lets_in", lambda *_: True)
    storage = Path(shop.project.storage)
    storage.chmod(0o755)
    ledger = shop.ledger_file
    ledger.chmod(0o644)
    told = json.loads(shop.ask("check", "--json").stdout)
    assert told["ok"]
    assert {each["where"]: each["code"] for each in told["warnings"]} == {str(storage): "W205", str(ledger): "W205"}
    assert f"`chmod 600 {ledger}`" in " ".join(each["fix"] for each in told["warnings"])
    storage.chmod(0o700)
    ledger.chmod(0o600)
    assert json.loads(shop.ask("check", "--json").stdout)["warnings"] == []


def test_check_warns_of_an_open_vault_of_tokens(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waterclock.permissions.open_places._lets_in", lambda *_: True)
    vault = Path(shop.project.storage) / "vault" / "customer"
    vault.mkdir(parents=True)
    vault.chmod(0o755)
    told = json.loads(shop.ask("check", "--json").stdout)
    assert [(each["code"], each["where"]) for each in told["warnings"]] == [("W205", str(vault))]
    vault.chmod(0o700)
    assert json.loads(shop.ask("check", "--json").stdout)["warnings"] == []


def test_check_warns_of_a_private_key_of_a_connection_or_of_vault(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waterclock.permissions.open_places._lets_in", lambda *_: True)
    keys = [shop.folder.resolve() / name for name in ("client.key", "vault.key")]
    for key in keys:
        key.write_text("")
        key.chmod(0o644)
    settings = shop.folder / "waterclock.toml"
    connection = "url = 'postgresql://h/d', certificate = 'client.crt', key = 'client.key'"
    vault = "url = 'https://vault', auth = 'certificate', certificate = 'vault.crt', key = 'vault.key'"
    settings.write_text(
        settings.read_text().replace(
            "[env.dev]", f"[env.dev]\nconnections.pg = {{ {connection} }}\nvault = {{ {vault} }}", 1
        )
    )
    (shop.folder / "flows" / "pg.dpl").write_text("CREATE CONNECTION pg TYPE postgres;")
    told = json.loads(shop.ask("check", "--json").stdout)
    assert {each["where"] for each in told["warnings"]} >= {str(key) for key in keys}, told
    for key in keys:
        key.chmod(0o600)
    told = json.loads(shop.ask("check", "--json").stdout)
    assert not {each["where"] for each in told["warnings"]} & {str(key) for key in keys}


def test_a_server_warns_of_a_private_key_that_others_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("waterclock.permissions.open_places._lets_in", lambda *_: True)
    key = tmp_path / "pages.key"
    key.write_text("")
    for mode, said in ((0o644, "W205 every user of this machine can reach"), (0o600, "")):
        key.chmod(mode)
        certificate_of(tmp_path / "pages.crt", key)
        assert capsys.readouterr().err.startswith(said)
