"""Makes the keys of connections of type `keys` available to a Spark session's functions, but not to query texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waterclock.connectors.drivers import require_driver
from waterclock.connectors.keys.connector import CAPABILITIES
from waterclock.connectors.keys.derivation import DerivedKeys, derive_keys
from waterclock.flow.declarations import Connection, Flow
from waterclock.flow.key_connections import KEYS
from waterclock.masking.keyed_sql import KEY_FIELDS, KEYS_VIEW, blocks_of
from waterclock.secrets.reader import Secrets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark 4.2 evaluates the key of a broadcast join before the subquery in it, and fails
_NO_BROADCASTS = ("spark.sql.autoBroadcastJoinThreshold", "spark.sql.adaptive.autoBroadcastJoinThreshold")


@dataclass(frozen=True, slots=True)
class KeysOfProject:
    """A project's connections of type `keys`. Their secrets are read each time a session needs them.

    `storage` is the location of the project's storage, which contains the tokens that `detokenize` reads.
    """

    connections: Mapping[str, Connection]
    secrets: Secrets
    storage: str = ""

    @classmethod
    def from_flow(cls, flow: Flow, secrets: Secrets, storage: str = "") -> KeysOfProject:
        """Return the keys of all connections of a flow."""
        return cls({name: each for name, each in flow.connections.items() if each.type == KEYS}, secrets, storage)

    def only(self, name: str) -> KeysOfProject:
        """Return the keys of one connection."""
        return KeysOfProject({name: self.connections[name]}, self.secrets)

    def derive(self) -> dict[str, DerivedKeys]:
        """Derive the keys from the secrets of the connections (see `derive_keys`).

        Raises E225, E920 or E921 for a secret that does not resolve, E924 for a weak one, E825 without the library.
        """
        for name in self.connections:
            require_driver(CAPABILITIES, name)
        return derive_keys(self.connections, self.secrets)

    def add_to(self, spark: SparkSession) -> None:
        """Create the temporary view with the keys, which keyed functions such as `hash_keyed` read.

        The keys are sent to Spark as an Arrow table of one row: its plan has the columns' names, and no value. Raises
        the same errors as `derive`.
        """
        import pyarrow as pa

        keys = self.derive()
        kinds = {"STRING": pa.string(), "BINARY": pa.binary()}
        entry = pa.struct([(name, kinds[kind]) for name, kind in KEY_FIELDS.items()])
        by_name = pa.array([[(name, _fields(key)) for name, key in keys.items()]], pa.map_(pa.string(), entry))
        spark.createDataFrame(pa.table({"by_name": by_name})).createOrReplaceTempView(KEYS_VIEW)
        for threshold in _NO_BROADCASTS:
            spark.conf.set(threshold, "-1")


def _fields(key: DerivedKeys) -> dict[str, object]:
    """Return the fields of one key for the view that `add_to` creates (see `KEY_FIELDS`)."""
    fields: dict[str, object] = {"name": key.name, "encrypt": key.encrypt}
    for purpose, value in (("hash", key.hash), ("vector", key.vector), ("noise", key.noise)):
        fields[f"{purpose}_inner"], fields[f"{purpose}_outer"] = blocks_of(value)
    return fields
