"""Keys of tests: their secrets, the derived keys, and how each of them would appear in a text."""

from __future__ import annotations

import base64
import hashlib
import hmac

NEW, OLD = "n3w-" + "0123456789abcdef" * 4, "0ld-" + "fedcba9876543210" * 4
DECLARED = """
CREATE CONNECTION pii TYPE keys OPTIONS (key.2025 SECRET 'pii/old', key.2026 SECRET 'pii/new', current '2026');
"""
VARIABLES = {"WATERCLOCK_SECRET_PII_NEW": NEW, "WATERCLOCK_SECRET_PII_OLD": OLD}
PURPOSES = ("hash", "encrypt", "vector", "noise")


def derived(secret: str, purpose: str, connection: str = "pii") -> bytes:
    """Derive a key as RFC 5869 defines it, with SHA-256, no salt and one block."""
    extracted = hmac.digest(bytes(32), secret.encode(), hashlib.sha256)
    return hmac.digest(extracted, f"waterclock/{connection}/{purpose}".encode() + b"\x01", hashlib.sha256)


def hashed(value: str | None, secret: str = NEW) -> str | None:
    """Return the expected result of `hash_keyed`, by Python's own HMAC."""
    return None if value is None else hmac.new(derived(secret, "hash"), value.encode(), hashlib.sha256).hexdigest()


def forms() -> set[bytes]:
    """Return the secrets, and the keys and their padded blocks, as bytes and as texts of Spark, Python and JSON."""
    keys = [derived(secret, purpose) for secret in (NEW, OLD) for purpose in PURPOSES]
    blocks = [bytes(each ^ pad for each in key) for key in keys for pad in (0x36, 0x5C)]
    found = {secret.encode() for secret in (NEW, OLD)}
    for raw in (*found, *keys, *blocks):
        texts = {raw.hex(), raw.hex().upper(), raw.hex(" ").upper(), ",".join(map(str, raw)), ", ".join(map(str, raw))}
        signed = [each - 256 if each > 127 else each for each in raw]  # as Java writes bytes
        texts |= {",".join(map(str, signed)), ", ".join(map(str, signed)), repr(raw)[2:-1]}
        found |= {raw, base64.b64encode(raw), base64.b64encode(raw)[:40], *(text.encode() for text in texts)}
    return found
