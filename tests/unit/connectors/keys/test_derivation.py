from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import pytest

from waterclock.connectors.keys.derivation import derive_keys
from waterclock.errors import WaterclockError
from waterclock.flow.about import About
from waterclock.flow.declarations import Connection, Place, Secret, Value
from waterclock.secrets.reader import SecretPlaces, Secrets

NEW, OLD = "n3w-" + "0123456789abcdef" * 3, "0ld-" + "0123456789abcdef" * 3


def connections(*names: str, current: str = "2026") -> dict[str, Connection]:
    options: dict[str, Value | Secret] = {"key.2025": Secret("old"), "key.2026": Secret("new"), "current": current}
    return {name: Connection(name, "keys", options, About(), Place("a.dpl", 1, 1)) for name in names}


def secrets(**values: str) -> Secrets:
    return Secrets(SecretPlaces(Path()), {f"WATERCLOCK_SECRET_{name.upper()}": value for name, value in values.items()})


def hkdf(secret: str, info: str) -> bytes:
    """Derive a key as RFC 5869 defines it, with SHA-256, no salt and one block."""
    extracted = hmac.digest(bytes(32), secret.encode(), hashlib.sha256)
    return hmac.digest(extracted, info.encode() + b"\x01", hashlib.sha256)


def test_a_key_is_derived_per_purpose_and_connection_as_in_the_hkdf_rfc() -> None:
    keys = derive_keys(connections("pii", "hr"), secrets(new=NEW, old=OLD))
    assert set(keys) == {"pii", "pii/2025", "pii/2026", "hr", "hr/2025", "hr/2026"}
    for name, secret in (("pii/2025", OLD), ("pii/2026", NEW), ("hr/2026", NEW)):
        of, _, key = name.partition("/")
        made = keys[name]
        assert made.name == key
        found = {purpose: getattr(made, purpose) for purpose in ("hash", "encrypt", "vector", "noise")}
        assert found == {purpose: hkdf(secret, f"waterclock/{of}/{purpose}") for purpose in found}
    assert len({key for made in keys.values() for key in (made.hash, made.encrypt, made.vector, made.noise)}) == 16


def test_the_current_key_is_the_one_of_the_option() -> None:
    for current in ("2025", "2026"):
        keys = derive_keys(connections("pii", current=current), secrets(new=NEW, old=OLD))
        assert keys["pii"] == keys[f"pii/{current}"]


def test_the_repr_of_a_key_contains_no_key_material() -> None:
    key = derive_keys(connections("pii"), secrets(new=NEW, old=OLD))["pii"]
    assert repr(key) == "DerivedKeys(name='2026')"


@pytest.mark.parametrize("weak", ["short", NEW[:31], "a" * 64, "abcabcabc" * 8])
def test_a_weak_secret_is_refused_without_a_part_of_it(weak: str) -> None:
    with pytest.raises(WaterclockError) as raised:
        derive_keys(connections("pii"), secrets(new=weak, old=OLD))
    error = raised.value
    assert (error.code, error.what, error.where) == ("E924", "the secret of key 2026 is too weak", "connection pii")
    assert "secrets.token_hex(32)" in (error.fix or "")
    assert weak not in error.render()


def test_a_secret_that_is_missing_is_reported_as_for_other_connections() -> None:
    with pytest.raises(WaterclockError) as raised:
        derive_keys(connections("pii"), secrets(old=OLD))
    assert (raised.value.code, raised.value.what) == ("E225", "secret new does not resolve")
