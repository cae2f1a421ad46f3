"""The connection type `kafka`: topics of a cluster, collected by offsets and published to in transactions.

Connection      `servers`; user and `password` as a secret, or certificates; a `registry` of schemas.
Unit            A topic.
Arrival         Each label has a range of offsets by partition, up to the last committed record. See `ranges`.
Formats         `raw`: the record's own columns; `text`; `json`: the fields of an object; `avro`: those of a schema.
Publish         One transaction per claim. See `delivery`.

Records are read by the client library `confluent_kafka`, not by Spark's Kafka source. The library can stop at the end
of a range even if no record is at that offset, and needs no jars (docs/decisions/kafka.md).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from waterclock.connectors.delivering import Deliverer
from waterclock.connectors.interface import Collected, ConnectionType, Item, Positions, Report, Setting
from waterclock.connectors.kafka import option_definitions
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import Capabilities, Driver
from waterclock.flow.declarations import Columns, Unit
from waterclock.flow.enums import Batching, Mode

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from waterclock.connectors.kafka.avro import Decoder
    from waterclock.connectors.kafka.cluster import Cluster
    from waterclock.connectors.kafka.collection import TopicShape

CAPABILITIES = Capabilities(
    type="kafka",
    driver=Driver("confluent_kafka", extra="kafka"),
    connection_options=option_definitions.OF_CONNECTION,
    collect_options=option_definitions.OF_COLLECT,
    publish_options=option_definitions.OF_PUBLISH,
    collects=frozenset({Batching.ARRIVAL_TIME}),
    publishes=frozenset({Mode.APPEND, Mode.MERGE}),
    wrong_options=option_definitions.wrong_options,
    reads_open_windows=frozenset({Batching.ARRIVAL_TIME}),
)


def _open_source(setting: Setting) -> KafkaCollector:
    from waterclock.connectors.kafka.cluster import cluster_of

    return KafkaCollector(cluster_of(setting), setting.folder)


def _open_destination(setting: Setting) -> Deliverer:
    from waterclock.connectors.kafka.cluster import cluster_of
    from waterclock.connectors.kafka.delivery import KafkaDeliverer

    return KafkaDeliverer(cluster_of(setting))


CONNECTOR = ConnectionType(CAPABILITIES, _open_source, _open_destination)


@dataclass(frozen=True, slots=True)
class KafkaCollector:
    """Collects from the topics of a cluster. `folder` is the project's folder."""

    cluster: Cluster
    folder: Path

    def clock(self, unit: Unit) -> datetime | None:
        """Return None: a topic has no clock, as a record's time is set by its producer."""
        del unit
        return None

    def schema(self, unit: Unit) -> Mapping[str, str] | None:
        """Return the columns of records with Spark types, if they are known without reading a record; else None."""
        self.cluster.log_of(unit.path, str(unit))
        return self._shape(unit).list_fixed_columns()

    def explain(self, unit: Unit, columns: Columns, error: BaseException) -> WaterclockError | None:
        """Return the error of a Spark worker, or build an error that names the record that cannot be read."""
        from waterclock.connectors.kafka.collection import find_worker_error

        del columns
        return find_worker_error(error, str(unit), unit.path)

    def next_range(self, unit: Unit, reached: Positions | None, first: datetime) -> Positions | None:
        """Return the next range of offsets to read; None if there are no new records.

        The first range starts where the option `from` declares.
        """
        from waterclock.connectors.kafka.ranges import first_range, next_range

        where = str(unit)
        log = self.cluster.log_of(unit.path, where)
        if reached is not None:
            return next_range(log, reached, where=where, without=_without(unit))
        begin = unit.options.get("from", "earliest")
        if begin == "start":
            return first_range(log, self.cluster.offsets_since(log, first, where))
        return first_range(log, log.starts if begin == "earliest" else log.ends)

    def newest_times(self, unit: Unit, partitions: Collection[str]) -> Mapping[str, datetime]:
        """Return the largest timestamp of the records of partitions. Empty if the cluster does not report it."""
        found = self.cluster.newest_times(unit.path, [int(partition) for partition in partitions])
        return {str(partition): at for partition, at in found.items()}

    def read_items(
        self, spark: SparkSession, unit: Unit, items: Mapping[datetime, Sequence[Item]], columns: Columns, zone: str
    ) -> Collected:
        """Read the records in the offset ranges of labels.

        Raises E852 if records no longer exist that the option `without` does not name, E853 for a replaced topic, also
        if it is replaced during the read.
        """
        from waterclock.connectors.kafka.collection import collect_records
        from waterclock.connectors.kafka.ranges import OffsetSpan, readable_range, require_same_topic, spans_of
        from waterclock.connectors.kafka.reading import KafkaExtract, OffsetPart

        where = str(unit)
        ranges = [(label, item.positions) for label, owned in items.items() for item in owned if item.positions]
        if ranges:
            log = self.cluster.log_of(unit.path, where)
            ranges = [
                (label, readable_range(log, positions, where=where, without=_without(unit)))
                for label, positions in ranges
            ]
        parts = tuple(OffsetPart(label, span) for label, positions in ranges for span in spans_of(positions))
        shape, decoder = self._shape(unit), self._decoder(unit)
        extract = KafkaExtract(self.cluster, unit.path, where, parts, decoder, refuses_odd=shape.has_metadata)
        collected = collect_records(spark, extract, shape, columns, zone)
        lost = (OffsetSpan(int(part), *span) for _, it in ranges for part, span in it.gone.items())
        gone = ",".join(map(str, lost))

        def require_no_replacement() -> None:
            found = self.cluster.id_of(unit.path, where) if parts else ""
            for _, positions in ranges if parts else ():
                require_same_topic(unit.path, found, positions, where=where)

        source = {"gone": gone} if gone else collected.source
        return replace(collected, source=source, before_commit=require_no_replacement)

    def archive(self, unit: Unit, items: Sequence[Item]) -> tuple[Report, ...]:
        """Do nothing: offsets are stored with each label, and no consumer group is used."""
        del unit, items
        return ()

    def _shape(self, unit: Unit) -> TopicShape:
        from waterclock.connectors.kafka.collection import TopicShape

        kind = str(unit.options.get("format", "json"))
        decoder = self._decoder(unit)
        has_metadata = str(unit.options.get("metadata", False)).lower() == "true"
        return TopicShape(kind, has_metadata=has_metadata, typed=None if decoder is None else decoder.columns())

    def _decoder(self, unit: Unit) -> Decoder | None:
        from waterclock.connectors.kafka.avro import decoder_of

        if unit.options.get("format") != "avro":
            return None
        file = unit.options.get("schema")
        path = None if file is None else self.folder / str(file)
        return decoder_of(unit.path, str(unit), self.cluster.registry, path)


def _without(unit: Unit) -> str:
    """Return the option `without`: the lost offsets, or the replaced topic, that a collect may skip."""
    return str(unit.options.get("without", ""))
