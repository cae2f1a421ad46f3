"""The web application: routes each address to its page, as HTML and, with the suffix `.json`, as JSON."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import HTMLResponse, RedirectResponse, Response

from waterclock.errors import ProjectErrors, WaterclockError
from waterclock.operations.access_records import query_access
from waterclock.operations.json import json_text
from waterclock.operations.project_opening import OpenedProject
from waterclock.permissions.users_and_roles import Person, Right, SignIn
from waterclock.ui.fixed_responses import serve_livez, serve_openapi, serve_static
from waterclock.ui.forms.routes import FormPages
from waterclock.ui.guarded_routes import Endpoint, GuardedRoute, MissingRightError, person_of, require_guarded
from waterclock.ui.live_project import LiveProject
from waterclock.ui.page_frame import headers_of_part, shell
from waterclock.ui.page_query import Content, PageQuery
from waterclock.ui.page_routes import PageRoute, pages
from waterclock.ui.pages.access import list_sessions
from waterclock.ui.pages.alerts import acknowledge_alert
from waterclock.ui.pages.lineage import lineage
from waterclock.ui.pages.plan import execute_plan
from waterclock.ui.pages.quality import store_note
from waterclock.ui.pages.query import build_csv
from waterclock.ui.people import People
from waterclock.ui.posted_forms import read_form
from waterclock.ui.query_client import QueryClient
from waterclock.ui.query_queue import MOST_WAITING, QueryQueue
from waterclock.ui.rendering import render
from waterclock.ui.request_guard import Guard, GuardedApplication, access_of, address_of, agent_of
from waterclock.ui.table_events import PATH as EVENTS
from waterclock.ui.table_events import TableEvents

if TYPE_CHECKING:
    from starlette.requests import Request

_LOG = logging.getLogger(__name__)
_MOST_QUERIES = 2 * MOST_WAITING  # threads for queries: more than may wait, so that excess queries are rejected at once
_NOT_FOUND_CODES = {"E470", "E511", "E513", "E516", "E517", "E524"}


def create_app(
    live: LiveProject,
    guard: Guard,
    asker: QueryQueue | None = None,
    people: People | None = None,
    events: TableEvents | None = None,
) -> GuardedApplication:
    """Build the web application of a project, behind a guard.

    `asker` runs queries, `people` knows who may do what, `events` are the streams of pages that follow a table.
    """
    people = people or People(live)
    asker = asker or QueryQueue()
    events = events or TableEvents(people, guard)
    queries = _Queries(CapacityLimiter(_MOST_QUERIES))
    routes: list[GuardedRoute] = []

    def add(path: str, answer: Endpoint, *rights: Right, methods: Sequence[str] = ("GET",)) -> None:
        require = people.find_requirement(path) if rights else None
        routes.append(GuardedRoute(path, answer, rights=rights, rules=people.rules, methods=methods, require=require))

    for at in pages(asker, partial(list_sessions, guard.sessions)):
        for path in at.paths:
            twins: dict[str, Endpoint] = {".svg": partial(_respond_svg, live)} if at.page is lineage else {}
            twins |= {".json": partial(_json, people, at, queries)} if path != "/" else {}
            for suffix, twin in twins.items():
                is_of_table = path.endswith("{table}")
                answer = partial(_serve_suffixed, live, at, suffix=suffix, otherwise=twin) if is_of_table else twin
                add(f"{path}{suffix}", answer, at.right)
            add(path, partial(_respond_html, people, at, queries), at.right)
    add("/query.csv", partial(_respond_csv, people, asker, queries), Right.QUERY)
    add("/plan", partial(_decide, people), Right.RUN, Right.RELEASE, methods=["POST"])  # `decide` checks which of them
    add("/quality", partial(_store_form, people, store_note, "Quality"), Right.RUN, methods=["POST"])
    add("/alerts", partial(_store_form, people, acknowledge_alert, "Today"), Right.RUN, methods=["POST"])
    for path, endpoint, right, method in FormPages(people, partial(_respond_with_errors, live)).routes():
        add(path, endpoint, right, methods=[method])
    add("/sessions", partial(_end_sessions, people, guard), Right.ADMINISTER, methods=["POST"])
    add("/tables.json", partial(_respond_table_names, live), Right.LOOK)
    add(EVENTS, events.respond, Right.LOOK)
    add("/openapi.json", serve_openapi, Right.LOOK)
    add("/livez", serve_livez)
    add("/static/{name}", serve_static)
    require_guarded(routes)
    app = Starlette(
        routes=routes,
        middleware=[Middleware(GZipMiddleware, minimum_size=1000)],
        exception_handlers={
            HTTPException: partial(_handle_http_error, people),
            Exception: partial(_handle_defect, live),
        },
    )
    return GuardedApplication(app, guard, people)


def _read_query(request: Request) -> PageQuery:
    return PageQuery.from_values({**request.query_params, **request.path_params})


@dataclass(frozen=True, slots=True)
class _Queries:
    """Runs queries in separate threads, apart from pages. A query is stopped if its client disconnects."""

    threads: CapacityLimiter

    async def run(self, request: Request, answer: Callable[[QueryClient], Response]) -> Response:
        """Run `answer` in a thread, and return its response."""
        reader = QueryClient(_name_of_reader(person_of(request)), person_of(request))
        working = asyncio.ensure_future(to_thread.run_sync(answer, reader, limiter=self.threads))
        leaving = asyncio.ensure_future(_wait_for_disconnect(request))
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            reader.leave()
        leaving.cancel()
        return await working


def _read_as_person(params: PageQuery, request: Request) -> PageQuery:
    """Return the parameters with the person who sends the request, if they have no client yet."""
    person = person_of(request)
    return params if params.reader else params.read_by(QueryClient(_name_of_reader(person), person))


async def _wait_for_disconnect(request: Request) -> None:
    """Return when the client has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _name_of_reader(person: Person) -> str:
    """Return an id of a person. It depends on nothing that a client can choose, so that the limit of queries holds."""
    return f"{person.sign_in.value} {person.name}"


async def _respond_html(people: People, at: PageRoute, queries: _Queries, request: Request) -> Response:
    _require_same_site_query(at, request)
    params, live = _read_query(request), people.live
    if at.starts_spark:
        await _record_query(people, params, request)
        return await queries.run(request, lambda reader: _render_page(live, at, params.read_by(reader), request))
    await _record_rows(people, at, params, request)
    return await run_in_threadpool(_render_page, live, at, params, request)


async def _json(people: People, at: PageRoute, queries: _Queries, request: Request) -> Response:
    _require_same_site_query(at, request)
    params, live = _read_query(request), people.live
    if at.starts_spark:
        await _record_query(people, params, request)
        return await queries.run(
            request,
            lambda by: _respond_json(live, request, lambda: _content_of(live, at, live.load(), params.read_by(by))),
        )
    await _record_rows(people, at, params, request)
    params = _read_as_person(params, request)
    return await run_in_threadpool(_respond_json, live, request, lambda: _content_of(live, at, live.load(), params))


async def _record_query(people: People, params: PageQuery, request: Request) -> None:
    """Record a query before it runs. If the project declares users, a query that cannot be recorded is refused."""
    sql = params.values.get("q", "").strip()
    if not sql:
        return
    person, address, agent = person_of(request), address_of(request), agent_of(request)

    def record() -> None:
        try:
            people.log.record(query_access(person, people.live.project().flow, sql, address=address, agent=agent))
        except WaterclockError as error:
            if people.rules().has_people:
                raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "the query cannot be recorded") from error

    await run_in_threadpool(record)


async def _record_rows(people: People, at: PageRoute, params: PageQuery, request: Request) -> None:
    """Record that a person opens a page that shows rows of a table. Other pages are not recorded."""
    if at.name == "table":
        access = access_of(request, person_of(request), "see rows")
        await people.count(replace(access, tables=(params.values.get("table", "")[:200],)))


async def _serve_suffixed(
    live: LiveProject,
    at: PageRoute,
    request: Request,
    *,
    suffix: str,
    otherwise: Callable[[Request], Awaitable[Response]],
) -> Response:
    """Return the page of a table whose name ends with `suffix`, such as `a.json`, or else call `otherwise`."""
    params = _read_query(request)
    name = params.values["table"] + suffix

    def render_table() -> Response | None:
        try:
            is_table = name in live.load().flow.tables
        except WaterclockError:  # reported by the page that answers
            return None
        query = PageQuery.from_values({**params.values, "table": name})
        return _render_page(live, at, query, request) if is_table else None

    return await run_in_threadpool(render_table) or await otherwise(request)


async def _respond_svg(live: LiveProject, request: Request) -> Response:
    """Return the drawing of the lineage as a standalone SVG file."""
    params = _read_query(request)

    def render_svg() -> Response:
        try:
            drawing = lineage(live.load(), params)
        except WaterclockError as error:
            return _respond_with_errors(live, error, "Lineage", params, request)
        name = quote(f"{drawing['table'] or 'lineage'}.svg")
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
        return Response(render("lineage.svg", content=drawing), media_type="image/svg+xml", headers=headers)

    return await run_in_threadpool(render_svg)


def _render_page(live: LiveProject, at: PageRoute, params: PageQuery, request: Request) -> Response:
    params = _read_as_person(params, request)
    try:
        reading = live.load()
        content = _content_of(live, at, reading, params)
    except WaterclockError as error:
        return _respond_with_errors(live, error, at.menu, params, request)
    answer = _tag_response(request, _render(reading, at.name, at.menu, content, params, request))
    if _is_part(request) and reading.ledger is not None:
        answer.headers.update(headers_of_part(reading, content.get("alive")))
    return answer


def _content_of(live: LiveProject, at: PageRoute, reading: OpenedProject, params: PageQuery) -> Content:
    if not at.is_of_ledger or any(params.values.get(name) for name in at.reads_more):
        content = at.page(reading, params)
    else:
        key = at.page, tuple(sorted(params.values.items()))
        content = live.memory.get_or_compute(reading, key, partial(at.page, reading, params))
    if at.ticks is None:
        return content
    key = at.ticks, tuple(sorted(params.values.items()))
    return content | live.ticks.get_or_compute(reading, key, partial(at.ticks, reading, params))


def _is_part(request: Request) -> bool:
    """Return whether the request is for a part of the page only."""
    return request.headers.get("hx-request") == "true" or "part" in request.query_params


def _render(reading: OpenedProject, name: str, menu: str, content: Content, params: PageQuery, request: Request) -> str:
    """Render a page, or only its part for a request from within the page."""
    is_part = _is_part(request)
    template = f"_{name}.html" if is_part else f"{name}.html"
    person, may_name = person_of(request), _may_name(reading, person_of(request))
    around = {} if is_part else {"shell": shell(reading, menu, params, content.get("alive"), person=person)}
    here = {"path": request.url.path, "query": _query_string(request)}
    return render(template, content=content, params=params, person=person, may_name=may_name, **here, **around)


def _may_name(at: OpenedProject, person: Person) -> bool:
    """Return whether the pages record the name that a person types: only if the project declares no users."""
    return person.sign_in is SignIn.OWNER and not at.project.access.has_people


def _deciding_person(at: OpenedProject, params: PageQuery, request: Request) -> Person:
    """Return the person who sends a decision, with the name to record in the ledger."""
    person = person_of(request)
    name = " ".join(params.values.get("who", "").split())[:80]
    return replace(person, name=name) if name and _may_name(at, person) else person


def _query_string(request: Request) -> str:
    """Return the request's query string with its question mark, or ""."""
    return f"?{request.url.query}" if request.url.query else ""


def _respond_json(live: LiveProject, request: Request, compute: Callable[[], Content]) -> Response:
    """Return the content that `compute` computes as JSON, or its errors."""
    try:
        content = compute()
    except WaterclockError as error:
        return _json_answer({"errors": [one.to_dict() for one in _list_errors(error)]}, _status_of(live, error))
    return _tag_response(request, json_text(content, indent=None), "application/json")


def _tag_response(request: Request, body: str, kind: str = "text/html") -> Response:
    """Return a response with an ETag of the content. An unchanged page is not sent again."""
    content = body.encode()
    tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "HX-Request"}
    if request.headers.get("if-none-match", "").removeprefix("W/") == tag:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(content, media_type=kind, headers=headers)


async def _respond_csv(people: People, asker: QueryQueue, queries: _Queries, request: Request) -> Response:
    _require_same_site_query(None, request)
    params, live = _read_query(request), people.live
    await _record_query(people, params, request)

    def rows(reader: QueryClient) -> Response:
        try:
            text = build_csv(live.load(), params.read_by(reader), asker)
        except WaterclockError as error:
            return _respond_with_errors(live, error, "Query", params, request)
        return Response(text, media_type="text/csv")

    return await queries.run(request, rows)


def _require_same_site_query(at: PageRoute | None, request: Request) -> None:
    """Reject a query that another site makes the browser send, because it would use Spark's time."""
    if (at is None or at.starts_spark) and request.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
        raise HTTPException(HTTPStatus.FORBIDDEN)


async def _decide(people: People, request: Request) -> Response:
    """Carry out the plan of the submitted form, if it is still the plan that was shown."""
    values = await read_form(request)
    answer = await run_in_threadpool(_submit_plan, people.live, values, request)
    action = " ".join(values.get(key, "")[:200] for key in ("verb", "t", "l")).strip()
    await _record_change(people, request, action, answer)
    return answer


async def _record_change(people: People, request: Request, action: str, answer: Response) -> None:
    """Record a change that was made, or refused because a right is missing."""
    access = access_of(request, person_of(request), action)
    if answer.status_code == HTTPStatus.FORBIDDEN:
        await people.count(replace(access, refusal="a right is missing"))
    elif answer.status_code < HTTPStatus.BAD_REQUEST:
        await people.record(access)


async def _store_form(
    people: People, store: Callable[[OpenedProject, PageQuery, Person], None], page: str, request: Request
) -> Response:
    """Store a user's note on a rule or an acknowledgement of an alert, and redirect to its page."""
    params, live = PageQuery.from_values(await read_form(request)), people.live

    def store_form() -> Response:
        try:
            reading = live.load()
            store(reading, params, _deciding_person(reading, params, request))
        except WaterclockError as error:
            return _respond_with_errors(live, error, page, params, request)
        return RedirectResponse(f"/{page.lower()}{params.query_string}", HTTPStatus.SEE_OTHER)

    answer = await run_in_threadpool(store_form)
    what = {"Quality": "note", "Today": "acknowledge"}[page]
    named = [params.values.get(key, "")[:200] for key in ("table", "rule", "alert")]
    await _record_change(people, request, " ".join([what, *filter(None, named)]), answer)
    return answer


def _submit_plan(live: LiveProject, values: Mapping[str, str], request: Request) -> Response:
    params = PageQuery.from_values(values)
    try:
        reading = live.load()
        content, is_done = execute_plan(reading, params, _deciding_person(reading, params, request))
        if is_done:
            reading = live.load()
    except WaterclockError as error:
        return _respond_with_errors(live, error, "Grid", params, request)
    status = HTTPStatus.OK if is_done else HTTPStatus.CONFLICT
    if request.headers.get("hx-request") != "true" and is_done:
        return RedirectResponse("/", HTTPStatus.SEE_OTHER)
    return HTMLResponse(_render(reading, "plan", "Grid", content, params, request), status)


async def _end_sessions(people: People, guard: Guard, request: Request) -> Response:
    """End the session whose number is in the form, or all sessions."""
    which = (await read_form(request)).get("session", "")
    is_number = which.isascii() and which.isdecimal() and len(which) < 10
    if not is_number and which != "all":
        raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, "session is a number or all")
    ended = guard.sessions.revoke({int(which)} if is_number else None)
    await people.record(access_of(request, person_of(request), f"end session {which}"))
    headers = {"Waterclock-Ended": str(ended)}
    return RedirectResponse("/access", HTTPStatus.SEE_OTHER, headers=headers)


async def _respond_table_names(live: LiveProject, request: Request) -> Response:
    """Return the names of all tables, upstream first."""
    return await run_in_threadpool(_respond_json, live, request, lambda: {"tables": list(live.load().flow.order)})


def _list_errors(error: WaterclockError) -> list[WaterclockError]:
    return list(error.errors) if isinstance(error, ProjectErrors) else [error]


def _status_of(live: LiveProject, error: WaterclockError) -> HTTPStatus:
    """Return the HTTP status of an error: 403, 404, 422, or 503 if the project cannot be read now."""
    if error.code == "E940":
        return HTTPStatus.FORBIDDEN
    try:
        live.load()
    except WaterclockError:
        return HTTPStatus.SERVICE_UNAVAILABLE
    if error.transient:
        return HTTPStatus.SERVICE_UNAVAILABLE
    return HTTPStatus.NOT_FOUND if error.code in _NOT_FOUND_CODES else HTTPStatus.UNPROCESSABLE_ENTITY


def _respond_with_errors(
    live: LiveProject, error: WaterclockError, menu: str, params: PageQuery, request: Request
) -> Response:
    """Render a page that shows the errors of a request."""
    status = _status_of(live, error)
    content = {"errors": [one.to_dict() for one in _list_errors(error)]}
    return _render_errors(live, content, status, menu, params, request)


def _render_errors(
    live: LiveProject, content: Content, status: HTTPStatus, menu: str, params: PageQuery, request: Request
) -> Response:
    if _is_part(request):
        return HTMLResponse(render("_cards.html", content=content), status)
    person = person_of(request)
    try:
        around = shell(live.load() if person.may(Right.LOOK) else None, menu, params, person=person)
    except WaterclockError:
        around = shell(None, menu, params, person=person)
    is_passing = status == HTTPStatus.SERVICE_UNAVAILABLE
    return HTMLResponse(
        render("cards.html", content=content, shell=around, params=params, is_passing=is_passing), status
    )


async def _handle_http_error(people: People, request: Request, error: Exception) -> Response:
    """Return an error page for an unknown address, or for a right that the person does not have."""
    live = people.live
    if isinstance(error, MissingRightError):
        path = f"{request.method} {request.url.path[:200]}"
        access = access_of(request, person_of(request), path)
        await people.count(replace(access, refusal=error.error.why))
        return await run_in_threadpool(_respond_with_card, live, error.error.to_dict(), HTTPStatus.FORBIDDEN, request)
    status = HTTPStatus(error.status_code) if isinstance(error, HTTPException) else HTTPStatus.NOT_FOUND
    what = "there is no such page" if status == HTTPStatus.NOT_FOUND else status.phrase
    card = {"code": str(status.value), "what": what, "where": request.url.path, "why": None, "fix": None}
    answer = await run_in_threadpool(_respond_with_card, live, card, status, request)
    if isinstance(error, HTTPException) and error.headers:
        answer.headers.update(error.headers)  # with 405, the allowed methods
    return answer


async def _handle_defect(live: LiveProject, request: Request, error: Exception) -> Response:
    """Return an error page for a defect, with the id of its entry in the log."""
    name = uuid4().hex[:12]
    _LOG.error("request %s to %s failed", name, request.url.path, exc_info=error)
    card = {
        "code": "500",
        "what": "this page failed because of a defect of Waterclock",
        "where": f"request {name}",
        "why": type(error).__name__,
        "fix": "see this request in the log of `waterclock ui`, and report it",
    }
    return await run_in_threadpool(_respond_with_card, live, card, HTTPStatus.INTERNAL_SERVER_ERROR, request)


def _respond_with_card(live: LiveProject, card: Mapping[str, Any], status: HTTPStatus, request: Request) -> Response:
    content = {"errors": [{"excerpt": None, **card}]}
    if request.url.path.endswith(".json"):
        return _json_answer(content, status)
    return _render_errors(live, content, status, "", PageQuery(), request)


def _json_answer(content: Content, status: HTTPStatus) -> Response:
    return Response(json_text(content, indent=None), status, media_type="application/json")
