"""A real server on this machine that receives alerts, and can be down or refuse them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


@dataclass
class Heard:
    """The received bodies, in order; `answer` is the status of the response, and refused bodies are not recorded.

    A body for which `refuses` is true is answered with 400, whatever `answer` is.
    """

    port: int = 0
    answer: int = 200
    refuses: Callable[[dict[str, Any]], bool] = lambda _: False
    bodies: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)
    tries: int = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def titles(self) -> list[str]:
        return [str(body["title"]) for body in self.bodies]

    @property
    def statuses(self) -> list[str]:
        return [str(body["status"]) for body in self.bodies]


@contextmanager
def listening() -> Iterator[Heard]:
    """Serve until the end of the block."""
    heard = Heard()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            heard.tries += 1
            told = json.loads(body)
            answer = 400 if heard.refuses(told) else heard.answer
            if answer == 200:
                heard.bodies.append(told)
                heard.tokens.append(self.headers.get("Authorization"))
            self.send_response(answer)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    heard.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield heard
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
