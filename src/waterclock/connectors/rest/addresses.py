"""Builds the addresses of requests to an API, and refuses addresses that are not below the connection's url.

An address must have the same scheme, host and port as the url, no user, and a path below that of the url. Servers and
proxies decode a path before they resolve `..`, some of them twice, and some treat a backslash as a slash. So the check
decodes the path in the same way before it compares it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode, urljoin, urlsplit, urlunsplit

if TYPE_CHECKING:
    import httpx2

_MOST_DECODED = 8
_DOTS = frozenset({".", ".."})


class OutsideApiError(Exception):
    """Raised for an address that is not below the API's url.

    The message contains no address, which may contain a key.
    """


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace names in braces by their values. Unknown names remain, and braces in values are not replaced."""
    parts = text.split("{")
    filled = [parts[0]]
    for part in parts[1:]:
        name, closing, tail = part.partition("}")
        filled.append(f"{values[name]}{tail}" if closing and name in values else f"{{{part}")
    return "".join(filled)


def fill_path(template: str, values: Mapping[str, Sequence[str]]) -> str:
    """Insert values into a path so that each is part of one path segment.

    Several values of a column are joined by commas.

    Raises OutsideApiError for values that lead to another path, such as `..` and `../x`, and for an empty value, whose
    segment servers would drop.
    """
    named = {name: of for name, of in values.items() if f"{{{name}}}" in template}
    empty = next((name for name, of in named.items() if not "".join(of)), None)
    if empty is not None:
        raise OutsideApiError(f"{empty} is empty, and cannot be a segment of the path {template}")
    path = fill(template, {name: ",".join(quote(value, safe="") for value in of) for name, of in named.items()})
    if why := wrong_path(path):
        given = ", ".join(f"{name} {','.join(of)!r}" for name, of in named.items())
        raise OutsideApiError(f"{given} in the path {template}: {why}")
    return path


def wrong_path(path: str) -> str:
    """Return the reason why a path may lead out of an API's url, however a server decodes it; empty if it cannot."""
    try:
        steps = decode_path(path).split("/")
    except OutsideApiError as error:
        return str(error)
    if any(step.partition(";")[0].strip() in _DOTS for step in steps):
        return "one of its segments is . or .., which servers resolve"
    return ""


def decode_path(path: str) -> str:
    """Decode a path as the most lenient server does: repeatedly, with backslashes as slashes.

    Raises OutsideApiError for control characters, for bytes that are not UTF-8, and for 8 or more levels of encoding.
    """
    for _ in range(_MOST_DECODED):
        try:
            decoded = unquote_to_bytes(path).decode()
        except UnicodeError:
            raise OutsideApiError("it has bytes that are not UTF-8") from None
        if decoded == path:
            break
        path = decoded
    else:
        raise OutsideApiError("it is percent-encoded too many times")
    if any(ord(sign) < 32 or ord(sign) == 127 for sign in path):
        raise OutsideApiError("it has control characters")
    return path.replace("\\", "/")


def join(url: str, path: str) -> str:
    """Return the address of a path below the API's url. The path is never treated as a complete address."""
    tail = quote(path.lstrip("/"), safe="/:@!$&'()*+,;=~-._%")
    return f"{url}/{tail}" if tail else url


def with_params(address: str, params: Mapping[str, str]) -> str:
    """Add parameters to an address."""
    return f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(params)}" if params else address


def resolve_link(base: str, link: str, *, without: str) -> str:
    """Resolve a link of a response to a complete address. The parameter `without`, which has the key, is removed.

    Raises OutsideApiError for a link that is not a valid URL.
    """
    try:
        whole = urljoin(base, link)
        if not without:
            return whole
        parts = urlsplit(whole)
    except ValueError:
        raise OutsideApiError("it is not a valid URL") from None
    kept = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != without]
    return urlunsplit(parts._replace(query=urlencode(kept), fragment=""))


def path_of_link(link: str) -> str:
    """Return the path of a link for messages. It contains no key, as only the parameters may contain one."""
    try:
        return urlsplit(link).path or "/"
    except ValueError:
        return "(no address)"


def parse_below(url: str, address: str) -> httpx2.URL:
    """Parse an address into the form that is sent, and check that it is below `url`.

    Raises OutsideApiError if it is not, because it has another scheme, host, port or path, or a user.
    """
    import httpx2

    base = httpx2.URL(url)
    try:
        parsed = httpx2.URL(address)
        port = parsed.port
    except (httpx2.InvalidURL, ValueError):
        raise OutsideApiError("it is not a valid URL") from None
    if (parsed.scheme, parsed.host, port) != (base.scheme, base.host, base.port):
        raise OutsideApiError("it is on another host, to which the credentials are not sent")
    if parsed.userinfo:
        raise OutsideApiError("it contains a user, and only the connection's credentials are sent")
    path = parsed.raw_path.partition(b"?")[0].decode("ascii")
    if why := wrong_path(path):
        raise OutsideApiError(why)
    # wrong_path has decoded both: neither has a segment that a server would resolve
    below, found = decode_path(base.path).rstrip("/"), decode_path(path)
    if found != below and not found.startswith(below + "/"):
        raise OutsideApiError("it is not below the path of the connection's url")
    return parsed
