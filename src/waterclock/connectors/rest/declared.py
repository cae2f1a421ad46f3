"""Parses the options of a connection, of a COLLECT and of a PUBLISH into values, and finds invalid ones.

Pure functions: `check` calls `wrong_options` without opening anything, and secrets are pointers then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from waterclock.connectors.rest.addresses import wrong_path
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import Option, Wrong
from waterclock.flow.declarations import Secret
from waterclock.flow.for_each import places_in
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
    "url": Option(is_required=True, help="where the API is, as https://api.example.com/v1"),
    "auth.token": Option(is_secret=True, help="a bearer token, as a secret"),
    "auth.key": Option(is_secret=True, help="a key, as a secret"),
    "auth.header": Option(help="the header that bears the key; X-API-Key"),
    "auth.param": Option(help="the parameter that bears the key, instead of a header"),
    "auth.user": Option(help="the user of basic authentication"),
    "auth.password": Option(is_secret=True, help="their password, as a secret"),
    "auth.token_url": Option(is_address=True, help="where tokens are had by OAuth client credentials"),
    "auth.client_id": Option(help="the client's id there"),
    "auth.client_secret": Option(is_secret=True, help="the client's secret, as a secret"),
    "auth.scope": Option(help="the scope that is asked for"),
    "auth.client_in": Option(choices=("header", "body"), help="where id and secret of the client stand; header"),
    "headers.*": Option(help="a header of each request"),
    "timeout": Option("number", help="seconds to wait for an answer; 30"),
    "tries": Option("number", help="how often a request is tried that may succeed later; 5"),
    "patience": Option("number", help="seconds that a server may ask to wait before we give up; 300"),
    "rate": Option(help="how many requests are allowed, as 10 PER SECOND or 600 PER MINUTE; any number"),
    "clock": Option(choices=("server", "machine"), help="whose clock says that a window is over; server"),
}
OF_PAGES = {
    "params.*": Option(help="a parameter of each request that reads"),
    "rows": Option(help="the path of the records in an answer, as data.items; the answer itself"),
    "paging": Option(choices=STYLES, help="how more than one page is asked for; none"),
    "page_param": Option(help="the parameter of the page, the place or the cursor; page, offset, cursor"),
    "first_page": Option("number", help="the number of the first page; 1"),
    "page_size": Option("number", help="how many records are asked for at a time; as the API likes"),
    "size_param": Option(help="the parameter of the page size; limit"),
    "next": Option(help="the path of the next cursor or link in an answer; next_cursor, the header Link"),
    "more": Option(help="the path of a flag in an answer that tells whether there is more"),
    "total": Option(help="the path of the number of all records in an answer"),
    "stop": Option(choices=("empty", "short"), help="which page is the last: an empty one, or one not full; empty"),
    "since": Option(help="the parameter of a window's start"),
    "until": Option(help="the parameter of a window's end"),
    "time_format": Option(help="iso, date, seconds, milliseconds, or a pattern such as %Y%m%d; iso"),
    "time_zone": Option(help="the zone in which since and until are written; UTC"),
}
OF_COLLECT = {
    **OF_PAGES,
    "path": Option(help="what is asked for, below the url; the unit's name, its dots as slashes"),
    "method": Option(choices=("GET", "POST"), help="how it is asked for; GET"),
    "params_in": Option(choices=("query", "body"), help="where parameters stand: the address, or JSON; query"),
    "epoch": Option(choices=("seconds", "milliseconds", "microseconds"), help="what numeric times count; seconds"),
    "resume": Option(
        "number", help="seconds for which a stopped collect goes on where it stopped; 3600, of FOR EACH 604800"
    ),
    "batch": Option("number", help="of FOR EACH: how many rows a request asks for, their values joined by commas; 1"),
    "match": Option(help="of a batch: the path in a record of the value that it was asked for, as id"),
    "in_flight": Option("number", help="of FOR EACH: how many requests wait for answers at once; 1"),
    "cache": Option(help="of FOR EACH: how long an answer serves later labels too, as 7 days; not at all"),
    "not_found": Option(choices=("fail", "skip"), help="of FOR EACH: what a 404 means, a failure or no row; fail"),
}
_OF_EACH = ("batch", "match", "in_flight", "cache", "not_found")
OF_PUBLISH = {
    "path": Option(help="where rows are sent, below the url; the unit's name. {column} and {timelabel} are put in"),
    "method": Option(choices=("POST", "PUT", "PATCH"), help="how they are sent; POST"),
    "format": Option(choices=("json", "ndjson", "row"), help="an array, lines, or one object a request; json"),
    "wrap": Option(help="the member of an object that holds the array; the array stands alone"),
    "chunk": Option("number", help="how many rows a request brings; 100"),
    "idempotency": Option(help="the header that bears a request's key, none if empty; Idempotency-Key"),
    "in_flight": Option("number", help="how many requests wait for answers at once; 1"),
    "timelabel": Option("flag", help="whether a row has its label as its last member; true unless said"),
    "empty": Option("flag", help="whether a label without rows is sent too, as none; false"),
}


@dataclass(frozen=True, slots=True)
class Paging:
    """How pages are requested. `param` and `size_param` are names of parameters, the others paths in a response."""

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
    """How windows are requested: names of parameters, empty if the API has none."""

    since: str = ""
    until: str = ""
    format: str = "iso"
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Resource:
    """The resource of an API that a COLLECT reads."""

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
class Details:
    """How an API is queried for each row of a table. `match`: the path in a record of the value that a batch requested.

    `cache`: how long a response is reused for later labels; None if each label sends its own requests.
    """

    batch: int
    match: tuple[str, ...]
    in_flight: int
    cache: Duration | None
    skips_not_found: bool
    resume: float


@dataclass(frozen=True, slots=True)
class Sending:
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


def details_of(options: Mapping[str, Any]) -> Details:
    """Parse the options of a FOR EACH."""
    return Details(
        batch=int(options.get("batch", 1)),
        match=path_of(options.get("match")),
        in_flight=int(options.get("in_flight", 1)),
        cache=parse_duration(str(options["cache"])) if "cache" in options else None,
        skips_not_found=options.get("not_found") == "skip",
        resume=float(options.get("resume", 604800)),
    )


def each_parameters(path: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns that a unit names in braces in its path or its parameters."""
    texts = [str(value) for name, value in sorted(options.items()) if name.startswith("params.")]
    return places_in([str(options.get("path", path)), *texts])


def parse_sending(path: str, options: Mapping[str, Any]) -> Sending:
    """Parse the options of a PUBLISH to a unit."""
    kind = str(options.get("format", "json"))
    return Sending(
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


def wrong_options(what: str, options: Mapping[str, Any], path: str = "") -> Iterator[Wrong]:
    """Yield the invalid or contradictory options of a `connection`, a `collect` or a `publish`.

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
            yield Wrong("E314", name, f"{name} is {value}", "", f"say {least:g} or more")
    if what == "publish":
        yield from _wrong_sending(options)


def _wrong_address(options: Mapping[str, Any]) -> Iterator[Wrong]:
    url = options.get("url")
    if isinstance(url, str):
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            yield Wrong("E314", "url", "url is no address of the web", "", "as in https://api.example.com/v1")
        elif parts.username or parts.password:
            yield Wrong(
                "E313",
                "url",
                "the url holds a user or a password",
                "it would stand in plans and logs",
                "say auth.user, and auth.password as a secret",
            )
        elif parts.query or parts.fragment:
            yield Wrong("E314", "url", "the url has parameters", "", "say them as params.name, or auth.param")
        elif why := wrong_path(parts.path):
            yield Wrong("E314", "url", "the path of the url is not plain", why, "say it without `.` and `..` as steps")
    token_url = options.get("auth.token_url")
    if isinstance(token_url, str) and "://" in token_url:
        parts = urlsplit(token_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username:
            fix = "as in https://login.example.com/token, without a user"
            yield Wrong("E314", "auth.token_url", "auth.token_url is no address of the web", "", fix)
    rate = options.get("rate")
    if rate is not None and rate_of(rate) is None:
        yield Wrong("E314", "rate", f"rate is {rate!r}", "", "as in 10 PER SECOND, 600 PER MINUTE, 100 PER 15 MINUTES")


def _wrong_place(options: Mapping[str, Any], path: str) -> Iterator[Wrong]:
    """Yield an error for a path that leaves the url, however it is encoded: the credentials would go with it."""
    said = options.get("path", path)
    if not isinstance(said, str):
        return
    if _ADDRESS.match(said):
        what, why = "path is an address of its own", "requests go below the connection's url, and its credentials too"
        yield Wrong("E314", "path", what, why, "say what is below the url, or declare a connection for the other one")
    elif why := wrong_path(said):
        fix = "say it without `.` and `..` as steps, below the url of the connection"
        yield Wrong("E314", "path" if "path" in options else "", "the path leaves the connection's url", why, fix)


def _wrong_auth(options: Mapping[str, Any]) -> Iterator[Wrong]:
    kinds = [kind for kind in _AUTH if kind in options]
    if len(kinds) > 1:
        yield Wrong(
            "E313",
            kinds[1],
            f"{kinds[0]} and {kinds[1]} are both said",
            "a request is authorized in one way",
            "leave one of them out",
        )
    for kind in kinds:
        missing = [name for name in _AUTH[kind] if name not in options]
        if missing:
            yield Wrong("E313", kind, f"{kind} is said without {missing[0]}", "", f"say {missing[0]} too")
    for name, kind in _BESIDE.items():
        if name in options and kind not in options:
            yield Wrong("E313", name, f"{name} is said without {kind}", "", f"say {kind} too, as a secret")
    if "auth.header" in options and "auth.param" in options:
        yield Wrong("E313", "auth.param", "the key is in a header and in a parameter", "", "leave one of them out")


def _wrong_params(options: Mapping[str, Any]) -> Iterator[Wrong]:
    for name, value in options.items():
        if name.startswith("params.") and isinstance(value, Secret):
            yield Wrong(
                "E313",
                name,
                f"{name} is a secret",
                "parameters stand in links to the next page, which are kept",
                "say auth.key of the connection, and auth.param 'its name'",
            )


def _wrong_pages(options: Mapping[str, Any], *, is_whole: bool) -> Iterator[Wrong]:
    """Yield options that contradict the paging. Options of a connection may be incomplete: a collect completes them."""
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
            yield Wrong(
                "E315",
                name,
                f"{name} does not go with paging {style!r}",
                f"it is for paging by {' or '.join(sorted(styles))}",
                "leave it out, or say another paging",
            )
    if is_whole and options.get("stop") == "short" and "page_size" not in options:
        yield Wrong(
            "E315", "stop", "no page size is known, so no page can be short", "", "say page_size, or leave stop out"
        )


def _wrong_times(options: Mapping[str, Any]) -> Iterator[Wrong]:
    if "until" in options and "since" not in options:
        yield Wrong("E315", "until", "until is said without since", "", "say the parameter of a window's start too")
    pattern = options.get("time_format")
    if isinstance(pattern, str) and pattern not in _FORMATS and "%" not in pattern:
        yield Wrong(
            "E314", "time_format", f"time_format is {pattern!r}", "", f"say {', '.join(_FORMATS)}, or a %-pattern"
        )
    zone = options.get("time_zone")
    if isinstance(zone, str) and not _is_zone(zone):
        yield Wrong("E314", "time_zone", f"time_zone is {zone!r}", "", "as in Europe/Berlin")


def _only_of_each(options: Mapping[str, Any], path: str) -> Iterator[Wrong]:
    for name in _OF_EACH:
        if name in options:
            why = "it says how a source is asked for each row of a table"
            yield Wrong(
                "E394", name, f"{name} is said without FOR EACH", why, "say FOR EACH schema.table, or leave it out"
            )
    texts = {"path" if "path" in options else "": str(options.get("path", path))}
    texts |= {name: str(value) for name, value in options.items() if name.startswith("params.")}
    for name, text in texts.items():
        if places := places_in([text]):
            what = f"{name if name.startswith('params.') else 'the path'} names {places[0]}"
            why = "without FOR EACH there is no row that it could be of"
            yield Wrong("E392", name, what, why, f"say FOR EACH schema.table, a table that has {places[0]}")


def _wrong_each(options: Mapping[str, Any], path: str) -> Iterator[Wrong]:
    parameters = each_parameters(path, options)
    is_batch = int(options.get("batch", 1)) > 1 if isinstance(options.get("batch", 1), int | float) else True
    if is_batch and "match" not in options:
        why = "a request asks for many rows, and each record must tell for which of them it is the answer"
        yield Wrong("E394", "batch", "batch is said without match", why, "say the path of that value, as in match 'id'")
    if "match" in options and not is_batch:
        yield Wrong("E394", "match", "match is said without batch", "an answer is that of its request", "leave it out")
    if is_batch and len(parameters) > 1:
        why = f"a request lists the values of one column, and {', '.join(parameters)} are named"
        yield Wrong("E394", "batch", "a batch is of one column", why, "leave batch out, or name one of them alone")
    if "cache" in options and not _is_duration(options["cache"]):
        yield Wrong("E394", "cache", f"cache is {options['cache']!r}", "", "as in 7 days, 12 hours")
    if "cache" in options and "since" in options:
        why = "with since an answer is that of its own window"
        yield Wrong("E394", "cache", "cache and since are both said", why, "leave one of them out")


def _is_duration(said: object) -> bool:
    try:
        parse_duration(str(said))
    except WaterclockError:
        return False
    return True


def _wrong_sending(options: Mapping[str, Any]) -> Iterator[Wrong]:
    kind = options.get("format", "json")
    if kind != "json" and "wrap" in options:
        yield Wrong("E314", "wrap", "only an array is wrapped", f"the format is {kind}", "leave wrap out")
    if kind == "row" and "chunk" in options:
        yield Wrong("E314", "chunk", "chunk does not go with format 'row'", "a request brings one row", "leave it out")
    placed = re.findall(r"\{(\w+)\}", str(options.get("path", "")))
    if kind != "row" and [name for name in placed if name != "timelabel"]:
        yield Wrong(
            "E314",
            "path",
            "the path names a column",
            "a request brings many rows",
            "say format 'row', or only {timelabel} in the path",
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
