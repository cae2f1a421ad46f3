"""Parses the options of a connection, of a COLLECT and of a PUBLISH into values, and finds invalid ones.

Pure functions: `check` calls `wrong_options` without opening anything, when secrets are not resolved yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from waterclock.connectors.rest.addresses import wrong_path
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import InvalidOption, Option
from waterclock.flow.declarations import Secret
from waterclock.flow.for_each import list_placeholders
from waterclock.timelabel.duration import Duration, parse_duration

STYLES = ("none", "page", "offset", "cursor", "link")
_AUTH = {
    "auth.token": ("auth.token",),
    "auth.key": ("auth.key",),
    "auth.password": ("auth.user", "auth.password"),
    "auth.client_secret": ("auth.token_url", "auth.client_id", "auth.client_secret"),
}
_BESIDE = {
    "auth.user": "auth.password",
    "auth.header": "auth.key",
    "auth.param": "auth.key",
    "auth.token_url": "auth.client_secret",
    "auth.client_id": "auth.client_secret",
    "auth.scope": "auth.client_secret",
    "auth.client_in": "auth.client_secret",
}
SECRETS = ("auth.token", "auth.key", "auth.password", "auth.client_secret")
_ADDRESS = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*:)?[/\\]{2}")
_RATE = re.compile(r"\s*(\d+)\s+PER\s+(?:(\d+)\s+)?(SECOND|MINUTE|HOUR|DAY)S?\s*", re.IGNORECASE)
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_FORMATS = ("iso", "date", "seconds", "milliseconds")

OF_ADDRESS = {
    "url": Option(is_required=True, help="the URL of the API, as https://api.example.com/v1"),
    "auth.token": Option(is_secret=True, help="a bearer token, as a secret"),
    "auth.key": Option(is_secret=True, help="an API key, as a secret"),
    "auth.header": Option(help="the header with the key; default X-API-Key"),
    "auth.param": Option(help="the parameter with the key, instead of a header"),
    "auth.user": Option(help="the user of basic authentication"),
    "auth.password": Option(is_secret=True, help="the password of that user, as a secret"),
    "auth.token_url": Option(is_address=True, help="the URL for tokens by OAuth client credentials"),
    "auth.client_id": Option(help="the client's id"),
    "auth.client_secret": Option(is_secret=True, help="the client's secret, as a secret"),
    "auth.scope": Option(help="the scope to request"),
    "auth.client_in": Option(choices=("header", "body"), help="where client id and secret are sent; default header"),
    "headers.*": Option(help="a header of each request"),
    "timeout": Option("number", help="seconds to wait for a response; default 30"),
    "tries": Option("number", help="how often a request is tried that may succeed later; default 5"),
    "patience": Option("number", help="the longest Retry-After to wait for, in seconds; default 300"),
    "rate": Option(help="the maximum rate of requests, as 10 PER SECOND or 600 PER MINUTE; default no limit"),
    "clock": Option(choices=("server", "machine"), help="whose clock decides that a window is over; default server"),
}
OF_PAGES = {
    "params.*": Option(help="a parameter of each read request"),
    "rows": Option(help="the path of the records in a response, as data.items; default the whole response"),
    "paging": Option(choices=STYLES, help="how further pages are requested; default none"),
    "page_param": Option(help="the parameter of the page, offset or cursor; default page, offset, cursor"),
    "first_page": Option("number", help="the number of the first page; default 1"),
    "page_size": Option("number", help="how many records to request per page; default the API's own"),
    "size_param": Option(help="the parameter of the page size; default limit"),
    "next": Option(help="the path of the next cursor or link in a response; default next_cursor, the header Link"),
    "more": Option(help="the path of a flag in a response that shows whether there are more pages"),
    "total": Option(help="the path of the total number of records in a response"),
    "stop": Option(choices=("empty", "short"), help="which page is the last: an empty or a short one; default empty"),
    "since": Option(help="the parameter of a window's start"),
    "until": Option(help="the parameter of a window's end"),
    "time_format": Option(help="iso, date, seconds, milliseconds, or a pattern such as %Y%m%d; default iso"),
    "time_zone": Option(help="the zone in which since and until are written; default UTC"),
}
OF_COLLECT = {
    **OF_PAGES,
    "path": Option(help="the path below the url; default the unit's name, with slashes for its dots"),
    "method": Option(choices=("GET", "POST"), help="the HTTP method; default GET"),
    "params_in": Option(choices=("query", "body"), help="parameters in the address, or in a JSON body; default query"),
    "epoch": Option(
        choices=("seconds", "milliseconds", "microseconds"), help="the unit of numeric times; default seconds"
    ),
    "resume": Option(
        "number",
        help="seconds for which a stopped collect continues where it stopped; default 3600, with FOR EACH 604800",
    ),
    "batch": Option("number", help="with FOR EACH: rows per request, their values joined by commas; default 1"),
    "match": Option(help="with batch: the path in a record of the requested value, as id"),
    "in_flight": Option("number", help="with FOR EACH: how many requests are in flight at once; default 1"),
    "cache": Option(help="with FOR EACH: how long later labels use a response, as 7 days; default not at all"),
    "not_found": Option(choices=("fail", "skip"), help="with FOR EACH: a 404 is a failure, or no row; default fail"),
}
_OF_EACH = ("batch", "match", "in_flight", "cache", "not_found")
OF_PUBLISH = {
    "path": Option(help="the path below the url; default the unit's name. {column} and {timelabel} are filled in"),
    "method": Option(choices=("POST", "PUT", "PATCH"), help="the HTTP method; default POST"),
    "format": Option(choices=("json", "ndjson", "row"), help="an array, lines, or an object per request; default json"),
    "wrap": Option(help="the key of an object that contains the array; default the array alone"),
    "chunk": Option("number", help="how many rows a request contains; default 100"),
    "idempotency": Option(help="the header with a request's key, none if empty; default Idempotency-Key"),
    "in_flight": Option("number", help="how many requests are in flight at once; default 1"),
    "timelabel": Option("flag", help="whether a row has its label as its last key; default true"),
    "empty": Option("flag", help="whether to send a request for a label without rows; default false"),
}


@dataclass(frozen=True, slots=True)
class Paging:
    """How pages are requested.

    `param` and `size_param` are names of parameters; `next`, `more`, `total` paths in a response.
    `stops_short`: a page with fewer records than `size` is the last.
    """

    style: str = "none"
    param: str = ""
    first: int = 1
    size: int | None = None
    size_param: str = "limit"
    next: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    total: tuple[str, ...] = ()
    stops_short: bool = False


@dataclass(frozen=True, slots=True)
class WindowParams:
    """How windows are requested. `since` and `until` are names of parameters, empty if the API has none."""

    since: str = ""
    until: str = ""
    format: str = "iso"
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Resource:
    """The resource of an API that a COLLECT reads, and how it is requested."""

    method: str
    path: str
    params: tuple[tuple[str, str], ...]
    is_in_body: bool
    rows: tuple[str, ...]
    paging: Paging
    asked: WindowParams
    epoch: str
    resume: float


@dataclass(frozen=True, slots=True)
class EachOptions:
    """The options of FOR EACH. `match`: in a batch, the path in a record of the value to which the record belongs.

    `cache`: how long a response is reused for later labels; None if each label sends its own requests.
    """

    batch: int
    match: tuple[str, ...]
    in_flight: int
    cache: Duration | None
    skips_not_found: bool
    resume: float


@dataclass(frozen=True, slots=True)
class SendOptions:
    """How a PUBLISH sends rows. `idempotency` is empty if requests have no key."""

    method: str
    path: str
    format: str
    wrap: str
    chunk: int
    idempotency: str
    in_flight: int
    has_timelabel: bool
    sends_empty: bool


def resource_of(of_connection: Mapping[str, Any], path: str, options: Mapping[str, Any]) -> Resource:
    """Build the resource of a unit from its own options, with those of its connection as defaults."""
    said = {name: value for name, value in of_connection.items() if _is_known(name, OF_PAGES)} | dict(options)
    style = str(said.get("paging", "none"))
    following = str(said.get("next", "next_cursor" if style == "cursor" else ""))
    size = said.get("page_size")
    return Resource(
        method=str(said.get("method", "GET")),
        path=str(said.get("path", path.replace(".", "/"))),
        params=tuple((name.removeprefix("params."), str(said[name])) for name in said if name.startswith("params.")),
        is_in_body=said.get("params_in") == "body",
        rows=path_of(said.get("rows")),
        paging=Paging(
            style,
            str(said.get("page_param", style)),
            int(said.get("first_page", 1)),
            None if size is None else int(size),
            str(said.get("size_param", "limit")),
            path_of(following),
            path_of(said.get("more")),
            path_of(said.get("total")),
            said.get("stop") == "short",
        ),
        asked=WindowParams(
            str(said.get("since", "")),
            str(said.get("until", "")),
            str(said.get("time_format", "iso")),
            str(said.get("time_zone", "UTC")),
        ),
        epoch=str(said.get("epoch", "")),
        resume=float(said.get("resume", 3600)),
    )


def details_of(options: Mapping[str, Any]) -> EachOptions:
    """Parse the options of a FOR EACH."""
    return EachOptions(
        batch=int(options.get("batch", 1)),
        match=path_of(options.get("match")),
        in_flight=int(options.get("in_flight", 1)),
        cache=parse_duration(str(options["cache"])) if "cache" in options else None,
        skips_not_found=options.get("not_found") == "skip",
        resume=float(options.get("resume", 604800)),
    )


def each_parameters(path: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns that a unit's path or parameters name in braces."""
    texts = [str(value) for name, value in sorted(options.items()) if name.startswith("params.")]
    return list_placeholders([str(options.get("path", path)), *texts])


def parse_sending(path: str, options: Mapping[str, Any]) -> SendOptions:
    """Parse the options of a PUBLISH to a unit."""
    kind = str(options.get("format", "json"))
    return SendOptions(
        method=str(options.get("method", "POST")),
        path=str(options.get("path", path.replace(".", "/"))),
        format=kind,
        wrap=str(options.get("wrap", "")),
        chunk=1 if kind == "row" else int(options.get("chunk", 100)),
        idempotency=str(options.get("idempotency", "Idempotency-Key")),
        in_flight=int(options.get("in_flight", 1)),
        has_timelabel=bool(options.get("timelabel", True)),
        sends_empty=bool(options.get("empty", False)),
    )


def path_of(said: object) -> tuple[str, ...]:
    """Return the steps of a path such as `data.items`."""
    return tuple(step for step in str(said or "").split(".") if step)


def rate_of(said: object) -> tuple[int, float] | None:
    """Parse a rate into a number of requests and a period in seconds; None if the text is not a rate."""
    match = _RATE.fullmatch(str(said))
    if match is None or not int(match[1]) or match[2] == "0":
        return None
    return int(match[1]), float(int(match[2] or 1) * _UNITS[match[3].lower()])


def wrong_options(what: str, options: Mapping[str, Any], path: str = "") -> Iterator[InvalidOption]:
    """Yield errors for invalid or contradictory options of a `connection`, a `collect` or a `publish`.

    A collect is checked once more: as `each` if it has FOR EACH, as `whole` if it does not.
    """
    if what in {"each", "whole"}:
        yield from _wrong_each(options, path) if what == "each" else _only_of_each(options, path)
        return
    if what == "connection":
        yield from _wrong_address(options)
        yield from _wrong_auth(options)
    if what in {"collect", "publish"}:
        yield from _wrong_place(options, path)
    if what in {"connection", "collect"}:
        yield from _wrong_pages(options, is_whole=what == "collect")
        yield from _wrong_times(options)
        yield from _wrong_params(options)
    numbers = {
        "timeout": 0.001,
        "tries": 1,
        "patience": 0,
        "page_size": 1,
        "chunk": 1,
        "in_flight": 1,
        "batch": 1,
        "resume": 0,
    }
    for name, least in numbers.items():
        value = options.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value < least:
            yield InvalidOption("E314", name, f"{name} is {value}", "", f"set {least:g} or more")
    if what == "publish":
        yield from _wrong_sending(options)


def _wrong_address(options: Mapping[str, Any]) -> Iterator[InvalidOption]:
    url = options.get("url")
    if isinstance(url, str):
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            yield InvalidOption(
                "E314", "url", "url is not a web address", "", "write it like https://api.example.com/v1"
            )
        elif parts.username or parts.password:
            yield InvalidOption(
                "E333",
                "url",
                "the url contains a user or a password",
                "it would be shown in plans and logs",
                "set auth.user, and auth.password as a secret",
            )
        elif parts.query or parts.fragment:
            yield InvalidOption("E314", "url", "the url has parameters", "", "set them as params.name, or auth.param")
        elif why := wrong_path(parts.path):
            yield InvalidOption(
                "E314",
                "url",
                "the path of the url has segments that servers resolve",
                why,
                "write it without the segments `.` and `..`",
            )
    token_url = options.get("auth.token_url")
    if isinstance(token_url, str) and "://" in token_url:
        parts = urlsplit(token_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username:
            fix = "write it like https://login.example.com/token, without a user"
            yield InvalidOption("E314", "auth.token_url", "auth.token_url is not a web address", "", fix)
    rate = options.get("rate")
    if rate is not None and rate_of(rate) is None:
        yield InvalidOption(
            "E314", "rate", f"rate is {rate!r}", "", "write it like 10 PER SECOND, 600 PER MINUTE or 100 PER 15 MINUTES"
        )


def _wrong_place(options: Mapping[str, Any], path: str) -> Iterator[InvalidOption]:
    """Yield an error for a path that leaves the connection's url, to which credentials are sent, however encoded."""
    said = options.get("path", path)
    if not isinstance(said, str):
        return
    if _ADDRESS.match(said):
        what, why = "path is a complete address", "requests and credentials are only sent below the connection's url"
        yield InvalidOption(
            "E314", "path", what, why, "write the part below the url, or declare a connection for the other address"
        )
    elif why := wrong_path(said):
        fix = "write it without the segments `.` and `..`, below the url of the connection"
        yield InvalidOption(
            "E314", "path" if "path" in options else "", "the path leaves the connection's url", why, fix
        )


def _wrong_auth(options: Mapping[str, Any]) -> Iterator[InvalidOption]:
    kinds = [kind for kind in _AUTH if kind in options]
    if len(kinds) > 1:
        yield InvalidOption(
            "E313",
            kinds[1],
            f"{kinds[0]} and {kinds[1]} are both set",
            "a request has one kind of login",
            "leave one of them out",
        )
    for kind in kinds:
        missing = [name for name in _AUTH[kind] if name not in options]
        if missing:
            yield InvalidOption("E313", kind, f"{kind} is set without {missing[0]}", "", f"add {missing[0]}")
    for name, kind in _BESIDE.items():
        if name in options and kind not in options:
            yield InvalidOption("E313", name, f"{name} is set without {kind}", "", f"add {kind}, as a secret")
    if "auth.header" in options and "auth.param" in options:
        yield InvalidOption(
            "E313", "auth.param", "the key is in a header and in a parameter", "", "leave one of them out"
        )


def _wrong_params(options: Mapping[str, Any]) -> Iterator[InvalidOption]:
    for name, value in options.items():
        if name.startswith("params.") and isinstance(value, Secret):
            yield InvalidOption(
                "E313",
                name,
                f"{name} is a secret",
                "parameters are part of the links to next pages, which are stored",
                "set auth.key of the connection, and auth.param 'its name'",
            )


def _wrong_pages(options: Mapping[str, Any], *, is_whole: bool) -> Iterator[InvalidOption]:
    """Yield errors for options that contradict the paging. A connection's may be incomplete: a collect adds some."""
    style = options.get("paging")
    if style is None:
        return
    fits = {
        "page_param": {"page", "offset", "cursor"},
        "first_page": {"page"},
        "next": {"cursor", "link"},
        "more": {"page", "offset", "cursor"},
        "total": {"page", "offset"},
        "stop": {"page", "offset"},
    }
    for name, styles in fits.items():
        if name in options and style not in styles:
            yield InvalidOption(
                "E315",
                name,
                f"{name} does not work with paging {style!r}",
                f"it is for paging by {' or '.join(sorted(styles))}",
                "leave it out, or set another paging",
            )
    if is_whole and options.get("stop") == "short" and "page_size" not in options:
        yield InvalidOption(
            "E315", "stop", "stop 'short' is set without page_size", "", "add page_size, or leave stop out"
        )


def _wrong_times(options: Mapping[str, Any]) -> Iterator[InvalidOption]:
    if "until" in options and "since" not in options:
        yield InvalidOption(
            "E315", "until", "until is set without since", "", "add since, the parameter of a window's start"
        )
    pattern = options.get("time_format")
    if isinstance(pattern, str) and pattern not in _FORMATS and "%" not in pattern:
        yield InvalidOption(
            "E314", "time_format", f"time_format is {pattern!r}", "", f"write {', '.join(_FORMATS)}, or a %-pattern"
        )
    zone = options.get("time_zone")
    if isinstance(zone, str) and not _is_zone(zone):
        yield InvalidOption("E314", "time_zone", f"time_zone is {zone!r}", "", "write a zone such as Europe/Berlin")


def _only_of_each(options: Mapping[str, Any], path: str) -> Iterator[InvalidOption]:
    for name in _OF_EACH:
        if name in options:
            why = "it belongs to requests for each row of a table"
            yield InvalidOption(
                "E394", name, f"{name} is set without FOR EACH", why, "add FOR EACH schema.table, or leave it out"
            )
    texts = {"path" if "path" in options else "": str(options.get("path", path))}
    texts |= {name: str(value) for name, value in options.items() if name.startswith("params.")}
    for name, text in texts.items():
        if places := list_placeholders([text]):
            what = f"{name if name.startswith('params.') else 'the path'} names {places[0]}"
            why = "without FOR EACH there is no row with that column"
            yield InvalidOption("E392", name, what, why, f"add FOR EACH schema.table, a table that has {places[0]}")


def _wrong_each(options: Mapping[str, Any], path: str) -> Iterator[InvalidOption]:
    parameters = each_parameters(path, options)
    is_batch = int(options.get("batch", 1)) > 1 if isinstance(options.get("batch", 1), int | float) else True
    if is_batch and "match" not in options:
        why = "a request covers many rows, and each record must show to which of them it belongs"
        yield InvalidOption(
            "E394", "batch", "batch is set without match", why, "add the path of that value, as in match 'id'"
        )
    if "match" in options and not is_batch:
        yield InvalidOption(
            "E394", "match", "match is set without batch", "a response belongs to its request", "leave it out"
        )
    if is_batch and len(parameters) > 1:
        why = f"a request lists the values of one column, and {', '.join(parameters)} are named"
        yield InvalidOption(
            "E394", "batch", "a batch has values of one column", why, "leave batch out, or use only one of them"
        )
    if "cache" in options and not _is_duration(options["cache"]):
        yield InvalidOption("E394", "cache", f"cache is {options['cache']!r}", "", "write it like 7 days or 12 hours")
    if "cache" in options and "since" in options:
        why = "with since a response is valid for its own window only"
        yield InvalidOption("E394", "cache", "cache and since are both set", why, "leave one of them out")


def _is_duration(said: object) -> bool:
    try:
        parse_duration(str(said))
    except WaterclockError:
        return False
    return True


def _wrong_sending(options: Mapping[str, Any]) -> Iterator[InvalidOption]:
    kind = options.get("format", "json")
    if kind != "json" and "wrap" in options:
        yield InvalidOption("E314", "wrap", "wrap is only for an array", f"the format is {kind}", "leave wrap out")
    if kind == "row" and "chunk" in options:
        yield InvalidOption(
            "E314", "chunk", "chunk does not work with format 'row'", "a request contains one row", "leave it out"
        )
    placed = re.findall(r"\{(\w+)\}", str(options.get("path", "")))
    if kind != "row" and [name for name in placed if name != "timelabel"]:
        yield InvalidOption(
            "E314",
            "path",
            "the path names a column",
            "a request contains many rows",
            "set format 'row', or use only {timelabel} in the path",
        )


def _is_zone(name: str) -> bool:
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True


def _is_known(name: str, options: Mapping[str, Option]) -> bool:
    return name in options or f"{name.partition('.')[0]}.*" in options
