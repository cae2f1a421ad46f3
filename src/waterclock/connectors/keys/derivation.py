"""Derives a separate key for each purpose from the secrets of a `keys` connection, by HKDF-SHA256 (RFC 5869)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Connection
from waterclock.flow.key_connections import CURRENT, PREFIX, names_of_keys
from waterclock.secrets.reader import Secrets

_FEWEST_BYTES = 32
_FEWEST_CHARACTERS = 10  # different characters; 64 random hexadecimal digits nearly always have 14 or more


@dataclass(frozen=True, slots=True)
class DerivedKeys:
    """The keys of 32 bytes derived from one secret: one for each purpose, such as `hash`. `name` names the secret."""

    name: str
    hash: bytes = field(repr=False)
    encrypt: bytes = field(repr=False)
    vector: bytes = field(repr=False)
    noise: bytes = field(repr=False)


def derive_keys(connections: Mapping[str, Connection], secrets: Secrets) -> dict[str, DerivedKeys]:
    """Return the derived keys of all connections, by `<connection>/<key>`; the current key also by `<connection>`.

    Raises E225 for a secret that does not resolve, E924 for one that is too short or has too few different characters.
    """
    keys: dict[str, DerivedKeys] = {}
    for connection in connections.values():
        for name in names_of_keys(connection.options):
            reference = connection.options[PREFIX + name]
            keys[f"{connection.name}/{name}"] = _derive(connection.name, name, str(secrets.value_of(reference)))
        keys[connection.name] = keys[f"{connection.name}/{connection.options[CURRENT]}"]
    return keys


def _derive(connection: str, name: str, secret: str) -> DerivedKeys:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    material = secret.encode()
    if len(material) < _FEWEST_BYTES or len(set(secret)) < _FEWEST_CHARACTERS:
        raise WaterclockError(
            "E924",
            f"the secret of key {name} is too weak",
            where=f"connection {connection}",
            why=f"a key needs {_FEWEST_BYTES} random characters or more",
            fix='generate one: python -c "import secrets; print(secrets.token_hex(32))"',
        )

    def derive(purpose: str) -> bytes:
        info = f"waterclock/{connection}/{purpose}".encode()
        return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(material)

    return DerivedKeys(name, derive("hash"), derive("encrypt"), derive("vector"), derive("noise"))
