"""The pages about Kafka: the statements of each form one flow, over topics with its names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.engine.test_continuous import Stream, minute
from tests.kafka import broker, needs_broker
from tests.live_destinations import live_destination
from tests.tiny import TOML, Tiny, day, described
from tests.unit.connectors.kafka.test_avro import OLD, encoded
from waterclock.engine.continuous.destinations import deliver_open_windows, publishes_of_open_windows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, needs_broker]
HOWTO = Path(__file__).parents[4] / "docs" / "howto"
PAGE = HOWTO / "collect-kafka.md"
LIVE = HOWTO / "kafka-to-postgres.md"


def test_the_flow_of_the_page_runs(tmp_path: Path, spark: SparkSession) -> None:
    page, bus = PAGE.read_text(encoding="utf-8"), broker()
    flow = "".join(re.findall(r"^```sql\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    for name in ("orders", "web-lines", "payments", "events", "events_copy", "totals"):
        bus.topic(name)
    for key in ("1", "2"):
        bus.send("orders", [(None, f'{{"order_id": {key}, "amount": 2.5, "at": "2020-01-01T00:00:00Z"}}'.encode())])
    bus.send("web-lines", [(b"k", b"a line")])
    bus.send("payments", [(None, encoded(OLD, {"id": 7}))])
    bus.send("events", [(b"k", b"\x00"), (b"k", None)])
    (tmp_path / "payments.avsc").write_text(json.dumps(OLD))
    tiny = Tiny(tmp_path, spark, toml=f'{TOML}connections.bus = {{{{ servers = "{bus.servers}" }}}}\n')
    tiny.declare(flow.replace("EVERY 1 HOUR", "EVERY DAY"))
    outcome = tiny.run(day(1) + (day(2) - day(1)))
    assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT order_id, amount FROM shop.orders ORDER BY ALL") == [(1, 2.5), (2, 2.5)]
    assert tiny.rows("SELECT value, CAST(kafka_key AS STRING) FROM web.lines") == [("a line", "k")]
    assert tiny.rows("SELECT id FROM shop.payments") == [(7,)]
    assert [(m.key(), m.value()) for m in bus.read("events_copy")] == [(b"k", b"\x00"), (b"k", None)]
    assert sorted((m.key(), json.loads(m.value())["total"]) for m in bus.read("totals")) == [(b"1", 2.5), (b"2", 2.5)]


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def test_the_query_of_the_page_shows_records_at_the_next_tick(tmp_path: Path, spark: SparkSession, kind: str) -> None:
    page, bus, live = LIVE.read_text(encoding="utf-8"), broker(), live_destination(kind, tmp_path)
    [statements] = re.findall(r"^```sql\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    [query] = re.findall(r"^```\n(SELECT.*?)^```$", page, re.MULTILINE | re.DOTALL)
    topic = bus.topic()
    flow = statements.replace("bus.orders", f"bus.`{topic}`").replace("TYPE postgres", f"TYPE {kind}")
    stream = Stream(Tiny(tmp_path, spark, toml=f'{live.toml}connections.bus = {{{{ servers = "{bus.servers}" }}}}\n'))
    stream.tiny.declare(flow)

    def sell(at: int, *orders: tuple[int, str, int]) -> list[tuple[str, int, int]]:
        names = ("order_id", "product", "cents")
        bus.send(topic, [(None, json.dumps(dict(zip(names, order, strict=True))).encode()) for order in orders])
        stream.tick(minute(at))
        with stream.opened() as work:
            for table in publishes_of_open_windows(work.flow):
                deliver_open_windows(work, table)
        return [(product, int(count), int(cents)) for product, count, cents in live.read(query)]

    assert sell(1, (1, "tea", 250), (2, "tea", 250)) == [("tea", 2, 500)]
    stream.run(minute(5))
    assert sell(6, (3, "cup", 900), (4, "tea", 250)) == [("cup", 1, 900), ("tea", 3, 750)]
    assert sorted(map(int, (row[0] for row in live.read("SELECT order_id FROM orders")))) == [1, 2, 3, 4]
