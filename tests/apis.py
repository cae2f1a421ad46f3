"""Starts the API of the tests once per test process, and gives each test its own space in it."""

from __future__ import annotations

import atexit
import itertools
import json
import os
import socket
import subprocess
import sys
import time as clock
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from tests.systems import HERE, setting_of, unit_of
from waterclock.connectors.interface import Connector, Setting
from waterclock.connectors.rest.client import Api
from waterclock.connectors.rest.collection import RestSource
from waterclock.connectors.rest.connector import CONNECTOR as REST
from waterclock.connectors.rest.connector import RestCollector
from waterclock.connectors.rest.option_definitions import resource_of
from waterclock.flow.declarations import Unit, Value

TOKEN = "t0ken/of+the'tests"
"""The token that the API requires by default."""
_COUNT = itertools.count()


@cache
def server() -> str:
    """Start the server, and return its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(Path(__file__).with_name("api_app.py")), str(port)])
    atexit.register(process.kill)
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            clock.sleep(0.05)
        else:
            return f"http://127.0.0.1:{port}"
    raise AssertionError("the API of the tests does not respond")


class Space:
    """A test's space on the server."""

    def __init__(self) -> None:
        self.url = f"{server()}/s/{os.getpid()}-{next(_COUNT)}"

    def set(self, **said: Any) -> None:
        request = Request(f"{self.url}/_set", json.dumps(said).encode(), method="POST")
        urlopen(request, timeout=10).close()

    def told(self) -> dict[str, Any]:
        with urlopen(f"{self.url}/_told", timeout=10) as answer:
            told: dict[str, Any] = json.load(answer)
        return told

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The received requests, in order."""
        log: list[dict[str, Any]] = self.told()["log"]
        return log

    def setting(self, folder: Path, **options: Value) -> Setting:
        return setting_of("api", folder, **{"url": self.url, "timeout": 20, **options})

    def reading(self, folder: Path, path: str, options: dict[str, Value], **of_connection: Value) -> RestSource:
        setting = self.setting(folder, **of_connection)
        unit = unit_of("api", path, **options)
        return RestSource(patient(setting), setting, unit, resource_of(setting.options, path, options))


class ApiSystem:
    """An API for the conformance suites: rows with a time, held rows, and rows that are sent to it."""

    secrets: Sequence[str] = ("auth.token",)
    zone_of_times: str | None = None

    def __init__(self, folder: Path, unit: Unit, **options: Value) -> None:
        self.space = Space()
        self.connector: Connector = REST
        self.setting = self.space.setting(folder, **{"tries": 2, "auth.token": TOKEN, **options})
        self.space.set(credential=f"bearer:{TOKEN}")
        self.unit = unit
        self._rows: list[dict[str, Any]] = []

    @classmethod
    def timed(cls, folder: Path, style: str, *, is_asked: bool) -> ApiSystem:
        windows: dict[str, Value] = {"since": "since", "until": "until"} if is_asked else {}
        return cls(folder, unit_of("api", style, **in_pages(style, 3, **windows)))

    @classmethod
    def receiving(cls, folder: Path, **options: Value) -> ApiSystem:
        return cls(folder, Unit("api", "totals", None, {"path": "take/rows", "empty": True, **options}, HERE))

    def put(self, rows: Sequence[tuple[str, datetime | None]]) -> None:
        self._rows += [
            {"id": key, "at": time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if time else None}
            for key, time in rows
        ]
        self.space.set(rows=self._rows)

    def hold(self, rows: Sequence[Mapping[str, str]]) -> None:
        self.space.set(rows=[dict(row) for row in rows])

    def remove(self) -> None:
        self.space.set(faults=[404] * 9)

    @contextmanager
    def failing_midway(self) -> Iterator[None]:
        """Cut the body of the second response, at each retry."""
        self.space.set(faults=[None, "cut", "cut"])
        try:
            yield
        finally:
            self.space.set(faults=[])

    def rows(self) -> list[dict[str, Any]]:
        kept: list[dict[str, Any]] = self.space.told()["kept"]
        return kept


def patient(setting: Setting, waited: list[float] | None = None) -> Api:
    """Return an API client that records its waits instead of sleeping."""
    return Api(setting, sleep=([] if waited is None else waited).append)


def collector(setting: Setting) -> RestCollector:
    made = RestCollector(setting)
    made.__dict__["api"] = patient(setting)
    return made


def in_pages(style: str, size: int | None = None, **more: Value) -> dict[str, Value]:
    """Return options that request pages in a style."""
    said: dict[str, Value] = {"rows": "data", "paging": style}
    if style == "link":
        said.pop("rows")
    if style == "links":
        said |= {"paging": "link", "next": "links.next"}
    if size is not None:
        said["page_size"] = size
    return said | more


__all__ = ["Space", "Unit", "collector", "in_pages", "patient", "server"]
