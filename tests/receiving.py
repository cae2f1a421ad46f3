"""A project with an HTTP endpoint, processes of `waterclock receive`, and senders that retry until acknowledged."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.systems import setting_of, unit_of
from waterclock.connectors.receiver.connector import CONNECTOR, ReceiverCollector

UNIT = unit_of("door", "events")
_SETTINGS = """\
[project]
name = "shop"

[env.dev]
connections.door = { path = "data/door" }
"""
_FLOW = """\
CREATE CONNECTION door TYPE receiver;
COLLECT web.events PARTITIONED (id BIGINT, _received TIMESTAMP, _request, _event INT)
  FROM door.events EVERY 1 MINUTE BY ARRIVAL TIME;
"""


def project_with_door(folder: Path, flow: str = _FLOW, settings: str = _SETTINGS) -> Path:
    (folder / "flows").mkdir(parents=True)
    (folder / "waterclock.toml").write_text(settings, encoding="utf-8")
    (folder / "flows" / "door.dpl").write_text(flow, encoding="utf-8")
    return folder


def collector_of(project: Path) -> ReceiverCollector:
    return CONNECTOR.collector(setting_of("door", project, path="data/door"))


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Receiver:
    """A process of `waterclock receive`, and its output."""

    def __init__(self, project: Path, port: int, **environ: str) -> None:
        self.port = port
        self.process = subprocess.Popen(
            [sys.executable, "-m", "waterclock", "receive", "--listen", str(port), "--project", str(project)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"NO_COLOR": "1", "COLUMNS": "200"} | environ,
        )

    def is_ready(self) -> bool:
        """Wait until it reports that it listens, and responds; return False if it has ended."""
        if self.process.stdout is None or not any("Ctrl-C" in line for line in self.process.stdout):
            return False
        while self.process.poll() is None:
            with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)) as asked:
                try:
                    asked.request("GET", "/readyz")
                    return asked.getresponse().status == 200
                except OSError:
                    time.sleep(0.05)
        return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def end(self) -> tuple[int, str]:
        """Stop it gracefully, and return its exit code and output."""
        self.process.send_signal(signal.SIGTERM)
        said, _ = self.process.communicate(timeout=60)
        return self.process.returncode, said


def post(port: int, body: bytes, path: str = "/door/events", **headers: str) -> int:
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        asked.request("POST", path, body, headers)
        return asked.getresponse().status
    finally:
        asked.close()


class Senders:
    """Clients that send events with unique ids, and retry each until the response is 202."""

    def __init__(self, ports: list[int], count: int) -> None:
        self.ports = ports
        self.acknowledged: set[int] = set()
        self.sent: Counter[int] = Counter()
        self.unanswered: list[str] = []
        self._next = iter(range(1 << 40))
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(at,), daemon=True) for at in range(count)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(30)

    def _send(self, at: int) -> None:
        connection: http.client.HTTPConnection | None = None
        turn = at
        while not self._is_over.is_set():
            with self._lock:
                ids = [next(self._next) for _ in range(1 + at % 3)]
            body = "\n".join(json.dumps({"id": each}) for each in ids)
            is_answered = False
            while not is_answered and not self._is_over.is_set():
                if connection is None:
                    connection = http.client.HTTPConnection("127.0.0.1", self.ports[turn % len(self.ports)], timeout=10)
                try:
                    connection.connect() if connection.sock is None else None
                    with self._lock:
                        self.sent.update(ids)
                    connection.request("POST", "/door/events", body)
                    answer = connection.getresponse()
                    answer.read()
                    is_answered = answer.status == 202
                except (OSError, http.client.HTTPException) as error:
                    with self._lock:
                        self.unanswered.append(repr(error))
                    connection.close()
                    connection = None
                    turn += 1
                    time.sleep(0.02)
            if is_answered:
                with self._lock:
                    self.acknowledged.update(ids)
        if connection is not None:
            connection.close()


class Sealers:
    """A runner that seals at intervals, as runs do; its promises are compared with later arrivals."""

    def __init__(self, project: Path) -> None:
        self.collector = collector_of(project)
        self.seen: set[str] = set()
        self.late: list[str] = []
        self.complete = datetime(2000, 1, 1, tzinfo=UTC)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def look(self, ahead: timedelta = timedelta(0)) -> None:
        complete = self.collector.seal(UNIT, datetime.now(UTC) + ahead)
        for item in self.collector.arrivals(UNIT).items:
            if item.name not in self.seen and item.stamp < self.complete:
                self.late.append(item.name)
            self.seen.add(item.name)
        self.complete = max(self.complete, complete)

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._is_over.wait(0.3):
            self.look()

    def ids(self) -> Counter[int]:
        found: Counter[int] = Counter()
        for item in self.collector.arrivals(UNIT).items:
            lines = gzip.decompress(Path(item.path).read_bytes()).splitlines()
            found.update(json.loads(line)["id"] for line in lines)
        return found
