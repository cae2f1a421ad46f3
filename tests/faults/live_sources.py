"""Sources of a live stream: landing files, and a topic to which a producer sends all the time."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.integration.engine.test_continuous import FLOW, Stream, minute
from tests.kafka import Broker, broker

_FILES = "FROM land.acme.clicks"
_PARTITIONS = 2
_SEND_SECONDS = 0.1


def end_of_hour(at: datetime) -> datetime:
    """Return the end of the window of an instant."""
    return minute(0) + timedelta(hours=int((at - minute(0)) / timedelta(hours=1)) + 1)


@dataclass
class LiveSource:
    """Landing files. `sent` are the ids of all rows, `acknowledged` those that must be in the table."""

    sent: set[int] = field(default_factory=set)
    acknowledged: set[int] = field(default_factory=set)
    toml = ""
    declared = FLOW

    @contextmanager
    def opened(self, stream: Stream) -> Iterator[None]:
        """Send rows within the block."""
        del stream
        yield

    def send(self, stream: Stream, count: int = 3) -> None:
        """Send rows; return when the source has them."""
        ids = range(len(self.sent), len(self.sent) + count)
        self.write(stream, [(id_, "abc"[id_ % 3]) for id_ in ids])
        self.sent |= set(ids)
        self.acknowledged |= set(ids)

    def end_window(self, stream: Stream) -> None:
        """Send what shows that the window before now is complete: a row of the next window, which stays open."""
        stream.click(stream.now, (len(self.sent), "c"))
        self.sent.add(len(self.sent))

    def write(self, stream: Stream, rows: list[tuple[object, str]]) -> None:
        stream.click(stream.now - timedelta(seconds=9), *rows)


class TopicSource(LiveSource):
    """A topic. A producer sends a record every tenth of a second, and retries it while the broker does not answer.

    Now and then it sends records in a transaction that is aborted, with ids below 0.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        del folder
        self.broker: Broker = broker()
        self.topic = self.broker.topic(partitions=_PARTITIONS)
        # a broker that does not answer fails a read after three seconds
        self.toml = f'connections.bus = {{{{ servers = "{self.broker.servers}", timeout = 3 }}}}\n'
        self.declared = "CREATE CONNECTION bus TYPE kafka;\n" + FLOW.replace(_FILES, f"FROM bus.`{self.topic}`")
        self._done = threading.Event()

    @contextmanager
    def opened(self, stream: Stream) -> Iterator[None]:
        del stream
        thread = threading.Thread(target=self._produce, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._done.set()
            thread.join(60)
        assert self.acknowledged

    def send(self, stream: Stream, count: int = 3) -> None:
        del stream, count
        aborted = [(None, b'{"id": -1, "user": "a"}')] * 3
        self.broker.send(self.topic, aborted, partition=len(self.sent) % _PARTITIONS, commits=False)

    def end_window(self, stream: Stream) -> None:
        """Send nothing: the window of a topic is complete when it is over."""
        del stream

    def _produce(self) -> None:
        from confluent_kafka import Producer

        config = {
            "bootstrap.servers": self.broker.servers, "enable.idempotence": True, "log_level": 0,
            "linger.ms": 1, "message.timeout.ms": 60_000, "reconnect.backoff.max.ms": 500,
        }  # fmt: skip
        producer = Producer(config)
        while not self._done.wait(_SEND_SECONDS):
            id_ = len(self.sent)
            self.sent.add(id_)
            value = json.dumps({"id": id_, "user": "abc"[id_ % 3]}).encode()
            producer.produce(self.topic, value, partition=id_ % _PARTITIONS, on_delivery=self._note(id_))
            producer.poll(0)
        producer.flush(60)

    def _note(self, id_: int) -> Any:
        def note(error: object, message: object) -> None:
            del message
            if error is None:
                self.acknowledged.add(id_)

        return note
