"""Sends requests to an API with credentials, within its rate limit, with retries, and in bounded memory.

A request is retried after 408, 425, 429 and 5xx (except 501 and 505), and if there is no connection, no response in
time, or a response that was cut off. The wait before a retry grows, and is at least the one that the server requests.
Any other 4xx is final.
Redirects are not followed, and no request is sent to an address that is not below the connection's url (`addresses`),
because it would contain the credentials. Every response has a size limit, also that for a token (`http.client`). No
secret and no parameter appears in an error message.
"""

from __future__ import annotations

import base64
import json
import random
import re
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus, urlencode, urljoin

from waterclock.connectors.interface import Setting
from waterclock.connectors.rest.addresses import (
    OutsideApiError,
    join,
    parse_below,
    path_of_link,
    resolve_link,
    with_params,
)
from waterclock.connectors.rest.option_definitions import SECRETS, rate_of
from waterclock.connectors.rest.rate_limit import RateLimiter, rate_limiter_of
from waterclock.connectors.rest.response_headers import Response
from waterclock.connectors.rest.tokens import Tokens
from waterclock.errors import WaterclockError
from waterclock.http.client import HttpFailure, NoResponse, ResponseTooLargeError, client_of, receive

if TYPE_CHECKING:
    import httpx2
    from tenacity import RetryCallState

MOST_BYTES = 256 * 1024 * 1024
"""The maximum size of an unpacked response. A response is in memory as a whole."""
MOST_BYTES_OF_TOKEN = 1024 * 1024
_MOST_SHOWN = 300
_LONGEST_WAIT = 30.0
_SENDABLE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?|")
"""Matches header values that are safe to send: ASCII without control characters or surrounding blanks."""


_CODES = {HttpFailure.NO_CONNECTION: "E840", HttpFailure.LATE: "E841", HttpFailure.CUT_OFF: "E842"}


class TransientFailure(Exception):
    """Raised if a request fails that may succeed later, with the error code and the reason.

    `after` are the seconds that the server requests to wait; None if it requests none.
    """

    def __init__(self, code: str, why: str, after: float | None = None) -> None:
        super().__init__(why)
        self.code = code
        self.why = why
        self.after = after


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request for a path with parameters, or for `link`, the address of a next page.

    `accepts_not_found`: 404 and 410 are valid responses, and not errors. `kind` is the media type of the content.
    """

    method: str
    path: str
    params: Mapping[str, str]
    content: bytes | None = None
    kind: str = "application/json"
    headers: Mapping[str, str] | None = None
    accepts_not_found: bool = False
    link: str = ""

    @property
    def display_name(self) -> str:
        """The request as it appears in messages: without parameters."""
        return f"{self.method} {path_of_link(self.link) if self.link else self.path.partition('?')[0] or '/'}"


class Api:
    """A client of one API with one connection pool, shared by all threads of a process."""

    def __init__(self, setting: Setting, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self.name = setting.name
        self._options = setting.options
        self._url = str(setting.options["url"]).rstrip("/")
        self._timeout = float(str(setting.options.get("timeout", 30)))
        self._tries = int(str(setting.options.get("tries", 5)))
        self._patience = float(str(setting.options.get("patience", 300)))
        self._sleep = sleep
        self._lock = threading.Lock()
        self._created_client: httpx2.Client | None = None
        self._tokens = Tokens(self._fetch_token) if self._has_option("auth.client_secret") else None
        rate = rate_of(setting.options["rate"]) if "rate" in setting.options else None
        who = next((str(setting.options[name]) for name in SECRETS if name in setting.options), "")
        self._pace: RateLimiter = rate_limiter_of(self._url, who, rate)

    def request(self, request: ApiRequest, *, where: str, read: Callable[[Response], Any] | None = None) -> Any:
        """Send a request, with retries. Return the successful response, or the result of `read` for it.

        `read` raises ValueError for a response that was cut off.
        Raises E840 if the server does not respond, E841 if it stays busy or fails, and E842 if the response is
        incomplete. These are transient. Raises E842 for a response that is too large, E844 if the credentials are
        refused, E845 for any other refusal, and E877 for an address that is not below the url.
        """
        from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

        def attempt() -> Any:
            answer = self._send_authorized(request, where)
            if read is None:
                return answer
            try:
                return read(answer)
            except ValueError as error:
                if type(error) not in {ValueError, json.JSONDecodeError, UnicodeDecodeError}:
                    raise
                raise TransientFailure("E842", self._describe_invalid_json(answer, error)) from None

        retrying = Retrying(
            stop=stop_after_attempt(self._tries),
            retry=retry_if_exception_type(TransientFailure),
            wait=self._wait,
            sleep=self._sleep,
            reraise=True,
        )
        try:
            return retrying(attempt)
        except TransientFailure as failed:
            raise self._retries_exhausted_error(request, failed, where) from None
        except ResponseTooLargeError:
            raise WaterclockError(
                "E842",
                f"a response of {self.name} is too large for one page",
                where=where,
                why=f"{request.display_name} returned more than {MOST_BYTES >> 20} MiB, "
                "and a page must fit into memory",
                fix="request smaller pages with page_size, or use shorter windows",
            ) from None

    def send_head(self, path: str) -> Response | None:
        """Send one HEAD request for a path. Return the response, whatever its status; None if there is no response."""
        try:
            return self._send(ApiRequest("HEAD", path, {}), self._authorization())
        except (TransientFailure, ResponseTooLargeError, WaterclockError):
            return None

    def reach(self, path: str) -> None:
        """Send a HEAD request for a path, to check that the API responds and accepts the credentials.

        Raises E840 without a response, E844 for refused credentials.
        """
        request = ApiRequest("HEAD", path, {})
        try:
            answer = self._send(request, self._authorization(self.name))
        except TransientFailure as failed:
            raise self._retries_exhausted_error(request, failed, self.name) from None
        if answer.status in {401, 403}:
            raise self._refusal_error(request, answer, self.name)

    def hide(self, text: str) -> str:
        """Replace secrets in a text by ***, in all the forms in which a server may return them."""
        for secret in sorted(self._secrets(), key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def resolve_link(self, link: str, request: ApiRequest) -> str:
        """Resolve a link to the next page to a complete address, without the parameter that contains the key.

        The link may be relative to the address of the request.
        Raises OutsideApiError for a link that is not below the API's url.
        """
        whole = resolve_link(self._base_address(request), link, without=self._option_text("auth.param"))
        parse_below(self._url, whole)
        return whole

    def _has_option(self, name: str) -> bool:
        return name in self._options

    def _option_text(self, name: str, otherwise: str = "") -> str:
        return str(self._options.get(name, otherwise))

    def _client(self) -> httpx2.Client:
        with self._lock:
            if self._created_client is None:
                own = {k.removeprefix("headers."): str(v) for k, v in self._options.items() if k.startswith("headers.")}
                self._created_client = client_of(timeout=self._timeout, headers={"Accept": "application/json"} | own)
                weakref.finalize(self, self._created_client.close)  # a collector is never closed explicitly
            return self._created_client

    def _receive(self, sent: httpx2.Request, most: int) -> Response:
        try:
            answer = receive(self._client(), sent, most=most, timeout=self._timeout)
        except NoResponse as error:
            raise TransientFailure(_CODES[error.kind], self.hide(error.why)) from None
        return Response(answer.status, answer.headers, answer.content)

    def _send_authorized(self, request: ApiRequest, where: str) -> Response:
        """Send a request. If the OAuth token is refused, send it once more with a new token."""
        authorization = self._authorization(where)
        answer = self._send(request, authorization)
        if answer.status == 401 and self._tokens is not None:
            self._tokens.drop(authorization["Authorization"].removeprefix("Bearer "))
            answer = self._send(request, self._authorization(where))
        if answer.is_good or (request.accepts_not_found and answer.is_not_found):
            return answer
        if answer.is_retryable:
            after = answer.seconds_to_wait(datetime.now(UTC))
            if after is not None:
                self._pace.pause(min(after, self._patience))
            raise TransientFailure("E841", f"it returned {self._describe_answer(answer)}", after)
        raise self._refusal_error(request, answer, where)

    def _send(self, request: ApiRequest, authorization: Mapping[str, str]) -> Response:
        client = self._client()
        try:
            address = parse_below(self._url, self._address(request))
        except OutsideApiError as error:
            raise WaterclockError(
                "E877",
                f"a request would go outside of {self.name}",
                where=self.name,
                why=f"the address of {request.display_name} is refused: {error}",
                fix="set url to the common prefix of the API's addresses, and path to the part below it",
            ) from None
        wait = self._pace.reserve()
        if wait > 0:
            self._sleep(wait)
        headers = {**authorization, **(request.headers or {})}
        if request.content is not None:
            headers["Content-Type"] = request.kind
        sent = client.build_request(request.method, address, content=request.content, headers=headers)
        return self._receive(sent, MOST_BYTES)

    def _base_address(self, request: ApiRequest) -> str:
        return request.link or join(self._url, request.path)

    def _address(self, request: ApiRequest) -> str:
        params = dict(request.params)
        if self._has_option("auth.key") and self._has_option("auth.param"):
            params[self._option_text("auth.param")] = self._option_text("auth.key")
        return with_params(self._base_address(request), params)

    def _authorization(self, where: str = "") -> dict[str, str]:
        headers = self._credentials(where)
        own = {name: str(value) for name, value in self._options.items() if name.startswith("headers.")}
        for name, value in (own | headers).items():
            if not _SENDABLE.fullmatch(value):
                raise WaterclockError(
                    "E844",
                    f"a header for {self.name} cannot be sent",
                    where=where or self.name,
                    why=f"{name} contains a line break, a character outside ASCII, or a blank at its start or end",
                    fix="correct the option, or store the secret without it (files often end with a line break); "
                    "then `waterclock retry`",
                )
        return headers

    def _credentials(self, where: str) -> dict[str, str]:
        if self._tokens is not None:
            try:
                return {"Authorization": f"Bearer {self._tokens.get()}"}
            except ValueError as error:
                raise self._token_error(str(error), where) from None
        if self._has_option("auth.token"):
            return {"Authorization": f"Bearer {self._option_text('auth.token')}"}
        if self._has_option("auth.password"):
            return {
                "Authorization": f"Basic {_basic(self._option_text('auth.user'), self._option_text('auth.password'))}"
            }
        if self._has_option("auth.key") and not self._has_option("auth.param"):
            return {self._option_text("auth.header", "X-API-Key"): self._option_text("auth.key")}
        return {}

    def _fetch_token(self) -> bytes:
        """Request a token, and return the body of the response. `Tokens` calls this while it holds its lock."""
        form = {"grant_type": "client_credentials"}
        if self._has_option("auth.scope"):
            form["scope"] = self._option_text("auth.scope")
        client, secret = self._option_text("auth.client_id"), self._option_text("auth.client_secret")
        headers: dict[str, str] = {}
        if self._option_text("auth.client_in", "header") == "body":
            form |= {"client_id": client, "client_secret": secret}
        else:
            headers["Authorization"] = f"Basic {_basic(quote(client, safe=''), quote(secret, safe=''))}"
        url = urljoin(self._url + "/", self._option_text("auth.token_url"))
        answer = self._send_for_token(url, urlencode(form).encode(), headers)
        if answer.is_retryable:
            raise TransientFailure(
                "E841", f"the token server returned {answer.status}", answer.seconds_to_wait(datetime.now(UTC))
            )
        if not answer.is_good:
            raise ValueError(f"the token server returned {self._describe_answer(answer)}")
        return answer.content

    def _send_for_token(self, url: str, content: bytes, headers: Mapping[str, str]) -> Response:
        client = self._client()
        all_headers = {**headers, "Content-Type": "application/x-www-form-urlencoded"}
        try:
            sent = client.build_request("POST", url, content=content, headers=all_headers)
            return self._receive(sent, MOST_BYTES_OF_TOKEN)
        except ResponseTooLargeError:
            raise ValueError(f"the token server returned more than {MOST_BYTES_OF_TOKEN >> 20} MiB") from None
        except TransientFailure as failed:
            raise TransientFailure(failed.code, f"no token: {failed.why}", failed.after) from None

    def _wait(self, state: RetryCallState) -> float:
        raised = state.outcome.exception() if state.outcome else None
        after = raised.after if isinstance(raised, TransientFailure) else None
        if after is not None and after > self._patience and isinstance(raised, TransientFailure):
            raise TransientFailure(raised.code, f"{raised.why}, and asks to wait {after:.0f} seconds", after)
        growing = min(_LONGEST_WAIT, 0.25 * 2.0 ** float(state.attempt_number))
        return max(after or 0.0, float(growing * random.uniform(0.5, 1.0)))  # noqa: S311 - to spread threads

    def _secrets(self) -> set[str]:
        plain = {self._option_text(name) for name in SECRETS if self._has_option(name)}
        plain |= {
            str(value) for name, value in self._options.items() if name.startswith("headers.") and len(str(value)) > 7
        }
        if self._has_option("auth.password"):
            plain.add(_basic(self._option_text("auth.user"), self._option_text("auth.password")))
        if self._tokens is not None:
            client = self._option_text("auth.client_id"), self._option_text("auth.client_secret")
            plain |= {
                self._tokens.current,
                _basic(*client),
                _basic(*(quote(part, safe="") for part in client)),
            }
        return {form for secret in plain if secret for form in _encoded_forms(secret)}

    def _describe_answer(self, answer: Response) -> str:
        # secrets are hidden before the text is cut, as a part of a secret would not be found
        body = " ".join(self.hide(answer.content[: 1 << 16].decode(errors="replace")).split())
        return f"{answer.status}{': ' + body[:_MOST_SHOWN] if body else ''}"

    def _describe_invalid_json(self, answer: Response, error: ValueError) -> str:
        if answer.content.lstrip()[:1] == b"<":  # the page of a login, a proxy or an app
            return f"the response is HTML or XML, and not JSON: {self._describe_answer(answer)}"
        return f"the response is not complete JSON: {error}"

    def _retries_exhausted_error(self, request: ApiRequest, failed: TransientFailure, where: str) -> WaterclockError:
        what = {
            "E840": f"{self.name} cannot be reached",
            "E841": f"{self.name} is overloaded or fails",
            "E842": f"a response of {self.name} is not complete JSON",
        }[failed.code]
        fix = {
            "E840": "check that url is right and the server is up; pages read so far are kept",
            "E841": "run again later: it continues where it stopped; set rate if the API limits requests",
            "E842": "run again later; if it happens again, check url and path, or lower page_size",
        }[failed.code]
        times = f" ({self._tries} tries)" if self._tries > 1 else ""
        return WaterclockError(
            failed.code,
            what,
            where=where,
            why=f"{request.display_name}: {self.hide(failed.why)}{times}",
            fix=fix,
            transient=True,
        )

    def _refusal_error(self, request: ApiRequest, answer: Response, where: str) -> WaterclockError:
        if answer.status in {401, 403}:
            return WaterclockError(
                "E844",
                f"{self.name} refuses the credentials",
                where=where,
                why=f"{request.display_name} returned {self._describe_answer(answer)}",
                fix="check that the secret is right and has the permission; then `waterclock retry`"
                if any(self._has_option(name) for name in SECRETS)
                else "set auth.token, auth.key, auth.password or auth.client_secret of the connection",
            )
        if 300 <= answer.status < 400:
            why, fix = "it redirects, and credentials are not sent elsewhere", "set url to the address of the redirect"
        else:
            why, fix = "", "check path, parameters and method against the API's documentation"
        what = f"{request.display_name} returned {self._describe_answer(answer)}"
        return WaterclockError(
            "E845", f"{self.name} refuses a request", where=where, why=f"{what}; {why}" if why else what, fix=fix
        )

    def _token_error(self, why: str, where: str) -> WaterclockError:
        return WaterclockError(
            "E844",
            f"{self.name} does not issue a token",
            where=where or self.name,
            why=why,
            fix="check auth.token_url, auth.client_id, auth.client_secret and auth.scope",
        )


def _encoded_forms(secret: str) -> tuple[str, ...]:
    """Return the forms in which an error may contain a secret: plain, percent-encoded, in JSON, in HTML or escaped."""
    escaped = (repr(secret)[1:-1], ascii(secret)[1:-1], repr(secret.encode())[2:-1])
    return secret, quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1], escape(secret), *escaped


def _basic(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()
