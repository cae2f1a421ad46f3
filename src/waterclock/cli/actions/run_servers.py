"""Serves health, metrics and the project's pages next to a run that watches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waterclock.cli.actions.health_server import serve_health_endpoints

if TYPE_CHECKING:
    from waterclock.cli.views.progress import Progress
    from waterclock.dpl.project import Project
    from waterclock.engine.run_context import RunContext
    from waterclock.http.server_certificate import Certificate


@dataclass(frozen=True, slots=True)
class RunServers:
    """The servers of a run: `health` is the address for health and metrics, `pages` that of the web pages.

    With a certificate, both use HTTPS.
    """

    health: tuple[str, int] | None = None
    pages: tuple[str, int] | None = None
    certificate: Certificate | None = None


@contextmanager
def serve_next_to_run(work: RunContext, servers: RunServers, progress: Progress) -> Iterator[None]:
    """Serve health, metrics and pages, as requested. Raises as `serve_health_endpoints` and `serve_pages`."""
    with ExitStack() as serving:
        if servers.health is not None:
            serving.enter_context(serve_health_endpoints(work, servers.health, certificate=servers.certificate))
        if servers.pages is not None:
            serving.enter_context(_serve_pages(work.project, servers.pages, servers.certificate, progress))
        yield


@contextmanager
def _serve_pages(
    project: Project, address: tuple[str, int], certificate: Certificate | None, progress: Progress
) -> Iterator[None]:
    """Serve the project's pages, and print their address."""
    from waterclock.cli.actions.ui_links import store_token
    from waterclock.engine.spark.confined_jvm import why_unconfined
    from waterclock.ui.live_project import LiveProject
    from waterclock.ui.serving import serve_pages

    live = LiveProject(project.root, project.env)
    with serve_pages(live, *address, certificate=certificate) as served, store_token(served):
        why = why_unconfined(project.spark)
        missing = "" if why is None else f"; queries run without a sandbox: {why}"
        progress.note(f"open the pages with {served.new_link()} (it works for one browser, within an hour){missing}")
        yield
