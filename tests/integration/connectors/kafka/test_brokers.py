"""A cluster of three brokers of which one dies: what is sent and what is read comes once."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.kafka import Broker, needs_broker, three_brokers
from tests.systems import setting_of, unit_of
from waterclock.connectors.kafka.cluster import cluster_of
from waterclock.connectors.kafka.connector import CONNECTOR
from waterclock.connectors.kafka.ranges import first_range, spans_of
from waterclock.connectors.kafka.reading import Extract, Part, batches
from waterclock.errors import WaterclockError
from waterclock.faults import striking
from waterclock.flow.choices import Mode
from waterclock.testing.deliveries import Slices, row

pytestmark = [needs_broker, pytest.mark.soak]
ROWS = 30_000


def leader_of(brokers: list[Broker], topic: str) -> Broker:
    told: int = brokers[0].admin().list_topics(topic, timeout=30).topics[topic].partitions[0].leader
    return brokers[told - 1]


def test_a_broker_that_dies_among_three_leaves_each_row_once(tmp_path: Path) -> None:
    with three_brokers() as brokers:
        topic = brokers[0].topic("", 4, 3, **{"min.insync.replicas": "2"})
        setting = setting_of("bus", tmp_path, servers=",".join(each.servers for each in brokers))
        unit = unit_of("bus", topic, key="id")
        (tmp_path / "sealed").mkdir()
        rows = [row(str(at), at) for at in range(ROWS)]
        delivery = Slices(tmp_path / "sealed", str(unit)).of("20130101000000", rows, Mode.APPEND)
        lost = leader_of(brokers, topic)

        def dies(at: str) -> None:
            if at == "deliver.rows":
                lost.kill()

        with suppress(WaterclockError), striking(dies):
            CONNECTOR.deliverer(setting).deliver(unit, [delivery])
        [found] = CONNECTOR.deliverer(setting).deliver(unit, [delivery])
        assert found.rows == ROWS

        # another one dies while all is read; the first is there again
        lost.start()
        cluster = cluster_of(setting)
        log = cluster.log_of(topic, "bus.t")
        parts = tuple(Part(datetime(2020, 1, 1, tzinfo=UTC), span) for span in spans_of(first_range(log, log.starts)))
        read: list[tuple[int, int]] = []
        values: list[bytes] = []
        for batch in batches(Extract(cluster, topic, "bus.t", parts)):
            if not read:
                others = [each for each in brokers if each is not lost]
                others[0].kill()
            read += zip(batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True)
            values += batch["value"].to_pylist()
        assert len(values) == len(set(values)) == ROWS
        for partition in range(4):
            offsets = [offset for part, offset in read if part == partition]
            assert offsets == sorted(offsets)
