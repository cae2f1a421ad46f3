from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Secret
from waterclock.secrets.reader import SecretPlaces, Secrets, variable_of


def test_the_variable_of_a_secret_is_its_name_in_capitals() -> None:
    assert variable_of("ops/password") == "WATERCLOCK_SECRET_OPS_PASSWORD"
    assert variable_of("a.b-c/1") == "WATERCLOCK_SECRET_A_B_C_1"


def test_the_environment_precedes_the_file(tmp_path: Path) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops/password").write_text("from file\n", encoding="utf-8")
    assert Secrets(SecretPlaces(tmp_path), {}).read("ops/password") == "from file"
    assert (
        Secrets(SecretPlaces(tmp_path), {"WATERCLOCK_SECRET_OPS_PASSWORD": "from env"}).read("ops/password")
        == "from env"
    )


def test_a_missing_secret_is_reported_with_the_searched_places(tmp_path: Path) -> None:
    secrets = Secrets(SecretPlaces(tmp_path / "secrets"), {})
    assert not secrets.has("ops/password")
    with pytest.raises(WaterclockError, match="does not resolve") as raised:
        secrets.read("ops/password")
    assert "WATERCLOCK_SECRET_OPS_PASSWORD" in str(raised.value)
    assert "secrets/ops/password" in str(raised.value)


@pytest.mark.parametrize("broken", ["file", "folder", "text"])
def test_a_file_that_cannot_be_read_is_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    file = tmp_path / "ops/password"
    file.parent.mkdir()
    file.write_bytes(b"caf\xe9")
    if broken != "text":  # root may read all files, so no permission can be removed
        refused = PermissionError(13, "Permission denied")

        def refuse(*_: object, **__: object) -> None:
            raise refused

        monkeypatch.setattr(Path, "read_text", refuse)
        if broken == "folder":
            monkeypatch.setattr(Path, "is_file", refuse)
    secrets = Secrets(SecretPlaces(tmp_path), {})
    assert secrets.has("ops/password")
    with pytest.raises(WaterclockError, match="the file of secret ops/password cannot be read") as raised:
        secrets.read("ops/password")
    assert (raised.value.code, raised.value.where) == ("E225", str(file))
    assert raised.value.why == ("it is not UTF-8 text" if broken == "text" else "Permission denied")


@pytest.mark.parametrize("name", ["../outside", "/etc/hostname", "a/../../outside"])
def test_a_file_outside_of_the_folder_is_no_secret(name: str, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("x", encoding="utf-8")
    (tmp_path / "in/a").mkdir(parents=True)
    assert not Secrets(SecretPlaces(tmp_path / "in"), {}).has(name)


def test_a_setting_is_a_plain_value_or_the_value_of_its_secret(tmp_path: Path) -> None:
    secrets = Secrets(SecretPlaces(tmp_path), {"WATERCLOCK_SECRET_TOKEN": "s3cret"})
    assert secrets.value_of("plain") == "plain"
    assert secrets.value_of(7) == 7
    assert secrets.value_of(Secret("token")) == "s3cret"
