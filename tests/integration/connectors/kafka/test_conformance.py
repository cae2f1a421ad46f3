"""Topics pass the public suite for logs."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kafka import broker, known_by_password, needs_broker
from tests.logs import Log
from tests.systems import setting_of, unit_of
from waterclock.connectors.interface import Connector, Setting
from waterclock.connectors.kafka.connector import CONNECTOR
from waterclock.flow.declarations import Unit
from waterclock.testing.positions import Logging, PositionConformance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class Topic:
    """A topic of two partitions, whose values are objects."""

    secrets: Sequence[str] = ("password",)

    def __init__(self, folder: Path) -> None:
        self.name = broker().topic(partitions=2)
        self.connector: Connector = CONNECTOR
        self.setting = setting_of("bus", folder, **known_by_password(), timeout=5)
        self.unit = unit_of("bus", self.name)

    def append(self, notes: Sequence[str]) -> None:
        self._send(notes, commits=True)

    def append_in_vain(self, notes: Sequence[str]) -> bool:
        self._send(notes, commits=False)
        return True

    def forget(self) -> bool:
        for part in range(2):
            broker().delete_before(self.name, part, -1)
        return True

    @contextmanager
    def failing_midway(self) -> Iterator[None]:
        """Suspend the broker during the block, so that requests wait."""
        process = broker().process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def _send(self, notes: Sequence[str], *, commits: bool) -> None:
        for at, note in enumerate(notes):
            value = json.dumps({"note": note}).encode()
            broker().send(self.name, [(None, value)], partition=at % 2, commits=commits)


class MemoryLog:
    """A log in memory."""

    secrets: Sequence[str] = ()

    def failing_midway(self) -> None:
        """Do nothing: no fault can occur between a reader and a local log."""

    def __init__(self, folder: Path) -> None:
        self.log = Log()
        self.connector: Connector = self.log
        self.setting: Setting = setting_of("log", folder)
        self.unit: Unit = unit_of("log", "events")

    def append(self, notes: Sequence[str]) -> None:
        self.log.append("0", *notes)

    def append_in_vain(self, notes: Sequence[str]) -> bool:
        del notes
        return False

    def forget(self) -> bool:
        return False


@needs_broker
class TestTopics(PositionConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> Topic:
        return Topic(tmp_path)

    @pytest.mark.soak
    def test_an_interrupted_read_of_a_range_returns_no_rows(self, spark: SparkSession, system: Logging) -> None:
        super().test_an_interrupted_read_of_a_range_returns_no_rows(spark, system)


class TestLogInMemory(PositionConformance):
    @pytest.fixture
    def system(self, tmp_path: Path) -> MemoryLog:
        return MemoryLog(tmp_path)
