"""Each claim is delivered to a topic in one transaction, once, after any interruption."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.kafka import broker, known_by_password, needs_broker
from tests.systems import setting_of, unit_of
from waterclock.connectors.delivering import Delivery, DeliveryOutcome
from waterclock.connectors.interface import Connector, Setting
from waterclock.connectors.kafka.connector import CONNECTOR
from waterclock.connectors.kafka.delivery import KafkaDeliverer, name_of
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.flow.declarations import Unit, Value
from waterclock.flow.enums import Mode
from waterclock.testing.connectors import ConnectorConformance
from waterclock.testing.deliveries import PROJECT, DeliveryConformance, Slices, row

pytestmark = needs_broker
_FIRST, _SECOND = "20130101000000", "20130102000000"


class Topic:
    """A topic that receives deliveries."""

    secrets: Sequence[str] = ("password",)

    def __init__(self, folder: Path, partitions: int = 1, **options: Value) -> None:
        self.name = broker().topic(partitions=partitions)
        self.connector: Connector = CONNECTOR
        self.setting = setting_of("bus", folder, **known_by_password())
        self.unit = unit_of("bus", self.name, **options)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of a reader that uses the newest claim of each label."""
        newest: dict[bytes, int] = {}
        found = [(dict(message.headers()), message.value()) for message in broker().read(self.name)]
        for headers, _ in found:
            label = headers["timelabel"]
            newest[label] = max(newest.get(label, 0), int(headers["claim"]))
        return [
            {**json.loads(value), "timelabel": headers["timelabel"].decode()}
            for headers, value in found
            if int(headers["claim"]) == newest[headers["timelabel"]] and value is not None
        ]


@pytest.fixture
def system(tmp_path: Path) -> Topic:
    return Topic(tmp_path)


@pytest.fixture
def slices(tmp_path: Path, system: Topic) -> Slices:
    (tmp_path / "sealed").mkdir()
    return Slices(tmp_path / "sealed", str(system.unit))


class TestKafkaConnector(ConnectorConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> Topic:
        return Topic(tmp_path)


class TestKafkaDeliveries(DeliveryConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> Topic:
        return Topic(tmp_path)

    @pytest.fixture(autouse=True)
    def _as_a_stream(self, request: pytest.FixtureRequest) -> None:
        if any(word in request.node.name for word in ("without_rows", "merge")):
            pytest.skip("a stream cannot remove records; the tests below cover its behavior")


def deliverer(system: Topic) -> KafkaDeliverer:
    found = system.connector.deliverer(system.setting)
    assert isinstance(found, KafkaDeliverer)
    return found


def sent(system: Topic) -> list[tuple[bytes | None, bytes | None]]:
    return [(message.key(), message.value()) for message in broker().read(system.name)]


def test_merge_sends_tombstones_for_deleted_keys(system: Topic, slices: Slices) -> None:
    deliverer(system).deliver(system.unit, [slices.of(_FIRST, [row("a", 1), row("b", 1)], Mode.MERGE)])
    [found] = deliverer(system).deliver(system.unit, [slices.of(_SECOND, [row("b", 2)], Mode.MERGE, deleted=["a"])])
    assert (found.rows, found.deleted) == (1, 1)
    assert sent(system)[2:] == [(b"b", b'{"id": "b", "amount": 2}'), (b"a", None)]
    older = deliverer(system).deliver(system.unit, [slices.of(_FIRST, [row("a", 9)], Mode.MERGE)])
    assert [one.outcome for one in older] == [DeliveryOutcome.OLDER]


def die_at(point: str, setting: Setting, unit: Unit, delivery: Delivery) -> None:
    """Deliver, and kill the process at a point."""
    with inject_faults(lambda at: os.kill(os.getpid(), signal.SIGKILL) if at == point else None):
        CONNECTOR.deliverer(setting).deliver(unit, [delivery])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("point", ["deliver.begun", "deliver.rows", "deliver.recorded", "deliver.committed"])
def test_a_runner_that_is_killed_at_any_point_leaves_each_row_once(system: Topic, slices: Slices, point: str) -> None:
    delivery = slices.of(_FIRST, [row(str(at), at) for at in range(500)], Mode.APPEND, is_from_partitioned=True)

    # a fork would inherit the locks of this process's Kafka clients, but not the threads that release them
    process = multiprocessing.get_context("spawn").Process(
        target=die_at, args=(point, system.setting, system.unit, delivery)
    )
    process.start()
    process.join(180)
    assert process.exitcode == -signal.SIGKILL
    [found] = deliverer(system).deliver(system.unit, [delivery])
    assert found.is_repeat is (point == "deliver.committed")
    assert [one["amount"] for one in system.rows()] == list(range(500))


@pytest.mark.soak
def test_a_broker_that_dies_between_leaves_each_row_once(system: Topic, slices: Slices) -> None:
    delivery = slices.of(_FIRST, [row(str(at), at) for at in range(500)], Mode.APPEND, is_from_partitioned=True)

    def dies(at: str) -> None:
        if at == "deliver.rows":
            broker().kill()
            broker().start()

    with suppress(WaterclockError), inject_faults(dies):
        deliverer(system).deliver(system.unit, [delivery])
    [found] = deliverer(system).deliver(system.unit, [delivery])
    assert found.outcome is DeliveryOutcome.DELIVERED
    assert [one["amount"] for one in system.rows()] == list(range(500))


def test_a_fenced_runner_sends_no_records_and_reports_it(system: Topic, slices: Slices) -> None:
    delivery = slices.of(_FIRST, [row("a", 1)], Mode.APPEND, is_from_partitioned=True)

    def another_comes(at: str) -> None:
        if at == "deliver.rows":
            another = CONNECTOR.deliverer(system.setting)
            killed = another.kill(system.unit, PROJECT, delivery.publish, delivery.claim)
            assert killed.outcome is DeliveryOutcome.KILLED

    with pytest.raises(WaterclockError) as caught, inject_faults(another_comes):
        deliverer(system).deliver(system.unit, [delivery])
    assert caught.value.code == "E858"
    assert sent(system) == []


@pytest.fixture
def forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the cluster keep records for an hour; claims of these tests are numbered from 1, as if made in 1970."""
    monkeypatch.setattr("waterclock.connectors.kafka.cluster.Cluster.offset_retention_minutes", lambda _: 60)


def forget(publish: str) -> None:
    admin = broker().admin()
    for gone in admin.delete_consumer_groups([name_of(PROJECT, publish)]).values():
        gone.result(30)


@pytest.mark.usefixtures("forgets")
def test_a_claim_whose_record_is_forgotten_is_found_in_the_topic(system: Topic, slices: Slices) -> None:
    first = slices.of(_FIRST, [row("a", 1), row("b", 2)], Mode.APPEND, is_from_partitioned=True)
    [sent_first] = deliverer(system).deliver(system.unit, [first])
    assert (sent_first.rows, sent_first.is_repeat) == (2, False)  # an old claim without records in the topic is sent
    forget(first.publish)
    assert deliverer(system).find(system.unit, PROJECT, first.publish, first.claim) is None
    [again] = deliverer(system).deliver(system.unit, [first])
    assert (again.outcome, again.rows, again.is_repeat) == (DeliveryOutcome.DELIVERED, 2, True)
    killed = deliverer(system).kill(system.unit, PROJECT, first.publish, first.claim)
    assert (killed.outcome, killed.label_text) == (DeliveryOutcome.DELIVERED, _FIRST)
    assert len(sent(system)) == 2


@pytest.mark.usefixtures("forgets")
def test_an_unverifiable_delivery_to_a_compacted_topic_is_refused(system: Topic, slices: Slices) -> None:
    system.name = broker().topic("", 1, 1, **{"cleanup.policy": "compact"})
    system.unit = unit_of("bus", system.name)
    with pytest.raises(WaterclockError) as caught:
        deliverer(system).deliver(system.unit, [slices.of(_FIRST, [row("a", 1)], Mode.APPEND)])
    assert (caught.value.code, "compact" in str(caught.value.why)) == ("E859", True)
    assert sent(system) == []


def test_an_emptied_label_sends_an_end_marker_to_each_partition(tmp_path: Path) -> None:
    (tmp_path / "sealed").mkdir()
    system = Topic(tmp_path, partitions=2, ends=True, key="id")
    slices = Slices(tmp_path / "sealed", str(system.unit))
    rows = [row(str(at), at) for at in range(9)]
    deliverer(system).deliver(system.unit, [slices.of(_FIRST, rows, Mode.APPEND, is_from_partitioned=True)])
    restated = slices.of(_FIRST, [], Mode.APPEND, is_from_partitioned=True)
    deliverer(system).deliver(system.unit, [restated])
    told: dict[int, list[int]] = {0: [], 1: []}
    rows_of = {0: 0, 1: 0}
    for message in broker().read(system.name):
        headers = dict(message.headers())
        if "ends" in headers:
            told[message.partition()].append(int(headers["ends"]))
            assert (message.value(), headers["timelabel"]) == (None, _FIRST.encode())
        else:
            rows_of[message.partition()] += 1
    assert told == {part: [count, 0] for part, count in rows_of.items()}
    assert sum(rows_of.values()) == 9
    assert system.rows() == []


def test_a_missing_topic_is_reported_with_the_nearest_name(system: Topic, slices: Slices) -> None:
    unit = unit_of("bus", f"{system.name}x")
    with pytest.raises(WaterclockError) as caught:
        deliverer(system).deliver(unit, [slices.of(_FIRST, [row("a", 1)], Mode.APPEND)])
    assert caught.value.code == "E856"
    assert system.name in str(caught.value.fix)


def test_a_recreated_topic_is_reported_as_having_lost_its_delivery(system: Topic, slices: Slices) -> None:
    delivery = slices.of(_FIRST, [row("a", 1)], Mode.APPEND, is_from_partitioned=True)
    deliverer(system).deliver(system.unit, [delivery])
    broker().delete_topic(system.name)
    broker().topic(system.name)
    lost = deliverer(system).find_loss(system.unit, PROJECT, delivery.publish, delivery.claim)
    assert lost


def test_one_request_under_way_sends_rows_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "sealed").mkdir()
    system = Topic(tmp_path, in_flight=1, key="id", headers="amount")
    slices = Slices(tmp_path / "sealed", str(system.unit))
    rows = [row(str(at % 7), at) for at in range(1000)]
    deliverer(system).deliver(system.unit, [slices.of(_FIRST, rows, Mode.APPEND, is_from_partitioned=True)])
    found = broker().read(system.name)
    assert [dict(message.headers())["amount"] for message in found] == [str(at).encode() for at in range(1000)]
    assert [message.key() for message in found] == [str(at % 7).encode() for at in range(1000)]
    assert {message.value() for message in found} == {f'{{"id": "{at}"}}'.encode() for at in range(7)}
