from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from waterclock.alerts.targets import check_target, notify, target_errors
from waterclock.errors import WaterclockError
from waterclock.extras import extra_install_command
from waterclock.flow.alerts import Target, TargetKind
from waterclock.flow.declarations import Secret
from waterclock.secrets.reader import SecretPlaces, Secrets


def test_a_target_with_a_missing_library_is_reported_with_the_install_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    target = Target("chat", TargetKind.APPRISE, "json://here", place="waterclock.toml:9:1")
    (error,) = target_errors([target], Secrets(SecretPlaces(tmp_path), {}))
    assert (error.code, error.where) == ("E915", "waterclock.toml:9:1")
    assert error.fix == extra_install_command("alerts")


def test_a_secret_that_holds_no_address_is_refused_without_being_shown(tmp_path: Path) -> None:
    target = Target("desk", TargetKind.WEBHOOK, Secret("desk"))
    with pytest.raises(WaterclockError) as refused:
        check_target(target, Secrets(SecretPlaces(tmp_path), {"WATERCLOCK_SECRET_DESK": "s3cret"}))
    assert refused.value.code == "E914"
    assert "s3cret" not in str(refused.value)


def test_a_mention_in_an_error_notifies_no_channel() -> None:
    class Chat:
        def notify(self, **sent: Any) -> bool:
            self.sent = sent
            return True

    mentions = "@everyone a@here (@Channel) <!channel> <@U123> <@&7> <#C1> @ann"
    plain = "raw.orders@2026-11-09 of ann@example.com: 3 < 4 <a>"
    chat, alert = Chat(), {"kind": "test", "severity": "error", "telling": "firing"}
    notify(chat, {"title": mentions, "text": f"{plain} {mentions}", "alerts": [alert]})  # type: ignore[arg-type]
    escaped = "@_everyone a@_here (@_Channel) <_!channel> <_@_U123> <_@&7> <_#C1> @_ann".replace(
        "_", "\N{ZERO WIDTH SPACE}"
    )
    assert (chat.sent["title"], chat.sent["body"]) == (escaped, f"{plain} {escaped}")
