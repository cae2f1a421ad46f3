"""An S3 server that refuses some requests, as Amazon's own does at times: a proxy before the tests' server."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.s3 import server


@dataclass
class Refusing:
    """Responds with an error to the next requests with a method and a part of their path; forwards all others."""

    endpoint: str = ""
    answers: list[tuple[str, str, int, str]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def refuse(self, method: str, path: str, status: int, code: str, *, times: int = 1) -> None:
        """Refuse the next requests of a kind."""
        self.answers += [(method, path, status, code)] * times

    def options(self) -> dict[str, str]:
        """Return the options of a client that uses the proxy."""
        return server().options() | {"endpoint": self.endpoint}

    def answer_to(self, method: str, path: str) -> tuple[int, str] | None:
        """Return the response to a refused request, and record it; None if the request is forwarded."""
        for answer in self.answers:
            if answer[0] == method and answer[1] in path:
                self.answers.remove(answer)
                self.refused.append(f"{method} {path}")
                return answer[2:]
        return None


@contextmanager
def refusing_server() -> Iterator[Refusing]:
    """Run a proxy before the tests' server for the duration of the block."""
    refusing = Refusing()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if answer := refusing.answer_to(self.command, self.path):
                status, code = answer
                text = f"<Error><Code>{code}</Code><Message>{code} of the tests</Message></Error>".encode()
                self._send(status, {"Content-Type": "application/xml"}, text)
                return
            onward = http.client.HTTPConnection("127.0.0.1", server().port)
            onward.request(self.command, self.path, body, dict(self.headers))
            found = onward.getresponse()
            self._send(found.status, dict(found.getheaders()), found.read())
            onward.close()

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle  # noqa: N815 - the names are http.server's

        def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response_only(status)
            length = headers.pop("Content-Length", str(len(body)))
            for name, value in headers.items():
                if name not in ("Transfer-Encoding", "Connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", length if self.command == "HEAD" else str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    refusing.endpoint = f"http://127.0.0.1:{listening.server_address[1]}"
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    try:
        yield refusing
    finally:
        listening.shutdown()
        listening.server_close()
