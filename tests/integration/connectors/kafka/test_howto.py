"""The page on Kafka: its statements form one flow, over topics with its names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kafka import broker, needs_broker
from tests.tiny import TOML, Tiny, day, described
from tests.unit.connectors.kafka.test_avro import OLD, encoded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, needs_broker]
PAGE = Path(__file__).parents[4] / "docs" / "howto" / "collect-kafka.md"


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
