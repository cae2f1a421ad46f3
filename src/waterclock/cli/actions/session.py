"""Lists and ends the sessions of browsers, by requests to the pages that this user serves."""

from __future__ import annotations

import json
import socket
import ssl
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlencode

from rich.table import Table
from rich.text import Text

from waterclock.cli.actions.ui_links import RunningPages, running_pages
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.errors import WaterclockError
from waterclock.http.listening import UNIX
from waterclock.http.served_hosts import ALL_ADDRESSES
from waterclock.printable import printable_line

_SECONDS = 30
_MOST_BYTES = 4 * 1024 * 1024
_HOST = "localhost"  # every server accepts this name


class _SocketConnection(HTTPConnection):
    """A connection to a server at a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__(_HOST, timeout=_SECONDS)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_SECONDS)
        self.sock.connect(self._path)


def list_sessions(listen: str, *, is_json: bool) -> None:
    """Print the sessions. Raises E909 if no pages of this user run."""
    found = json.loads(_send_request(running_pages(listen), "GET", "/access.json")[1])["sessions"]
    if is_json:
        from waterclock.json_models.access import SessionPart, SessionsAnswer

        print_answer(SessionsAnswer(sessions=[SessionPart.model_validate(each) for each in found]))
        return
    if not found:
        console().print("no browser has a session", soft_wrap=True)
        return
    table = Table("session", "who", "since", "from", "program", box=None)
    for each in found:
        texts = (each["number"], each["who"], each["began_at"], each["address"], each["agent"])
        table.add_row(*(Text(printable_line(str(text))) for text in texts))
    console().print(table)


def revoke_sessions(listen: str, number: int | None, *, is_json: bool) -> None:
    """End one session, or all. Raises E909 if no pages of this user run."""
    value = "all" if number is None else str(number)
    headers, _ = _send_request(running_pages(listen), "POST", "/sessions", session=value)
    ended = int(headers.get("waterclock-ended", 0))
    if is_json:
        from waterclock.json_models.access import RevokedSessionsAnswer

        print_answer(RevokedSessionsAnswer(ended=ended))
    else:
        console().print(f"ended: {ended} session{'' if ended == 1 else 's'}", soft_wrap=True)


def _send_request(pages: RunningPages, method: str, path: str, **form: str) -> tuple[dict[str, str], bytes]:
    """Send a request to the pages as their owner; return the response's headers and body. Raises E909 if that fails."""
    place, scheme = f"{_HOST}:{pages.port}", "https" if pages.certificate else "http"
    headers = {"Host": place, "Origin": f"{scheme}://{place}", "Authorization": f"Bearer {pages.token}"}
    if form:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    try:
        with closing(_open_connection(pages)) as connection:
            connection.request(method, path, urlencode(form) if form else None, headers)
            answer = connection.getresponse()
            body = answer.read(_MOST_BYTES)
    except (OSError, HTTPException) as error:
        raise _no_answer_error(pages, str(error)) from error
    if answer.status not in {200, 303}:
        raise _no_answer_error(pages, body.decode(errors="replace").strip()[:200])
    return {name.lower(): value for name, value in answer.getheaders()}, body


def _open_connection(pages: RunningPages) -> HTTPConnection:
    if pages.host.startswith(UNIX):
        return _SocketConnection(pages.host.removeprefix(UNIX))
    host = _HOST if pages.host in ALL_ADDRESSES else pages.host
    if not pages.certificate:
        return HTTPConnection(host, pages.port, timeout=_SECONDS)
    context = ssl.create_default_context(cafile=pages.certificate)
    context.check_hostname = False  # exactly this certificate is trusted, whatever names it has
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return HTTPSConnection(host, pages.port, timeout=_SECONDS, context=context)


def _no_answer_error(pages: RunningPages, why: str) -> WaterclockError:
    where: Any = pages.host if pages.host.startswith(UNIX) else f"{pages.host}:{pages.port}"
    return WaterclockError(
        "E909", f"the pages at {where} do not answer", why=why, fix="check that `waterclock ui` runs there"
    )
