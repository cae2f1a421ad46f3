"""The web application: routes each address to its page, as HTML and, with the suffix `.json`, as JSON."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote
from uuid import uuid4

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from waterclock.errors import ProjectErrors, WaterclockError
from waterclock.operations.json import json_text
from waterclock.operations.opening import OpenedProject
from waterclock.operations.runners import alive
from waterclock.permissions.people import Person, Right, SignIn
from waterclock.ui.addresses import At, pages
from waterclock.ui.guard import Guard, Guarded
from waterclock.ui.guarded_routes import Endpoint, GuardedRoute, MissingRightError, person_of, require_guarded
from waterclock.ui.live import LiveProject
from waterclock.ui.openapi import describe_api
from waterclock.ui.page_query import Content, PageQuery
from waterclock.ui.pages.alerts import acknowledge_alert
from waterclock.ui.pages.lineage import lineage
from waterclock.ui.pages.plan import carry_out_plan
from waterclock.ui.pages.quality import store_note
from waterclock.ui.pages.query import build_csv
from waterclock.ui.people import People
from waterclock.ui.query_queue import MOST_WAITING, Asker
from waterclock.ui.readers import Reader
from waterclock.ui.rendering import render
from waterclock.ui.shell import now_words, runners_words, shell

if TYPE_CHECKING:
    from starlette.requests import Request

_LOG = logging.getLogger(__name__)
_MOST_QUERIES = 2 * MOST_WAITING  # threads for queries: more than may wait, so that excess queries are rejected at once
_NOT_THERE = {"E511", "E513", "E516", "E517", "E524"}


def create_app(live: LiveProject, guard: Guard, asker: Asker | None = None, people: People | None = None) -> Guarded:
    """Return the application of one project behind a guard. `asker` runs its queries, `people` send its requests."""
    people = people or People(live)
    asker = asker or Asker()
    queries = _Queries(CapacityLimiter(_MOST_QUERIES))
    routes: list[GuardedRoute] = []

    def add(path: str, answer: Endpoint, *rights: Right, methods: Sequence[str] = ("GET",)) -> None:
        routes.append(GuardedRoute(path, answer, rights=rights, rules=people.rules, methods=methods))

    for at in pages(asker):
        for path in at.paths:
            twins: dict[str, Endpoint] = {".svg": partial(_svg, live)} if at.page is lineage else {}
            twins |= {".json": partial(_json, live, at, queries)} if path != "/" else {}
            for suffix, twin in twins.items():
                is_of_table = path.endswith("{table}")
                answer = partial(_named_so, live, at, suffix=suffix, otherwise=twin) if is_of_table else twin
                add(f"{path}{suffix}", answer, at.right)
            add(path, partial(_html, live, at, queries), at.right)
    add("/query.csv", partial(_csv, live, asker, queries), Right.QUERY)
    add("/plan", partial(_decide, live), Right.RUN, Right.RELEASE, methods=["POST"])  # `decide` checks which of them
    add("/quality", partial(_keep, live, store_note, "Quality"), Right.RUN, methods=["POST"])
    add("/alerts", partial(_keep, live, acknowledge_alert, "Today"), Right.RUN, methods=["POST"])
    add("/tables.json", partial(_tables, live), Right.LOOK)
    add("/openapi.json", _serve_openapi, Right.LOOK)
    add("/livez", _livez)
    add("/static/{name}", _static)
    require_guarded(routes)
    app = Starlette(
        routes=routes,
        middleware=[Middleware(GZipMiddleware, minimum_size=1000)],
        exception_handlers={HTTPException: partial(_handle_http_error, live), Exception: partial(_handle_defect, live)},
    )
    return Guarded(app, guard, people)


def _read_query(request: Request) -> PageQuery:
    return PageQuery.of({**request.query_params, **request.path_params})


@dataclass(frozen=True, slots=True)
class _Queries:
    """Runs queries in separate threads, so that pages keep theirs. A query is stopped if its reader disconnects."""

    threads: CapacityLimiter

    async def run(self, request: Request, answer: Callable[[Reader], Response]) -> Response:
        """Return the result of `answer`."""
        reader = Reader(_name_of_reader(request))
        working = asyncio.ensure_future(to_thread.run_sync(answer, reader, limiter=self.threads))
        leaving = asyncio.ensure_future(_wait_for_disconnect(request))
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            reader.leave()
        leaving.cancel()
        return await working


async def _wait_for_disconnect(request: Request) -> None:
    """Return when the client has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _name_of_reader(request: Request) -> str:
    """Return an id of the reader: the hash of a browser's session cookie or of a script's token."""
    credentials = request.headers.get("cookie", "") + request.headers.get("authorization", "")
    return hashlib.sha256(credentials.encode("utf-8", "surrogateescape")).hexdigest()


async def _html(live: LiveProject, at: At, queries: _Queries, request: Request) -> Response:
    _refuse_others(at, request)
    asked = _read_query(request)
    if at.starts_spark:
        return await queries.run(request, lambda reader: _render_page(live, at, asked.read_by(reader), request))
    return await run_in_threadpool(_render_page, live, at, asked, request)


async def _json(live: LiveProject, at: At, queries: _Queries, request: Request) -> Response:
    _refuse_others(at, request)
    asked = _read_query(request)
    if at.starts_spark:
        return await queries.run(
            request,
            lambda reader: _respond_json(live, request, lambda: _tell(live, at, live.load(), asked.read_by(reader))),
        )
    return await run_in_threadpool(_respond_json, live, request, lambda: _tell(live, at, live.load(), asked))


async def _named_so(
    live: LiveProject, at: At, request: Request, *, suffix: str, otherwise: Callable[[Request], Awaitable[Response]]
) -> Response:
    """Return the page of a table whose name ends with a suffix: `a.json` may be a table, and `a.json.json` its JSON."""
    asked = _read_query(request)
    name = asked.values["table"] + suffix

    def render_table() -> Response | None:
        try:
            is_table = name in live.load().flow.tables
        except WaterclockError:  # reported by the page that answers
            return None
        return _render_page(live, at, PageQuery.of({**asked.values, "table": name}), request) if is_table else None

    return await run_in_threadpool(render_table) or await otherwise(request)


async def _svg(live: LiveProject, request: Request) -> Response:
    """Return only the drawing of the lineage, as a standalone file."""
    asked = _read_query(request)

    def render_svg() -> Response:
        try:
            drawn = lineage(live.load(), asked)
        except WaterclockError as error:
            return _page_of_errors(live, error, "Lineage", asked, request)
        name = quote(f"{drawn['table'] or 'lineage'}.svg")
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
        return Response(render("lineage.svg", content=drawn), media_type="image/svg+xml", headers=headers)

    return await run_in_threadpool(render_svg)


def _render_page(live: LiveProject, at: At, asked: PageQuery, request: Request) -> Response:
    try:
        reading = live.load()
        content = _tell(live, at, reading, asked)
    except WaterclockError as error:
        return _page_of_errors(live, error, at.menu, asked, request)
    answer = _tag_response(request, _page(reading, at.name, at.menu, content, asked, request))
    if _is_part(request) and reading.ledger is not None:
        answer.headers["Waterclock-Now"] = now_words(reading)
        answer.headers["Waterclock-Runners"] = runners_words(
            content["alive"] if "alive" in content else len(alive(reading))
        )
    return answer


def _tell(live: LiveProject, at: At, reading: OpenedProject, asked: PageQuery) -> Content:
    if not at.is_of_ledger:
        return at.page(reading, asked)
    key = at.page, tuple(sorted(asked.values.items()))
    return live.memory.get_or_compute(reading, key, partial(at.page, reading, asked))


def _is_part(request: Request) -> bool:
    """Return whether the request is for a part of the page only."""
    return request.headers.get("hx-request") == "true" or "part" in request.query_params


def _page(reading: OpenedProject, name: str, menu: str, content: Content, asked: PageQuery, request: Request) -> str:
    """Render a page, or only its part for a request from within the page."""
    is_part = _is_part(request)
    template = f"_{name}.html" if is_part else f"{name}.html"
    person, may_name = person_of(request), _may_name(reading, person_of(request))
    around = {} if is_part else {"shell": shell(reading, menu, asked, content.get("alive"), person=person)}
    here = {"path": request.url.path, "query": _query(request)}
    return render(template, content=content, asked=asked, person=person, may_name=may_name, **here, **around)


def _may_name(at: OpenedProject, person: Person) -> bool:
    """Return whether the pages record the name that a person types: only if the project declares no users."""
    return person.sign_in is SignIn.OWNER and not at.project.access.users


def _decider(at: OpenedProject, asked: PageQuery, request: Request) -> Person:
    """Return the person who decides, with the name that the ledger records."""
    person = person_of(request)
    name = " ".join(asked.values.get("who", "").split())[:80]
    return replace(person, name=name) if name and _may_name(at, person) else person


def _query(request: Request) -> str:
    """Return the request's query string with its question mark, or ""."""
    return f"?{request.url.query}" if request.url.query else ""


def _respond_json(live: LiveProject, request: Request, tell: Callable[[], Content]) -> Response:
    """Return the result of `tell` as JSON, or its errors."""
    try:
        content = tell()
    except WaterclockError as error:
        return _json_answer({"errors": [one.to_dict() for one in _flat(error)]}, _status_of(live, error))
    return _tag_response(request, json_text(content, indent=None), "application/json")


def _tag_response(request: Request, body: str, kind: str = "text/html") -> Response:
    """Return a response with an ETag of the content. An unchanged page is not sent again."""
    content = body.encode()
    tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "HX-Request"}
    if request.headers.get("if-none-match", "").removeprefix("W/") == tag:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(content, media_type=kind, headers=headers)


async def _csv(live: LiveProject, asker: Asker, queries: _Queries, request: Request) -> Response:
    _refuse_others(None, request)
    asked = _read_query(request)

    def rows(reader: Reader) -> Response:
        try:
            text = build_csv(live.load(), asked.read_by(reader), asker)
        except WaterclockError as error:
            return _page_of_errors(live, error, "Query", asked, request)
        return Response(text, media_type="text/csv")

    return await queries.run(request, rows)


def _refuse_others(at: At | None, request: Request) -> None:
    """Reject a query that another site makes the browser send, because it would use Spark's time."""
    if (at is None or at.starts_spark) and request.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
        raise HTTPException(HTTPStatus.FORBIDDEN)


async def _decide(live: LiveProject, request: Request) -> Response:
    """Carry out the plan that was shown before."""
    values = await _form(request)
    return await run_in_threadpool(_submit_plan, live, values, request)


async def _form(request: Request) -> dict[str, str]:
    """Return the fields of a form."""
    try:
        body = await request.body()
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=20))
    except ClientDisconnect as error:  # the client disconnected, or was too slow
        raise HTTPException(HTTPStatus.REQUEST_TIMEOUT) from error
    except ValueError as error:  # too many fields, or invalid UTF-8
        raise HTTPException(HTTPStatus.BAD_REQUEST, "the form cannot be read") from error


async def _keep(
    live: LiveProject, keep: Callable[[OpenedProject, PageQuery, Person], None], page: str, request: Request
) -> Response:
    """Store a user's note on a rule or an acknowledgement of an alert, and redirect to its page."""
    asked = PageQuery.of(await _form(request))

    def store_form() -> Response:
        try:
            reading = live.load()
            keep(reading, asked, _decider(reading, asked, request))
        except WaterclockError as error:
            return _page_of_errors(live, error, page, asked, request)
        return RedirectResponse(f"/{page.lower()}{asked.query_string}", HTTPStatus.SEE_OTHER)

    return await run_in_threadpool(store_form)


def _submit_plan(live: LiveProject, values: Mapping[str, str], request: Request) -> Response:
    asked = PageQuery.of(values)
    try:
        reading = live.load()
        content, is_done = carry_out_plan(reading, asked, _decider(reading, asked, request))
        if is_done:
            reading = live.load()
    except WaterclockError as error:
        return _page_of_errors(live, error, "Grid", asked, request)
    status = HTTPStatus.OK if is_done else HTTPStatus.CONFLICT
    if request.headers.get("hx-request") != "true" and is_done:
        return RedirectResponse("/", HTTPStatus.SEE_OTHER)
    return HTMLResponse(_page(reading, "plan", "Grid", content, asked, request), status)


async def _tables(live: LiveProject, request: Request) -> Response:
    """Return the names of all tables, upstream first."""
    return await run_in_threadpool(_respond_json, live, request, lambda: {"tables": list(live.load().flow.order)})


async def _serve_openapi(_: Request) -> Response:
    return Response(json.dumps(describe_api(), ensure_ascii=False), media_type="application/json")


async def _livez(_: Request) -> Response:
    return Response("alive\n", media_type="text/plain")


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    folder = files("waterclock.ui").joinpath("static")
    if name not in {each.name for each in folder.iterdir()} or name.endswith(".md"):
        raise HTTPException(HTTPStatus.NOT_FOUND)
    kinds = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
    return FileResponse(
        str(folder.joinpath(name)),
        media_type=kinds[name.rpartition(".")[2]],
        headers={"Cache-Control": "public, max-age=31536000, immutable"},
    )


def _flat(error: WaterclockError) -> list[WaterclockError]:
    return list(error.errors) if isinstance(error, ProjectErrors) else [error]


def _status_of(live: LiveProject, error: WaterclockError) -> HTTPStatus:
    """Return the status: forbidden, unavailable if the project cannot be read now, not found, or not processable."""
    if error.code == "E940":
        return HTTPStatus.FORBIDDEN
    try:
        live.load()
    except WaterclockError:
        return HTTPStatus.SERVICE_UNAVAILABLE
    if error.transient:
        return HTTPStatus.SERVICE_UNAVAILABLE
    return HTTPStatus.NOT_FOUND if error.code in _NOT_THERE else HTTPStatus.UNPROCESSABLE_ENTITY


def _page_of_errors(
    live: LiveProject, error: WaterclockError, menu: str, asked: PageQuery, request: Request
) -> Response:
    """Render the errors, each as a card within the shell of the pages."""
    status = _status_of(live, error)
    content = {"errors": [one.to_dict() for one in _flat(error)]}
    return _answer_of_cards(live, content, status, menu, asked, request)


def _answer_of_cards(
    live: LiveProject, content: Content, status: HTTPStatus, menu: str, asked: PageQuery, request: Request
) -> Response:
    if _is_part(request):
        return HTMLResponse(render("_cards.html", content=content), status)
    person = person_of(request)
    try:
        around = shell(live.load() if person.may(Right.LOOK) else None, menu, asked, person=person)
    except WaterclockError:
        around = shell(None, menu, asked, person=person)
    is_passing = status == HTTPStatus.SERVICE_UNAVAILABLE
    return HTMLResponse(render("cards.html", content=content, shell=around, asked=asked, is_passing=is_passing), status)


async def _handle_http_error(live: LiveProject, request: Request, error: Exception) -> Response:
    """Return an error card for an address without a page, or one that needs a right that the person does not have."""
    if isinstance(error, MissingRightError):
        return await run_in_threadpool(_card, live, error.error.to_dict(), HTTPStatus.FORBIDDEN, request)
    status = HTTPStatus(error.status_code) if isinstance(error, HTTPException) else HTTPStatus.NOT_FOUND
    what = "there is no such page" if status == HTTPStatus.NOT_FOUND else status.phrase
    card = {"code": str(status.value), "what": what, "where": request.url.path, "why": None, "fix": None}
    answer = await run_in_threadpool(_card, live, card, status, request)
    if isinstance(error, HTTPException) and error.headers:
        answer.headers.update(error.headers)  # with 405, the allowed methods
    return answer


async def _handle_defect(live: LiveProject, request: Request, error: Exception) -> Response:
    """Return an error card for a defect, with the id of its entry in the log."""
    name = uuid4().hex[:12]
    _LOG.error("request %s to %s failed", name, request.url.path, exc_info=error)
    card = {
        "code": "500",
        "what": "this page failed because of a defect of Waterclock",
        "where": f"request {name}",
        "why": type(error).__name__,
        "fix": "see this request in the log of `waterclock ui`, and report it",
    }
    return await run_in_threadpool(_card, live, card, HTTPStatus.INTERNAL_SERVER_ERROR, request)


def _card(live: LiveProject, card: Mapping[str, Any], status: HTTPStatus, request: Request) -> Response:
    content = {"errors": [{"excerpt": None, **card}]}
    if request.url.path.endswith(".json"):
        return _json_answer(content, status)
    return _answer_of_cards(live, content, status, "", PageQuery(), request)


def _json_answer(content: Content, status: HTTPStatus) -> Response:
    return Response(json_text(content, indent=None), status, media_type="application/json")
