"""Serves the web pages of `waterclock ui` until Ctrl-C, alone or together with `run --watch`."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser
from contextlib import ExitStack
from pathlib import Path

from waterclock.cli.actions.run import RunOptions, run_and_report
from waterclock.cli.actions.run_servers import RunServers
from waterclock.cli.actions.ui_links import print_link, store_page, store_token
from waterclock.cli.exit_codes import ExitCode
from waterclock.cli.stop_signals import end_at_once, stoppable
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.dpl.config.file_name import FILE
from waterclock.engine.spark.confined_jvm import why_unconfined
from waterclock.errors import ProjectErrors, WaterclockError
from waterclock.http.listening import address_of
from waterclock.http.server_certificate import Certificate
from waterclock.operations.project_opening import open_project
from waterclock.permissions.project_trust import require_trusted_folder
from waterclock.timelabel.zone import parse_instant
from waterclock.ui.live_project import LiveProject
from waterclock.ui.serving import serve_pages


def show_pages(  # noqa: PLR0913 - the options of a command
    folder: Path,
    env: str | None,
    now: str | None,
    listen: str,
    *,
    is_run: bool,
    is_opened: bool,
    is_json: bool,
    certificate: Certificate | None = None,
) -> int:
    """Serve the pages, also of a project with errors, and return the exit code. Raises E244, E909, E930, E944.

    Without a certificate they are served by HTTP.
    """
    if is_run:
        project, address = open_project(folder, env), address_of(listen, may_be_socket=True)
        servers = RunServers(pages=address, certificate=certificate)
        return run_and_report(project, RunOptions(command="ui --run", watch_seconds=30, servers=servers))
    if not (folder / FILE).is_file():
        open_project(folder, env)  # raises E244
    require_trusted_folder(folder.resolve())
    _check_arguments(folder, env, now)
    to = console()
    live = LiveProject(folder.resolve(), env, now)
    stop = threading.Event()
    with (
        serve_pages(live, *address_of(listen, may_be_socket=True), certificate=certificate) as served,
        store_token(served) as has_kept,
        stoppable(stop.set, output=to.file, is_own_process=True),
        ExitStack() as opened,
    ):
        if is_json:
            link = served.new_link()
            from waterclock.json_models.setup import UiAnswer

            print_answer(UiAnswer(address=served.address, link=link, host=served.host, port=served.port))
            sys.stdout.flush()
        else:
            print_link(to, served, has_kept=has_kept)
            to.print("(Ctrl-C stops them)")
        if missing := missing_sandbox(live):
            console(stderr=True).print(missing, soft_wrap=True)
        if is_opened and _has_screen() and (page := opened.enter_context(store_page(served))):
            webbrowser.open(page)
        while not stop.wait(3600):
            pass
    if any(thread.name.startswith("AnyIO worker") for thread in threading.enumerate()):
        end_at_once(ExitCode.DONE)  # an abandoned page request still waits for a ledger that does not answer
    return ExitCode.DONE


def missing_sandbox(live: LiveProject) -> str | None:
    """Return a message why queries of the pages run without a sandbox, or None if they run in one."""
    try:
        spark = live.project().spark
    except (WaterclockError, OSError):  # the pages show the errors of the project
        spark = None
    why = why_unconfined(spark)
    return None if why is None else f"queries run without a sandbox: {why}"


def _check_arguments(folder: Path, env: str | None, now: str | None) -> None:
    """Raise E106 for an invalid `now`, E243 for an invalid environment: no page could be shown with them."""
    if now is not None:
        parse_instant(now, "UTC")
    if env is None:
        return
    try:
        open_project(folder, env)
    except ProjectErrors as found:
        for error in found.errors:
            if error.code == "E243":
                raise error from None


def _has_screen() -> bool:
    """Return whether a browser window can open. Without a display, a text browser would take over the terminal."""
    return sys.platform in {"darwin", "win32"} or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
