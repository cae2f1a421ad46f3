"""`check` warns of data that other users of this machine can reach."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Shop


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
