"""A schema registry for tests, over HTTP or TLS: schemas by their numbers, for logged-in clients."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from tests.certificates import Pair


@dataclass
class Registry:
    """Schemas are numbered from 1, and the last is the newest. `login` is `user:password`; `leads_to`: a redirect."""

    schemas: Sequence[dict[str, Any]]
    login: str = ""
    leads_to: str = ""
    address: str = ""
    heard: list[str | None] = field(default_factory=list)

    def answer(self, path: str, said: str | None) -> tuple[int, bytes]:
        """Return status and body."""
        self.heard.append(said)
        if self.leads_to:
            return 302, b""
        wanted = f"Basic {base64.b64encode(self.login.encode()).decode()}" if self.login else None
        if wanted is not None and said != wanted:
            return 401, b'{"error_code": 40101, "message": "Unauthorized"}'
        last = path.rsplit("/", 1)[-1]
        known = self.schemas[-1] if last == "latest" else self.schemas[int(last) - 1]
        return 200, json.dumps({"schema": json.dumps(known)}).encode()


@contextmanager
def serving(registry: Registry, pair: Pair | None = None) -> Iterator[Registry]:
    """Serve until the end of the block, with the certificate of `pair` if there is one."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = registry.answer(self.path, self.headers.get("Authorization"))
            self.send_response(status)
            if registry.leads_to:
                self.send_header("Location", registry.leads_to + self.path)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    class Server(HTTPServer):
        def handle_error(self, *_: Any) -> None:
            """Ignore errors of clients that do not trust us."""

    server = Server(("127.0.0.1", 0), Handler)
    if pair is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    registry.address = f"http{'s' if pair else ''}://127.0.0.1:{server.server_port}"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
