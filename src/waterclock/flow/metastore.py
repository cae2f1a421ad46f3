"""The setting `catalog` of an environment: the Hive metastore in which its tables are entered."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ADDRESS = re.compile(r"thrift://(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?/?")
_PORT = 9083  # of a metastore


@dataclass(frozen=True, slots=True)
class Metastore:
    """The host and the port of a Hive metastore."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"thrift://{self.host}:{self.port}"


def parse_metastore(address: str) -> Metastore | None:
    """Return the metastore at an address as `thrift://host:9083`; None for any other text."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        return None
    port = int(found["port"] or _PORT)
    return Metastore(found["host"].strip("[]"), port) if 0 < port < 1 << 16 else None
