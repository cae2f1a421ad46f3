"""Requests the configuration, the keys and ID tokens of an OpenID Connect provider.

Each response is limited in bytes and time. The configuration and the keys are cached for an hour. After a failure no
request is sent for some seconds, so that strangers cannot make this server flood the provider with requests.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote, urlencode, urlsplit

from waterclock.errors import WaterclockError
from waterclock.extras import extra_install_command
from waterclock.http.client import HttpResponse, NoResponse, ResponseTooLargeError, send_once
from waterclock.permissions.users_and_roles import OidcSettings
from waterclock.ui.oidc.id_tokens import Identity, RejectedToken, UnknownKey, identity_of, keys_of, verify_id_token

if TYPE_CHECKING:
    from joserfc.jwk import ECKey, OKPKey, RSAKey

_WELL_KNOWN = "/.well-known/openid-configuration"
_MOST_BYTES = 512 * 1024
_TIMEOUT, _SECONDS = 5.0, 10.0  # seconds to wait for the next part of a response, and for all of it
_CACHE_SECONDS = 3600.0  # seconds for which the configuration and the keys are cached
_PAUSE_SECONDS = 5.0  # seconds without requests after a failure
_KEYS_AGAIN = 60.0  # seconds between two requests for unknown keys
_ADDRESSES = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_TOKEN_ERRORS = frozenset({
    "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type",
    "invalid_scope",
})  # fmt: skip


@dataclass(slots=True)
class Provider:
    """The provider that a project declares. Its methods wait for the network, and may be called by many threads."""

    settings: OidcSettings
    read_secret: Callable[[str], str] = field(repr=False)
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    seconds: float = _SECONDS
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _cached_configuration: tuple[float, Mapping[str, Any]] | None = None
    _keys: tuple[float, tuple[RSAKey | ECKey | OKPKey, ...]] | None = None
    _failed: tuple[float, WaterclockError] | None = None

    @property
    def host(self) -> str:
        """The host of the issuer, as shown to users."""
        return urlsplit(self.settings.issuer).netloc

    def require_usable(self) -> None:
        """Raise E945 if a library is missing, E225 and others if the client's secret cannot be read."""
        for library in ("joserfc", "httpx2"):
            if find_spec(library) is None:
                raise WaterclockError(
                    "E945", "people cannot sign in by OpenID Connect", why=f"{library} is not installed",
                    fix=extra_install_command("oidc"),
                )  # fmt: skip
        if self.settings.client_secret is not None:
            self.read_secret(self.settings.client_secret)

    def address_to_sign_in(self, *, state: str, nonce: str, challenge: str, redirect: str) -> str:
        """Return the address at the provider where a browser signs in. Raises E945 if the provider does not answer."""
        return _with_query(
            self._read_configuration()["authorization_endpoint"],
            response_type="code",
            client_id=self.settings.client_id,
            redirect_uri=redirect,
            scope=" ".join(("openid", *(each for each in self.settings.scopes if each != "openid"))),
            state=state,
            nonce=nonce,
            code_challenge=challenge,
            code_challenge_method="S256",
        )

    def address_to_sign_out(self) -> str | None:
        """Return the address at the provider where a browser signs out, or None. Raises E945 if it does not answer."""
        address = self._read_configuration().get("end_session_endpoint")
        if not isinstance(address, str) or not self._is_acceptable(address):
            return None
        return _with_query(address, client_id=self.settings.client_id)

    def require_issuer(self, sent: str | None) -> None:
        """Raise E945 if the response that a browser delivers from the provider names another issuer (RFC 9207)."""
        is_promised = self._read_configuration().get("authorization_response_iss_parameter_supported") is True
        if (sent is not None or is_promised) and sent != self.settings.issuer:
            self._refuse("the answer names another issuer, or none", "start again; see who sent the browser here")

    def identify(self, code: str, *, verifier: str, nonce: str, redirect: str) -> Identity:
        """Exchange a code for an ID token, and return the person in it. Raises E945 if that fails, E225 for secrets."""
        try:
            token = self._exchange(code, verifier, redirect)
            try:
                claims = verify_id_token(token, self._read_keys(), self.settings, nonce=nonce, now=self.wall())
            except UnknownKey:
                keys = self._read_keys(_KEYS_AGAIN)
                claims = verify_id_token(token, keys, self.settings, nonce=nonce, now=self.wall())
            return identity_of(claims, self.settings)
        except RejectedToken as error:
            self._refuse(str(error), "check [sign_in.oidc], the client's settings at the provider, and both clocks")

    def _exchange(self, code: str, verifier: str, redirect: str) -> str:
        """Return the ID token for a code, from the token endpoint."""
        configuration, client = self._read_configuration(), self.settings.client_id
        form = {
            "grant_type": "authorization_code", "code": code, "redirect_uri": redirect, "code_verifier": verifier,
        }  # fmt: skip
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        secret = None if self.settings.client_secret is None else self.read_secret(self.settings.client_secret)
        methods = configuration.get("token_endpoint_auth_methods_supported")
        if secret is None:
            form["client_id"] = client
        elif isinstance(methods, list) and "client_secret_basic" not in methods and "client_secret_post" in methods:
            form |= {"client_id": client, "client_secret": secret}
        else:
            pair = f"{quote(client, safe='')}:{quote(secret, safe='')}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        answer = self._send("POST", configuration["token_endpoint"], headers, urlencode(form).encode())
        response = _parse_object(answer)
        if answer.status != 200:
            error = response.get("error")
            reason = f": {error}" if isinstance(error, str) and error in _TOKEN_ERRORS else ""
            self._refuse(
                f"the provider refused the code with status {answer.status}{reason}",
                "start again; if it happens each time, check client_id, client_secret and the redirect address",
            )
        token = response.get("id_token")
        if not isinstance(token, str):
            self._refuse("the provider sent no ID token", "allow the scope openid for this client at the provider")
        return token

    def _read_configuration(self) -> Mapping[str, Any]:
        """Return the provider's configuration, from memory for an hour."""
        with self._lock:
            if self._cached_configuration is not None and self.clock() < self._cached_configuration[0] + _CACHE_SECONDS:
                return self._cached_configuration[1]
            found = self._read(self.settings.issuer.rstrip("/") + _WELL_KNOWN)
            if found.get("issuer") != self.settings.issuer:
                self._fail(
                    "the configuration of the provider names another issuer",
                    f"write issuer as in {self.settings.issuer.rstrip('/')}{_WELL_KNOWN}",
                )
            for name in _ADDRESSES:
                if not isinstance(found.get(name), str) or not self._is_acceptable(found[name]):
                    self._fail(
                        f"{name} in the provider's configuration is missing, or not https://", "ask its operator"
                    )
            self._cached_configuration = self.clock(), found
            return found

    def _read_keys(self, oldest: float = _CACHE_SECONDS) -> tuple[RSAKey | ECKey | OKPKey, ...]:
        """Return the provider's keys, from memory if they are at most `oldest` seconds old."""
        address = self._read_configuration()["jwks_uri"]
        with self._lock:
            if self._keys is not None and self.clock() < self._keys[0] + oldest:
                return self._keys[1]
            self._keys = self.clock(), keys_of(self._read(address))
            return self._keys[1]

    def _is_acceptable(self, address: str) -> bool:
        """Return whether an address of the configuration uses HTTPS, or is at the host and port of an HTTP issuer."""
        try:
            parts, own = urlsplit(address), urlsplit(self.settings.issuer)
            is_same = (parts.hostname, parts.port) == (own.hostname, own.port)
        except ValueError:
            return False
        return bool(parts.hostname) and (parts.scheme == "https" or (own.scheme == parts.scheme == "http" and is_same))

    def _read(self, address: str) -> Mapping[str, Any]:
        """Request a JSON object from the provider, or raise a recent failure again. The caller holds the lock."""
        if self._failed is not None and self.clock() < self._failed[0] + _PAUSE_SECONDS:
            raise self._failed[1]
        try:
            answer = self._send("GET", address, {"Accept": "application/json"}, None)
        except WaterclockError as error:
            self._failed = self.clock(), error
            raise
        found = _parse_object(answer) if answer.status == 200 else {}
        if not found:
            self._fail(
                f"{address} answered {answer.status} without a JSON object", "check issuer, and ask its operator"
            )
        return found

    def _send(self, method: str, address: str, headers: Mapping[str, str], content: bytes | None) -> HttpResponse:
        try:
            return send_once(
                method, address, most=_MOST_BYTES, timeout=min(_TIMEOUT, self.seconds), seconds=self.seconds,
                headers=headers, content=content,
            )  # fmt: skip
        except ResponseTooLargeError:
            self._refuse(f"the answer of {address} is larger than {_MOST_BYTES} bytes", "ask the provider's operator")
        except NoResponse as error:
            why = f"{error.why}: {error.certificate}" if error.certificate else error.why
            self._refuse(f"{address} does not answer: {why}", "check issuer, the network and the provider")

    def _fail(self, why: str, fix: str) -> NoReturn:
        """Raise E945 for an unusable response, now and at each request in the next seconds."""
        try:
            self._refuse(why, fix)
        except WaterclockError as error:
            self._failed = self.clock(), error
            raise

    def _refuse(self, why: str, fix: str) -> NoReturn:
        raise WaterclockError("E945", f"the sign-in at {self.host} failed", why=why, fix=fix)


def _parse_object(answer: HttpResponse) -> Mapping[str, Any]:
    """Return the JSON object in a response, or an empty one if it contains no object."""
    try:
        found = json.loads(answer.content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _with_query(address: str, **values: str) -> str:
    return f"{address}{'&' if '?' in address else '?'}{urlencode(values)}"
