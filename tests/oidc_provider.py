"""A small OpenID Connect provider on loopback: real keys, signed tokens, PKCE, codes that work once.

A test makes it misbehave: `change_claims` and `sign` make other ID tokens, `faults` replaces whole answers by path.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

CLIENT, SECRET = "waterclock", "a secret of the client & more: ü"
KEY = RSAKey.generate_key(2048, {"kid": "first"})
OTHER_KEY = RSAKey.generate_key(2048, {"kid": "other"})
EC_KEY = ECKey.generate_key("P-256", {"kid": "curved"})
Claims = dict[str, Any]


def signed(claims: Claims, key: RSAKey | ECKey = KEY, algorithm: str = "RS256", **header: str) -> str:
    """Return a signed token."""
    return jwt.encode({"alg": algorithm, "kid": key.kid, **header}, claims, key, [algorithm])


@dataclass
class OidcProvider:
    """The provider: who signs in next, how it responds, and the received requests."""

    port: int = 0
    who: Claims = field(default_factory=lambda: {"sub": "anna"})
    published: list[RSAKey | ECKey] = field(default_factory=lambda: [KEY])
    change_claims: Callable[[Claims], Claims] = lambda claims: claims
    sign: Callable[[Claims], str] = signed
    configuration: Claims = field(default_factory=dict)
    faults: dict[str, tuple[int, bytes, float]] = field(default_factory=dict)
    """By path: status, content, and seconds between its bytes."""
    asked: list[str] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    is_public: bool = False
    redirects: frozenset[str] = frozenset({"http://localhost/sign-in/back"})

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def sign_in(self, address: str, **more: str) -> str:
        """Sign in as a browser that was sent to an address, and return where it is redirected."""
        asked = dict(parse_qsl(urlsplit(address).query))
        assert asked["response_type"] == "code"
        assert (asked["client_id"], asked["code_challenge_method"]) == (CLIENT, "S256")
        assert asked["redirect_uri"] in self.redirects
        assert asked["scope"].split()[0] == "openid"
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state'], **more})}"

    def read(self, path: str) -> tuple[int, bytes]:
        if path == "/.well-known/openid-configuration":
            found = {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "end_session_endpoint": f"{self.issuer}/end",
                **self.configuration,
            }
            return 200, json.dumps(found).encode()
        if path == "/keys":
            return 200, json.dumps({"keys": [key.as_dict(private=False) for key in self.published]}).encode()
        return 404, b"{}"

    def exchange(self, form: dict[str, list[str]], authorization: str) -> tuple[int, bytes]:
        sent = {name: values[0] for name, values in form.items()}
        if not self._is_client(sent, authorization):
            return 401, b'{"error": "invalid_client"}'
        asked = self.codes.pop(sent.get("code", ""), None)  # a code works once
        digest = hashlib.sha256(sent.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            asked is None
            or asked["code_challenge"] != challenge
            or asked["redirect_uri"] != sent["redirect_uri"]
            or sent["grant_type"] != "authorization_code"
        ):
            return 400, b'{"error": "invalid_grant", "error_description": "<script>"}'
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"], **self.who}
        token = self.sign(self.change_claims(claims))
        said = {"access_token": "of no use here", "token_type": "Bearer", "id_token": token}
        return 200, json.dumps(said).encode()

    def _is_client(self, sent: dict[str, str], authorization: str) -> bool:
        if self.is_public:
            return sent.get("client_id") == CLIENT and not authorization
        if authorization:
            user, _, password = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
            return (unquote(user), unquote(password)) == (CLIENT, SECRET)
        return (sent.get("client_id"), sent.get("client_secret")) == (CLIENT, SECRET)


@contextmanager
def running_provider() -> Iterator[OidcProvider]:
    """Run a provider until the test ends."""
    provider = OidcProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(*provider.read(self.path))

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
            self._answer(*provider.exchange(form, self.headers.get("authorization", "")))

        def _answer(self, status: int, content: bytes) -> None:
            provider.asked.append(self.path)
            status, content, pause = provider.faults.get(self.path, (status, content, 0.0))
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            step = 1 if pause else len(content) or 1
            try:
                for begin in range(0, len(content), step):
                    self.wfile.write(content[begin : begin + step])
                    time.sleep(pause)
            except OSError:
                pass  # the client has disconnected

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    provider.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
