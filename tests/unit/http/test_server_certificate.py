"""Certificates that an HTTPS server accepts at its start, and the reasons for refusing others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.certificates import Authority
from waterclock.errors import WaterclockError
from waterclock.http.server_certificate import Certificate


def test_a_certificate_with_its_key_is_usable_whoever_signed_it(tmp_path: Path) -> None:
    pair = Authority(tmp_path).pair("shop")
    Certificate(pair.certificate, pair.key).require_usable()


def test_the_reason_for_a_refused_certificate_names_the_file(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    shop, other, locked, over = (
        authority.pair("shop"),
        authority.pair("other"),
        authority.pair("locked", password="secret"),
        authority.pair("over", is_over=True),
    )
    folder, text = tmp_path / "folder", tmp_path / "text.pem"
    folder.mkdir()
    text.write_text("no certificate")
    cases = {
        (shop.certificate, other.key): (shop.certificate, f"{other.key} is the key of another certificate"),
        (tmp_path / "no.pem", shop.key): (tmp_path / "no.pem", "No such file or directory"),
        (shop.certificate, tmp_path / "no.key"): (tmp_path / "no.key", "No such file or directory"),
        (folder, shop.key): (folder, "Is a directory"),
        (text, shop.key): (text, "it is not PEM"),
        (shop.key, shop.key): (shop.key, "it is not PEM"),
        (shop.key, shop.certificate): (shop.certificate, "it is a certificate, not a key"),
        (locked.certificate, locked.key): (locked.key, "the private key has a password"),
        (over.certificate, over.key): (over.certificate, "clients would refuse it: certificate has expired"),
    }
    for (file, key), (where, why) in cases.items():
        with pytest.raises(WaterclockError) as refused:
            Certificate(file, key).require_usable()
        assert (refused.value.code, refused.value.where) == ("E944", str(where))
        assert (refused.value.why or "").startswith(why)
        assert refused.value.fix


def test_a_file_that_this_user_may_not_read_is_refused_with_that_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Authority(tmp_path).pair("shop")
    whole = Path.open

    def open_as_another_user(self: Path, mode: str = "r") -> object:
        if self == pair.key:  # root can read every file
            raise PermissionError(13, "Permission denied")
        return whole(self, mode)

    monkeypatch.setattr(Path, "open", open_as_another_user)
    with pytest.raises(WaterclockError) as refused:
        Certificate(pair.certificate, pair.key).require_usable()
    assert (refused.value.code, refused.value.why) == ("E944", "Permission denied")
    assert refused.value.where == str(pair.key)
