"""Answers a monitor over HTTP while a run watches: whether it lives, whether it can work, how far its tables are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from waterclock.errors import WaterclockError
from waterclock.planner.links import with_links
from waterclock.planner.metrics import metrics_of
from waterclock.planner.planning import Planner
from waterclock.planner.request import Request

if TYPE_CHECKING:
    from waterclock.engine.workplace import Workplace

_LOOPBACK = "127.0.0.1"
_TEXT = "text/plain; charset=utf-8"


def address_of(said: str, *, may_be_socket: bool = False) -> tuple[str, int]:
    """Read where to listen: `9090`, or `0.0.0.0:9090`; `unix:/path`, where that is possible, has the port 0.

    Raises  E909 for what is neither
    """
    if may_be_socket and said.startswith("unix:/"):
        return said, 0
    host, _, port = said.rpartition(":")
    if not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise WaterclockError(
            "E909", f"{said!r} is no address to listen at",
            why="it is a port, or a host and a port; a port is a number from 1 to 65535",
            fix="write 9090 for this machine alone, 0.0.0.0:9090 for all that can reach it",
        )  # fmt: skip
    return host.strip("[]") or _LOOPBACK, int(port)


@contextmanager
def listening(work: Workplace, address: tuple[str, int]) -> Iterator[tuple[str, int]]:
    """Answer `/livez`, `/readyz` and `/metrics` from a thread of its own; gives where.

    Raises  E909 where the address cannot be had
    """
    handler = type("_OfThisWork", (_Handler,), {"work": work})
    try:
        server = ThreadingHTTPServer(address, handler)
    except OSError as error:
        raise WaterclockError(
            "E909", f"nothing can listen at {address[0]}:{address[1]}", why=error.strerror or str(error),
            fix="name another port, or end what has this one",
        ) from error  # fmt: skip
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="listening", daemon=True)
    thread.start()
    try:
        yield server.server_address[0], int(server.server_address[1])  # type: ignore[misc]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    work: Workplace
    server_version = "waterclock"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer one question."""
        answer = _ANSWERS.get(self.path.partition("?")[0])
        if answer is None:
            self._send(HTTPStatus.NOT_FOUND, "there are /livez, /readyz and /metrics\n")
            return
        try:
            self._send(*answer(self.work))
        except WaterclockError as error:
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, f"{error.code} {error.what}\n")

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - as Python calls it
        """Say nothing: what runs is told by the run."""

    def _send(self, status: HTTPStatus, text: str, kind: str = _TEXT) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


_Answer = tuple[HTTPStatus, str, str]


def _livez(_: Workplace) -> _Answer:
    """Tell that the process lives: what it waits for, a ledger that is away too, is no reason to end it."""
    return HTTPStatus.OK, "alive\n", _TEXT


def _readyz(work: Workplace) -> _Answer:
    """Tell whether it can take up a batch now: the ledger answers, and its flow is the applied one."""
    if not work.ledger.answers():
        return HTTPStatus.SERVICE_UNAVAILABLE, "the ledger does not answer\n", _TEXT
    applied = work.ledger.declared.applied()
    if applied is None or applied.fingerprint != work.flow.fingerprint:
        return HTTPStatus.SERVICE_UNAVAILABLE, "another flow is applied\n", _TEXT
    return HTTPStatus.OK, "ready\n", _TEXT


def _metrics(work: Workplace) -> _Answer:
    """Return the project's metrics as Prometheus reads them. Cost: a snapshot of the ledger and a plan."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import GaugeMetricFamily, Metric
    from prometheus_client.exposition import CONTENT_TYPE_LATEST

    if not work.ledger.answers():
        return HTTPStatus.SERVICE_UNAVAILABLE, "the ledger does not answer\n", _TEXT
    flow, now = work.flow, work.real_now()
    snapshot = with_links(work.ledger.reads.snapshot(flow), work.links.look(work.ledger))
    plan = Planner(flow).plan(snapshot, now, Request(cap=work.settings.catch_up))

    class Told:
        def collect(self) -> Iterator[Metric]:
            for metric in metrics_of(flow, snapshot, plan, now):
                family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
                for labels, value in metric.values.items():
                    family.add_metric(labels, value)
                yield family

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Told())
    return HTTPStatus.OK, generate_latest(registry).decode(), CONTENT_TYPE_LATEST


_ANSWERS: Mapping[str, Callable[[Workplace], _Answer]] = {"/livez": _livez, "/readyz": _readyz, "/metrics": _metrics}
