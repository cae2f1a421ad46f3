"""Serves the event endpoint of a project's streams until Ctrl-C or SIGTERM, and closes the files it wrote."""

from __future__ import annotations

import asyncio
import atexit
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.cli.actions.event_servers import EventServer, server_of, wait_until_reachable
from waterclock.cli.actions.senders import Senders, has_senders
from waterclock.cli.exit_codes import ExitCode
from waterclock.cli.stop_signals import end_at_once, stoppable
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.connectors.interface import Setting
from waterclock.connectors.receiver.connector import folder_of, streams_of
from waterclock.connectors.receiver.endpoint import Endpoint, RequestLimits, Stream
from waterclock.connectors.receiver.segment_names import sync_folder
from waterclock.connectors.receiver.segment_writing import SegmentWriter
from waterclock.errors import WaterclockError
from waterclock.flow.receiver_limits import MAX_BODY, MAX_WAITING
from waterclock.http.access_tokens import METRICS_TOKEN, require_length, token_of_environment
from waterclock.http.listening import address_of, bind_port
from waterclock.http.served_hosts import LOOPBACK, hosts_of
from waterclock.http.server_certificate import Certificate
from waterclock.operations.project_opening import open_project
from waterclock.permissions.ownership import make_private_folder
from waterclock.secrets.reader import Secrets

if TYPE_CHECKING:
    from waterclock.dpl.project import Project
    from waterclock.flow.declarations import Connection
    from waterclock.timelabel.cadence import Cadence


def take_events(
    folder: Path, env: str | None, listen: str, *, is_json: bool, certificate: Certificate | None = None
) -> int:
    """Receive events until stopped, and return the exit code. Raises E870, E872 to E874, E909, E923, E944.

    With a certificate, they are received by HTTPS.
    """
    project = open_project(folder, env)
    if certificate is not None:
        certificate.require_usable()
    host, port = address_of(listen)
    endpoint = endpoint_of(project, is_open=host not in LOOPBACK)
    senders = Senders(project)
    endpoint.senders = senders.check if has_senders(project.access) else None
    endpoint.hosts, endpoint.metrics_token = hosts_of(host), token_of_environment(METRICS_TOKEN)
    address = bind_port(host, port, is_shared=True)
    stop = threading.Event()
    server = _ServerThread(endpoint, server_of(endpoint, address, certificate), address, stop.set)
    to = console()
    with stoppable(stop.set, output=to.file):
        server.start()
        scheme = "http" if certificate is None else "https"
        shown_address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{address.getsockname()[1]}/"
        if is_json:
            from waterclock.json_models.setup import ReceiveAnswer

            print_answer(ReceiveAnswer(address=shown_address, streams=sorted(endpoint.streams)))
            sys.stdout.flush()
        else:
            for name in sorted(endpoint.streams):
                to.print(f"events are received at {shown_address}{name}", soft_wrap=True)
            to.print("(Ctrl-C stops it)")
        stop.wait()
        code = ExitCode.FAILED  # if `end` raises
        try:
            server.end()
            code = ExitCode.DONE
        finally:
            senders.close()
            if server.leaves_threads:
                atexit.register(end_at_once, code)
    return ExitCode.DONE


def endpoint_of(project: Project, *, is_open: bool) -> Endpoint:
    """Build the endpoint for the events of all streams.

    `is_open` is true if other machines can reach the endpoint: then each stream needs a token. Raises E870 without
    streams, E873 for a missing token, E874 for a folder that cannot be written.
    """
    cadences = streams_of(project.flow)
    if not cadences:
        raise WaterclockError(
            "E870",
            f"no table of {project.flow.project} collects events",
            why="the receiver accepts the streams of tables: COLLECT ... FROM a.b, where a is of TYPE receiver",
            fix="declare such a connection and such a COLLECT; docs/howto/receive-events.md shows both",
        )
    secrets, streams, waiting = Secrets.from_places(project.secrets), {}, []
    for path, of_stream in cadences.items():
        name, stream = path.split("/", 1)
        connection = project.flow.connections[name]
        options = {key: secrets.value_of(value) for key, value in connection.options.items()}
        needs_token = is_open and not options.get("token")
        if needs_token and not has_senders(project.access):
            raise _missing_token_error(connection)
        folder = _prepare_folder(folder_of(Setting(name, options, project.root, project.root)) / stream)
        headers = tuple(part.strip().lower() for part in str(options.get("headers") or "").split(",") if part.strip())
        token = str(options["token"]) if options.get("token") else None
        limits = RequestLimits(
            token=token and require_length(token, f"the token of {name}", where=str(connection.place)),
            max_body=int(str(options.get("max_body", MAX_BODY))),
            headers=headers,
            has_raw=bool(options.get("raw", False)),
            needs_token=needs_token,
        )
        streams[path] = Stream(limits, SegmentWriter(folder, ends_of(of_stream)))
        waiting.append(int(str(options.get("max_waiting", MAX_WAITING))))
    return Endpoint(streams, max(waiting))


def ends_of(cadences: Sequence[Cadence]) -> Callable[[datetime], datetime]:
    """Return a function that computes the next instant at which a window of one of the cadences ends."""
    return lambda at: min(cadence.next(at) for cadence in cadences)


class _ServerThread:
    """Runs an event server in a separate thread. `on_end` is called when the server has ended."""

    def __init__(
        self, endpoint: Endpoint, server: EventServer, address: socket.socket, on_end: Callable[[], None]
    ) -> None:
        self._endpoint = endpoint
        self._address = address
        self._name = address.getsockname()[:2]
        self._on_end = on_end
        self._server = server
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_up = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="endpoint")

    @property
    def leaves_threads(self) -> bool:
        """Whether threads of the server still run after its end."""
        return self._server.leaves_threads

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        self._thread.start()
        self._is_up.wait()
        wait_until_reachable(self._name, lambda: not self._thread.is_alive())

    def end(self) -> None:
        """Stop accepting events, answer those received, close the files. Raises E872 for a failed disk."""
        self._endpoint.is_ready = False
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended already
                self._loop.call_soon_threadsafe(self._server.stop)
        self._thread.join()
        if isinstance(self._failure, OSError):
            raise WaterclockError(
                "E872",
                "the disk failed: no more events are accepted",
                where=str(self._failure.filename or "") or None,
                why=f"{self._failure.strerror}; the content of a disk after a failed sync is unknown",
                fix="check the disk, then start `waterclock receive` again; events acknowledged with 202 before are "
                "stored",
            ) from self._failure
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - raised again by `end`
            self._failure = error
        finally:
            self._address.close()
            self._is_up.set()
            self._on_end()

    async def _serve(self) -> None:
        streams: Mapping[str, Stream] = self._endpoint.streams
        with ThreadPoolExecutor(len(streams), thread_name_prefix="disk") as threads:
            writing = [asyncio.create_task(stream.run(threads)) for stream in streams.values()]
            serving = asyncio.create_task(self._server.serve())
            self._loop = asyncio.get_running_loop()
            self._loop.call_soon(self._is_up.set)
            await asyncio.wait([serving, *writing], return_when=asyncio.FIRST_COMPLETED)
            self._endpoint.is_ready = False
            self._server.stop()
            await serving
            for stream in streams.values():
                stream.finish()
            failed = [each for each in await asyncio.gather(*writing, return_exceptions=True) if each is not None]
        if failed:
            raise failed[0]


def _prepare_folder(folder: Path) -> Path:
    try:
        make_private_folder(folder)
        probe = folder / f".probe-{threading.get_native_id()}"
        probe.touch()
        probe.unlink()
        for each in (folder, *folder.parents[:2]):  # so that new folders survive a crash of the machine
            sync_folder(each)
    except OSError as error:
        raise WaterclockError(
            "E874", f"{folder} cannot be written", where=str(folder), why=error.strerror or str(error),
            fix="give the user of this process the right to write there, or correct the connection's path",
        ) from error  # fmt: skip
    return folder


def _missing_token_error(connection: Connection) -> WaterclockError:
    return WaterclockError(
        "E873",
        f"any client could send to {connection.name}",
        where=str(connection.place),
        why="other machines can reach the address, and the connection has no token",
        fix=f'connections.{connection.name}.token = {{ secret = "{connection.name}/token" }} in waterclock.toml, '
        "or --listen 8877",
    )
