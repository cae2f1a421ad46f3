"""Declares the options of REST connections, collects and publishes, and parses their values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from waterclock.flow.capabilities import Option
from waterclock.flow.for_each import list_placeholders
from waterclock.timelabel.duration import Duration, parse_duration

STYLES = ("none", "page", "offset", "cursor", "link")
SECRETS = ("auth.token", "auth.key", "auth.password", "auth.client_secret")
ADDRESS = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*:)?[/\\]{2}")
_RATE = re.compile(r"\s*(\d+)\s+PER\s+(?:(\d+)\s+)?(SECOND|MINUTE|HOUR|DAY)S?\s*", re.IGNORECASE)
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}

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
    """The options that determine how the pages of a resource are requested.

    `param` and `size_param` are names of parameters; `next`, `more` and `total` are paths in a response. `stops_short`:
    a page with fewer than `size` records is the last one.
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
    """The parameters `since` and `until` for the start and end of a window, and how times are written in them.

    A parameter that the API does not have is empty.
    """

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
    window_params: WindowParams
    epoch: str
    resume: float


@dataclass(frozen=True, slots=True)
class EachOptions:
    """The options of FOR EACH. `match`: in a batch, the path in a record of the value that identifies its row.

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
    """The options of a PUBLISH. `idempotency` is the header with the key of a request; empty if requests have none."""

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
    """Build the resource that a unit reads from its options, with those of its connection as defaults."""
    settings = {name: value for name, value in of_connection.items() if _is_known(name, OF_PAGES)} | dict(options)
    style = str(settings.get("paging", "none"))
    following = str(settings.get("next", "next_cursor" if style == "cursor" else ""))
    size = settings.get("page_size")
    return Resource(
        method=str(settings.get("method", "GET")),
        path=str(settings.get("path", path.replace(".", "/"))),
        params=tuple(
            (name.removeprefix("params."), str(settings[name])) for name in settings if name.startswith("params.")
        ),
        is_in_body=settings.get("params_in") == "body",
        rows=path_of(settings.get("rows")),
        paging=Paging(
            style,
            str(settings.get("page_param", style)),
            int(settings.get("first_page", 1)),
            None if size is None else int(size),
            str(settings.get("size_param", "limit")),
            path_of(following),
            path_of(settings.get("more")),
            path_of(settings.get("total")),
            settings.get("stop") == "short",
        ),
        window_params=WindowParams(
            str(settings.get("since", "")),
            str(settings.get("until", "")),
            str(settings.get("time_format", "iso")),
            str(settings.get("time_zone", "UTC")),
        ),
        epoch=str(settings.get("epoch", "")),
        resume=float(settings.get("resume", 3600)),
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
    """Return the columns whose names are in braces in a unit's path or parameters."""
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


def path_of(value: object) -> tuple[str, ...]:
    """Split a path such as `data.items` into its steps."""
    return tuple(step for step in str(value or "").split(".") if step)


def rate_of(value: object) -> tuple[int, float] | None:
    """Parse a rate into a number of requests and a period in seconds; None if the text is not a rate."""
    match = _RATE.fullmatch(str(value))
    if match is None or not int(match[1]) or match[2] == "0":
        return None
    return int(match[1]), float(int(match[2] or 1) * _UNITS[match[3].lower()])


def _is_known(name: str, options: Mapping[str, Option]) -> bool:
    return name in options or f"{name.partition('.')[0]}.*" in options
