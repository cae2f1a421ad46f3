"""Serves the pages until Ctrl-C, alone or beside a run that watches."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser
from pathlib import Path

from waterclock.cli.actions.listening import address_of
from waterclock.cli.actions.run import Asked, carry_out
from waterclock.cli.stopping import stoppable
from waterclock.cli.views.json import print_json
from waterclock.cli.views.theme import console
from waterclock.dpl.config.file_name import FILE
from waterclock.errors import ProjectErrors
from waterclock.operations.opening import open_project
from waterclock.project_trust import require_trusted_folder
from waterclock.timelabel.zone import parse_instant
from waterclock.ui.live import LiveProject
from waterclock.ui.serving import serving


def show_pages(
    folder: Path, env: str | None, now: str | None, listen: str, *, is_run: bool, is_opened: bool, is_json: bool
) -> int:
    """Serve the pages and give the exit code; a project with errors is served too, and shows them.

    Raises  E244 where there is no project, E909 where nothing can listen there, E930 where another user can change it
    """
    if is_run:
        return carry_out(open_project(folder, env), Asked(command="ui --run", watch_seconds=30, pages=listen))
    if not (folder / FILE).is_file():
        open_project(folder, env)  # says that there is none
    require_trusted_folder(folder.resolve())
    _refuse_words(folder, env, now)
    to = console()
    live = LiveProject(folder.resolve(), env, now)
    stop = threading.Event()
    with (
        serving(live, *address_of(listen)) as served,
        stoppable(stop.set, told_to=to.file, is_own_process=True),
    ):
        if is_json:
            print_json({"address": served.address, "host": served.host, "port": served.port})
            sys.stdout.flush()
        else:
            to.print(f"the pages are at {served.address}  (Ctrl-C ends them)", soft_wrap=True)
        if is_opened and _has_screen():
            webbrowser.open(served.address)
        while not stop.wait(3600):
            pass
    return 0


def _refuse_words(folder: Path, env: str | None, now: str | None) -> None:
    """Refuse what no page could be told with, whatever the project's files say later.

    Raises  E106 for what is no instant, E243 for an environment that is not there
    """
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
    """Tell whether a browser could be seen: without a screen a text browser would take the terminal."""
    return sys.platform in {"darwin", "win32"} or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
