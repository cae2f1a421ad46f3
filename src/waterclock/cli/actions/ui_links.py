"""Creates one-time links to the pages: the first at the start, more by `waterclock ui --link`.

The server stores its token in a file that only its user can read, and `ui --link` makes a link from it. For `--open`,
the link is in a file with the same protection, because every user can read the arguments of the browser's process.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.cli.exit_codes import ExitCode
from waterclock.errors import WaterclockError
from waterclock.http.access_tokens import token_of_environment
from waterclock.http.listening import UNIX, address_of
from waterclock.ui.one_time_links import make_code
from waterclock.ui.serving import TOKEN, RunningServer, link_at, place_of

if TYPE_CHECKING:
    from rich.console import Console

_MOST_BYTES = 4096


@contextmanager
def store_token(served: RunningServer) -> Iterator[bool]:
    """Store a server's token in a file for `ui --link` while it serves. Yield False if the file cannot be written."""
    path = _token_file(place_of(served.host, served.port))
    certificate = "" if served.certificate is None else str(served.certificate.file.resolve())
    fields = {"host": served.host, "port": served.port, "token": served.guard.token, "certificate": certificate}
    has_kept = _write_private(path, json.dumps(fields))
    try:
        yield has_kept
    finally:
        if has_kept:
            with suppress(OSError):
                path.unlink()


@contextmanager
def store_page(served: RunningServer) -> Iterator[str | None]:
    """Store a file that redirects a browser to a new link, readable for this user only. Yield its address, or None."""
    path = _token_file(place_of(served.host, served.port)).with_suffix(".html")
    link = escape(served.new_link())
    has_kept = _write_private(path, f'<!doctype html><meta http-equiv="refresh" content="0;url={link}">\n')
    try:
        yield path.as_uri() if has_kept else None
    finally:
        if has_kept:
            with suppress(OSError):
                path.unlink()


def print_link(to: Console, served: RunningServer, *, has_kept: bool) -> None:
    """Print the address of the pages, and how to open them in another browser."""
    if served.host.startswith(UNIX):
        to.print(f"the pages are served at the socket {place_of(served.host, served.port)}", soft_wrap=True)
    to.print(f"open the pages with {served.new_link()}", soft_wrap=True)
    words = "" if place_of(served.host, served.port) == "8899" else f" --listen {_listen_option(served)}"
    if has_kept:
        to.print(f"this link works for one browser, within an hour; `waterclock ui --link{words}` prints another")
    else:
        to.print(f"this link works for one browser, within an hour; for another, set {TOKEN} and start again")


@dataclass(frozen=True, slots=True)
class RunningPages:
    """The address and token of pages that this user serves. `certificate` is the path of its file, "" without HTTPS."""

    host: str
    port: int
    token: str = field(repr=False)
    certificate: str = ""


def running_pages(listen: str) -> RunningPages:
    """Return the pages of this user that run at an address. Raises E909 if none run there."""
    host, port = address_of(listen, may_be_socket=True)
    place = place_of(host, port)
    stored = _read_private(_token_file(place))
    token = str(stored["token"]) if stored else token_of_environment(TOKEN)
    if token is None:
        raise WaterclockError(
            "E909",
            f"`waterclock ui` of this user is not running at {place}",
            why=f"`waterclock ui` stores its token in {_token_file(place)} while it runs, which does not exist",
            fix="start `waterclock ui`, or name its address: waterclock ui --link --listen 8899",
        )
    return RunningPages(
        str(stored["host"]) if stored else host, port, token, str(stored["certificate"]) if stored else ""
    )


def print_new_link(listen: str) -> int:
    """Print a new link to the server at an address, and return the exit code. Raises E909 if no pages run there."""
    pages = running_pages(listen)
    code = make_code(pages.token, place_of(*address_of(listen, may_be_socket=True)))
    # printed without formatting, for scripts
    print(link_at(pages.host, pages.port, code, is_tls=bool(pages.certificate)))  # noqa: T201
    return ExitCode.DONE


def _listen_option(served: RunningServer) -> str:
    return served.host if served.host.startswith(UNIX) else str(served.port)


def _token_file(place: str) -> Path:
    """Return the file of a server's token: in the user's runtime folder, or else in the user's cache."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(runtime) / "waterclock" if runtime else Path(cache) / "waterclock" / "run"
    return folder / f"ui-{place.replace('/', '_')}.json"


def _write_private(path: Path, text: str) -> bool:
    """Write a file in a folder, both accessible only by this user. Return False if that is not possible."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_private(path.parent):
            path.parent.chmod(0o700)
        if not _is_private(path.parent):
            return False
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        return False
    return True


def _read_private(path: Path) -> dict[str, object] | None:
    """Return the contents of a file that only this user can read. Return None if there is no such file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, encoding="utf-8") as file:
        found = os.fstat(descriptor)
        if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077 or not _is_private(path.parent):
            return None
        content = json.loads(file.read(_MOST_BYTES))
    return content if isinstance(content, dict) else None


def _is_private(folder: Path) -> bool:
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077
