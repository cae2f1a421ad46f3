"""Serves liveness, readiness and the project's metrics over HTTP during `run --watch`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from waterclock.errors import WaterclockError
from waterclock.flow.open_windows import continuous_tables
from waterclock.http.access_tokens import METRICS_TOKEN, WrongTokens, bearer_of, is_same, token_of_environment
from waterclock.http.listening import bind_port
from waterclock.http.served_hosts import hosts_of
from waterclock.operations.open_windows import open_window_metrics, windows_of_ticks
from waterclock.planner.linked_projects import add_links
from waterclock.planner.metrics import metrics_of
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest

if TYPE_CHECKING:
    from anyio import CapacityLimiter
    from starlette.applications import Starlette
    from starlette.requests import Request as HttpRequest
    from starlette.responses import Response

    from waterclock.engine.run_context import RunContext
    from waterclock.http.server_certificate import Certificate

_TEXT = "text/plain; charset=utf-8"
_PATIENCE = 10.0  # seconds within which a request must arrive completely
_MOST_ANSWERS = 2  # answers computed at the same time: each queries the ledger
_SECONDS_TO_END = 3


@contextmanager
def serve_health_endpoints(
    work: RunContext, address: tuple[str, int], *, certificate: Certificate | None = None
) -> Iterator[tuple[str, int]]:
    """Serve `/livez`, `/readyz` and `/metrics` from a separate thread, and yield the address.

    The metrics, and the reasons why the run is not ready, contain names of tables. They require the token from
    WATERCLOCK_METRICS_TOKEN. With a certificate they are served by HTTPS. Raises E909 if the address cannot be bound,
    E923 for a short token, E944 for an unusable certificate.
    """
    from waterclock.ui.slow_clients import build_server

    token = token_of_environment(METRICS_TOKEN)
    if certificate is not None:
        certificate.require_usable()
    listener = bind_port(*address)
    server = build_server(
        _application(work, address[0], token),
        listener,
        certificate,
        _PATIENCE,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=_SECONDS_TO_END,
        h11_max_incomplete_event_size=16 * 1024,
    )
    thread = threading.Thread(target=server.run, args=([listener],), name="listening", daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[0], int(listener.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(_SECONDS_TO_END + 2)
        listener.close()


def _application(work: RunContext, host: str, token: str | None) -> Starlette:
    from anyio import CapacityLimiter
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    hosts, threads, wrong = hosts_of(host), CapacityLimiter(_MOST_ANSWERS), WrongTokens()

    async def answer_request(
        request: HttpRequest, answer: Callable[[RunContext], _Answer], *, is_open: bool
    ) -> Response:
        if not hosts.allows(request.headers.get("host", "")):
            return PlainTextResponse("this host name is not served here\n", HTTPStatus.MISDIRECTED_REQUEST)
        sent = bearer_of(request.headers.get("authorization", ""))
        has_token = token is not None and sent is not None and is_same(sent, token)
        if sent is not None and not has_token and not await wrong.delay():
            return PlainTextResponse("too many wrong tokens\n", HTTPStatus.TOO_MANY_REQUESTS)
        if not has_token and not is_open:
            message = (
                f"a token is needed: Authorization: Bearer, with the value of {METRICS_TOKEN} in the environment "
                "of the run\n"
            )
            return PlainTextResponse(message, HTTPStatus.UNAUTHORIZED, {"WWW-Authenticate": "Bearer"})
        status, text, kind = await _run_in_thread(partial(_answer_or_error, answer, work), threads)
        if not has_token:
            text = text if status == HTTPStatus.OK else "not ready\n"  # the reason names tables and the ledger's place
        return PlainTextResponse(text, status, media_type=kind)

    async def handle_http_error(_: HttpRequest, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else HTTPStatus.NOT_FOUND
        return PlainTextResponse("the paths are /livez, /readyz and /metrics\n", status)

    def route(path: str, answer: Callable[[RunContext], _Answer], *, is_open: bool) -> Route:
        async def endpoint(request: HttpRequest) -> Response:
            return await answer_request(request, answer, is_open=is_open)

        return Route(path, endpoint)

    routes = [route(path, answer, is_open=path != "/metrics") for path, answer in _ANSWERS.items()]
    return Starlette(routes=routes, exception_handlers={HTTPException: handle_http_error})


async def _run_in_thread(answer: Callable[[], _Answer], threads: CapacityLimiter) -> _Answer:
    from anyio import to_thread

    return await to_thread.run_sync(answer, limiter=threads)


def _answer_or_error(answer: Callable[[RunContext], _Answer], work: RunContext) -> _Answer:
    try:
        return answer(work)
    except WaterclockError as error:
        return HTTPStatus.SERVICE_UNAVAILABLE, f"{error.code} {error.what}\n", _TEXT


_Answer = tuple[HTTPStatus, str, str]


def _answer_livez(_: RunContext) -> _Answer:
    """Report that the process lives. A monitor must not restart it because a dependency, even the ledger, is down."""
    return HTTPStatus.OK, "alive\n", _TEXT


def _answer_readyz(work: RunContext) -> _Answer:
    """Report whether a batch can start now: the ledger answers, and this process's flow is the applied one."""
    if not work.ledger.answers():
        return HTTPStatus.SERVICE_UNAVAILABLE, "the ledger does not answer\n", _TEXT
    applied = work.ledger.declared.applied_flow()
    if applied is None or applied.fingerprint != work.flow.fingerprint:
        return HTTPStatus.SERVICE_UNAVAILABLE, "another flow is applied\n", _TEXT
    return HTTPStatus.OK, "ready\n", _TEXT


def _answer_metrics(work: RunContext) -> _Answer:
    """Return the project's metrics in Prometheus format. Cost: a snapshot of the ledger and a plan."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import GaugeMetricFamily, Metric
    from prometheus_client.exposition import CONTENT_TYPE_LATEST

    if not work.ledger.answers():
        return HTTPStatus.SERVICE_UNAVAILABLE, "the ledger does not answer\n", _TEXT
    flow, now = work.flow, work.real_now()
    snapshot = add_links(work.ledger.reads.snapshot(flow), work.links.read_progress(work.ledger))
    plan = Planner(flow).plan(snapshot, now, PlanRequest(cap=work.settings.catch_up))

    opened = [windows_of_ticks(work.lake, each, snapshot.of(each.name), now) for each in continuous_tables(flow)]

    class ProjectMetrics:
        def collect(self) -> Iterator[Metric]:
            for metric in (*metrics_of(flow, snapshot, plan, now), *open_window_metrics(opened)):
                family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
                for labels, value in metric.values.items():
                    family.add_metric(labels, value)
                yield family

    registry = CollectorRegistry(auto_describe=False)
    registry.register(ProjectMetrics())
    return HTTPStatus.OK, generate_latest(registry).decode(), CONTENT_TYPE_LATEST


_ANSWERS: Mapping[str, Callable[[RunContext], _Answer]] = {
    "/livez": _answer_livez,
    "/readyz": _answer_readyz,
    "/metrics": _answer_metrics,
}
