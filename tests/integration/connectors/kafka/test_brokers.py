"""A cluster of three brokers, one of which dies: each record is sent and read once."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.kafka import Broker, needs_broker, three_brokers, until
from tests.systems import setting_of, unit_of
from waterclock.connectors.kafka.cluster import cluster_of
from waterclock.connectors.kafka.connector import CONNECTOR
from waterclock.connectors.kafka.ranges import first_range, spans_of
from waterclock.connectors.kafka.reading import KafkaExtract, OffsetPart, batches
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.flow.enums import Mode
from waterclock.testing.deliveries import Slices, row

pytestmark = [needs_broker, pytest.mark.soak]
ROWS = 30_000


def partitions_of(broker: Broker, topic: str) -> dict[int, Any]:
    admin = broker.admin()
    told: dict[int, Any] = admin.list_topics(topic, timeout=30).topics[topic].partitions
    return told


def leader_of(asked: Broker, brokers: list[Broker], topic: str, *, besides: Broker | None = None) -> Broker:
    """Return the leader of the first partition that is led by another broker."""
    leaders: list[Broker] = [brokers[part.leader - 1] for _, part in sorted(partitions_of(asked, topic).items())]
    return next(each for each in leaders if each is not besides)


def test_a_broker_that_dies_among_three_leaves_each_row_once(tmp_path: Path) -> None:
    with three_brokers() as brokers:
        topic = brokers[0].topic("", 4, 3, **{"min.insync.replicas": "2"})
        setting = setting_of("bus", tmp_path, servers=",".join(each.servers for each in brokers))
        unit = unit_of("bus", topic, key="id")
        (tmp_path / "sealed").mkdir()
        rows = [row(str(at), at) for at in range(ROWS)]
        delivery = Slices(tmp_path / "sealed", str(unit)).of("20130101000000", rows, Mode.APPEND)
        lost = leader_of(brokers[0], brokers, topic)

        def dies(at: str) -> None:
            if at == "deliver.rows":
                lost.kill()

        with suppress(WaterclockError), inject_faults(dies):
            CONNECTOR.deliverer(setting).deliver(unit, [delivery])
        [found] = CONNECTOR.deliverer(setting).deliver(unit, [delivery])
        assert found.rows == ROWS

        # another broker dies during the read; the first one is back and has all records of the others
        lost.start()
        living = next(each for each in brokers if each is not lost)
        until(lambda: all(len(part.isrs) == 3 for part in partitions_of(living, topic).values()))
        cluster = cluster_of(setting)
        log = cluster.log_of(topic, "bus.t")
        parts = tuple(
            OffsetPart(datetime(2020, 1, 1, tzinfo=UTC), span) for span in spans_of(first_range(log, log.starts))
        )
        read: list[tuple[int, int]] = []
        values: list[bytes] = []
        leader_of(lost, brokers, topic, besides=lost).kill()  # its partitions have no leader until its session ends
        for batch in batches(KafkaExtract(cluster, topic, "bus.t", parts)):
            read += zip(batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True)
            values += batch["value"].to_pylist()
        assert len(values) == len(set(values)) == ROWS
        for partition in range(4):
            offsets = [offset for part, offset in read if part == partition]
            assert offsets == sorted(offsets)
