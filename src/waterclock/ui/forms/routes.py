"""The addresses of the pages of forms. Reading needs the right `look`, changing `edit`, approving `approve`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from anyio import CapacityLimiter, to_thread
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response

from waterclock.connectors.forms.changes import Applied
from waterclock.errors import WaterclockError
from waterclock.operations.forms import OpenedForm, open_form
from waterclock.operations.project_opening import OpenedProject
from waterclock.permissions.users_and_roles import Right
from waterclock.ui.forms import cells
from waterclock.ui.forms import content as pages
from waterclock.ui.forms import paste_content as pastes
from waterclock.ui.forms import proposal_content as proposals
from waterclock.ui.forms import row_content as rows
from waterclock.ui.forms.exports import export_rows
from waterclock.ui.guarded_routes import Endpoint, person_of
from waterclock.ui.page_frame import shell
from waterclock.ui.page_query import Content, PageQuery
from waterclock.ui.people import People
from waterclock.ui.posted_forms import parse_form, read_form, receive_body
from waterclock.ui.rendering import render
from waterclock.ui.request_guard import MOST_BYTES_OF_FILE, access_of

if TYPE_CHECKING:
    from starlette.requests import Request

Fail = Callable[[WaterclockError, str, PageQuery, "Request"], Response]
_MENU_ENTRY = "Forms"
_MOST_FIELDS = 2000
_READERS = 2  # threads that read or write many rows
_SEARCHERS = 6  # threads that search for rows or values, beside those of other pages
_STATUS = {
    "E888": HTTPStatus.UNPROCESSABLE_ENTITY,
    "E889": HTTPStatus.UNPROCESSABLE_ENTITY,
    "E891": HTTPStatus.UNPROCESSABLE_ENTITY,
    "E892": HTTPStatus.CONFLICT,
    "E894": HTTPStatus.NOT_FOUND,
    "E898": HTTPStatus.CONFLICT,
    "E899": HTTPStatus.FORBIDDEN,
    "E940": HTTPStatus.FORBIDDEN,
    "E946": HTTPStatus.FORBIDDEN,
}


class FormPages:
    """Answers the requests for forms. `fail` renders the page of an error."""

    def __init__(self, people: People, fail: Fail) -> None:
        self._people, self._fail = people, fail
        self._readers, self._searchers = CapacityLimiter(_READERS), CapacityLimiter(_SEARCHERS)

    def routes(self) -> Iterator[tuple[str, Endpoint, Right, str]]:
        """Yield the address, the endpoint, the right and the method of each route."""
        yield "/forms", self._show_forms, Right.LOOK, "GET"
        yield "/forms/{table}", self._show_list, Right.LOOK, "GET"
        yield "/forms/{table}/values", self._show_values, Right.LOOK, "GET"
        yield "/forms/{table}/rows.csv", partial(self._export, "csv"), Right.LOOK, "GET"
        yield "/forms/{table}/rows.xlsx", partial(self._export, "xlsx"), Right.LOOK, "GET"
        yield "/forms/{table}/row", self._show_row, Right.LOOK, "GET"
        yield "/forms/{table}/row", self._save_row, Right.EDIT, "POST"
        yield "/forms/{table}/cells", self._change_cells, Right.EDIT, "POST"
        yield "/forms/{table}/undo", self._undo, Right.EDIT, "POST"
        yield "/forms/{table}/paste", self._show_paste, Right.EDIT, "GET"
        yield "/forms/{table}/paste", self._paste, Right.EDIT, "POST"
        yield "/forms/{table}/proposal", self._show_proposal, Right.LOOK, "GET"
        yield "/forms/{table}/withdraw", self._withdraw, Right.EDIT, "POST"
        yield "/forms/{table}/decide", self._decide, Right.APPROVE, "POST"

    async def _show_forms(self, request: Request) -> Response:
        """Show the forms that the person sees."""

        def answer() -> Response:
            try:
                at, person = self._people.live.load(), person_of(request)
                return self._render("form_index", at, pages.describe_forms(at, person), request)
            except WaterclockError as error:
                return self._fail(error, _MENU_ENTRY, PageQuery.from_values({}), request)

        return await run_in_threadpool(answer)

    async def _show_list(self, request: Request) -> Response:
        def answer(at: OpenedProject, form: OpenedForm) -> Response:
            content = pages.describe_list(form, request.query_params, zone=at.zone)
            return self._render("form_list", at, content, request)

        return await to_thread.run_sync(self._open, request, answer, limiter=self._searchers)

    async def _export(self, kind: str, request: Request) -> Response:
        """Send the rows that the person sees as a file, and record the access."""

        def answer(at: OpenedProject, form: OpenedForm) -> Response:
            del at
            return export_rows(form, kind)

        done = await to_thread.run_sync(self._open, request, answer, limiter=self._readers)
        if done.status_code == HTTPStatus.OK:
            what = f"export {request.path_params['table']}"[:200]
            await self._people.record(access_of(request, person_of(request), what))
        return done

    async def _show_values(self, request: Request) -> Response:
        """Answer with values as options, for a field that refers to this table, or of this form (`of`)."""

        def answer(at: OpenedProject, form: OpenedForm) -> Response:
            found = pages.list_options(at, form, request.query_params)
            return HTMLResponse(render("form_options.html", options=found), headers={"Cache-Control": "no-store"})

        return await to_thread.run_sync(self._open, request, answer, limiter=self._searchers)

    async def _show_row(self, request: Request) -> Response:
        def answer(at: OpenedProject, form: OpenedForm) -> Response:
            key = request.query_params.get("key", "")
            like = request.query_params.get("like", "")
            of = request.query_params.get("of", "")
            found = rows.describe_row(form, key, rows.RowPage(), zone=at.zone, like=like, of=of)
            return self._render("form_row", at, found, request)

        return await run_in_threadpool(self._open, request, answer)

    async def _save_row(self, request: Request) -> Response:
        values = await read_form(request, most_fields=_MOST_FIELDS)

        def answer(at: OpenedProject, form: OpenedForm) -> Response:
            posted = rows.PostedRow.of_form(values)
            deletes = values.get("do") == "delete"
            key, page = rows.save_row(form, posted, deletes=deletes)
            if isinstance(page, Applied):
                back = {} if deletes else {"key": key}
                return _go_on(form, page, "" if deletes else "row", **back)
            found = rows.describe_row(form, key, page, zone=at.zone)
            return self._render("form_row", at, found, request, page.status)

        return await self._change(request, values, answer)

    async def _change_cells(self, request: Request) -> Response:
        """Check or save the cells that are edited in the list, and answer with their rows."""
        values = await read_form(request)

        def answer(at: OpenedProject, form: OpenedForm) -> Response:
            del at
            draft = cells.read_draft(values.get("rows", ""))
            if values.get("do") == "save":
                status, found = cells.save_draft(form, draft, values.get("why", "").strip())
            else:
                status, found = HTTPStatus.OK, cells.describe_draft(form, cells.check_draft(form, draft))
            return HTMLResponse(render("form_cells.html", content=found), status, {"Cache-Control": "no-store"})

        return await self._change(request, {}, answer)

    async def _undo(self, request: Request) -> Response:
        values = await read_form(request)

        def answer(at: OpenedProject, form: OpenedForm) -> Response:
            key, page = values.get("key", ""), rows.RowPage()
            try:
                done = rows.undo_batch(form, values)
                return _go_on(form, done, "row", key=key) if key else _go_on(form, done, "")
            except WaterclockError as error:
                if error.code not in pages.SHOWN_AGAIN:
                    raise
                page.refusal, page.status = f"{error.what}: {error.why}", pages.SHOWN_AGAIN[error.code]
            if not key:
                found = pages.describe_list(form, {}, zone=at.zone, problem=page.refusal)
                return self._render("form_list", at, found, request, page.status)
            found = rows.describe_row(form, key, page, zone=at.zone)
            return self._render("form_row", at, found, request, page.status)

        return await self._change(request, values, answer)

    async def _show_paste(self, request: Request) -> Response:
        def answer(at: OpenedProject, form: OpenedForm) -> Response:
            return self._render("form_paste", at, pastes.describe_paste(form, {}, None), request)

        return await run_in_threadpool(self._open, request, answer)

    async def _paste(self, request: Request) -> Response:
        """Review or save rows that were pasted or uploaded. Few are read at once, as each may need much memory."""
        content_type = request.headers.get("content-type", "")
        body = await receive_body(request, MOST_BYTES_OF_FILE)

        def answer(at: OpenedProject, form: OpenedForm) -> Response:
            done = pastes.paste_rows(form, parse_form(body.read(), content_type))
            if isinstance(done, Applied):
                return _go_on(form, done, "")
            status, found = done
            return self._render("form_paste", at, found, request, status)

        with body:
            return await self._change(request, {}, answer, limiter=self._readers)

    async def _show_proposal(self, request: Request) -> Response:
        def answer(at: OpenedProject, form: OpenedForm) -> Response:
            number = request.query_params.get("number", "")
            found = proposals.describe_proposal(form, number, zone=at.zone)
            return self._render("form_proposal", at, found, request)

        return await run_in_threadpool(self._open, request, answer)

    async def _withdraw(self, request: Request) -> Response:
        return await self._close(request, {"withdraw"})

    async def _decide(self, request: Request) -> Response:
        return await self._close(request, {"approve", "reject"})

    async def _close(self, request: Request, verbs: Collection[str]) -> Response:
        """Approve, reject or withdraw a proposal, or show it again with the reason why that is not possible."""
        values = await read_form(request)
        number, verb = values.get("number", ""), values.get("do", "")
        if verb not in verbs:
            raise HTTPException(HTTPStatus.BAD_REQUEST, "the form names no decision")

        def answer(at: OpenedProject, form: OpenedForm) -> Response:
            problem, status = proposals.decide(form, number, verb, values.get("why", "").strip())
            if not problem:
                return _redirect(pages.form_address(form.entity.table, "proposal", number=number))
            found = proposals.describe_proposal(form, number, zone=at.zone, problem=problem)
            return self._render("form_proposal", at, found, request, status)

        return await self._change(request, {"key": f"proposal {number}"}, answer, verb)

    async def _change(
        self,
        request: Request,
        values: Mapping[str, str],
        answer: Callable[[OpenedProject, OpenedForm], Response],
        verb: str = "edit",
        limiter: CapacityLimiter | None = None,
    ) -> Response:
        """Answer a POST, and record it in the list of accesses if it changed something."""
        done = await to_thread.run_sync(self._open, request, answer, limiter=limiter)
        if done.status_code in {HTTPStatus.SEE_OTHER, HTTPStatus.CREATED}:
            what = f"{verb} {request.path_params['table']} {values.get('key', '')}".strip()[:200]
            await self._people.record(access_of(request, person_of(request), what))
        return done

    def _open(self, request: Request, answer: Callable[[OpenedProject, OpenedForm], Response]) -> Response:
        """Open the form of the request's table, and answer; an error becomes the page of the error."""
        params = PageQuery.from_values({**request.path_params})
        try:
            at = self._people.live.load()
            return answer(at, open_form(at.project, params.values["table"], person_of(request)))
        except WaterclockError as error:
            failed = self._fail(error, _MENU_ENTRY, params, request)
            failed.status_code = _STATUS.get(error.code, failed.status_code)
            return failed

    @staticmethod
    def _render(
        name: str, at: OpenedProject, content: Content, request: Request, status: HTTPStatus = HTTPStatus.OK
    ) -> Response:
        person, params = person_of(request), PageQuery.from_values({**request.path_params})
        around = shell(at, _MENU_ENTRY, params, person=person)
        html = render(f"{name}.html", content=content, params=params, person=person, shell=around)
        return HTMLResponse(html, status, {"Cache-Control": "no-store"})


def _go_on(form: OpenedForm, done: Applied, part: str, **parameters: str) -> Response:
    """Return the page after a change: that of the proposal, if the change needs approval. A list names the batch."""
    if done.proposal is not None:
        part, parameters = "proposal", {"number": str(done.proposal)}
    elif not part and done.batch is not None:
        parameters = {"done": str(done.batch)}
    return _redirect(pages.form_address(form.entity.table, part, **parameters))


def _redirect(address: str) -> Response:
    return RedirectResponse(address, HTTPStatus.SEE_OTHER)
