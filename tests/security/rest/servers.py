"""Starts a server in this process that records each request and responds as the test defines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answering = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class RecordingServer:
    """A server and its requests: method, path as sent, and the Authorization header."""

    url: str
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    answer: Answering = lambda handler: send(handler, b"[]")


def send(handler: BaseHTTPRequestHandler, content: bytes, status: int = 200, **headers: str) -> None:
    """Send one whole response."""
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(content)))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(content)


@contextmanager
def recording_server() -> Iterator[RecordingServer]:
    """Run a server on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            server.requests.append((self.command, self.path, self.headers.get("Authorization", "")))
            try:
                server.answer(self)
            except OSError:
                self.close_connection = True

        do_GET = do_POST = do_PUT = do_HEAD = _any  # noqa: N815 - names that http.server looks up

        def log_message(self, *_: object) -> None:
            """Suppress log output."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server = RecordingServer(f"http://127.0.0.1:{http.server_address[1]}")
    threading.Thread(target=http.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
