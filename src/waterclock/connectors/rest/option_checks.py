"""Finds invalid and contradictory options of REST connections, collects and publishes.

Pure functions: `check` calls `wrong_options` before secrets are resolved, and nothing is opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from waterclock.connectors.rest.addresses import wrong_path
from waterclock.connectors.rest.option_definitions import ADDRESS, each_parameters, rate_of
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import InvalidOption
from waterclock.flow.declarations import Secret
from waterclock.flow.for_each import list_placeholders
from waterclock.timelabel.duration import parse_duration

_AUTH = {
    "auth.token": ("auth.token",),
    "auth.key": ("auth.key",),
    "auth.password": ("auth.user", "auth.password"),
    "auth.client_secret": ("auth.token_url", "auth.client_id", "auth.client_secret"),
}
_REQUIRED_WITH = {
    "auth.user": "auth.password",
    "auth.header": "auth.key",
    "auth.param": "auth.key",
    "auth.token_url": "auth.client_secret",
    "auth.client_id": "auth.client_secret",
    "auth.scope": "auth.client_secret",
    "auth.client_in": "auth.client_secret",
}
_FORMATS = ("iso", "date", "seconds", "milliseconds")
_OF_EACH = ("batch", "match", "in_flight", "cache", "not_found")


def wrong_options(what: str, options: Mapping[str, Any], path: str = "") -> Iterator[InvalidOption]:
    """Yield errors for invalid or contradictory options of a `connection`, a `collect` or a `publish`.

    `what` is one of these words. For a collect, a second call has `each` if it has FOR EACH, else `whole`.
    """
    if what in {"each", "whole"}:
        yield from _wrong_each_options(options, path) if what == "each" else _unused_each_options(options, path)
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
            yield InvalidOption(
                "E314", name, f"{name} must be {least:g} or more, not {value}", "", f"set {least:g} or more"
            )
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
            "E314",
            "rate",
            f"invalid rate {rate!r}",
            "",
            "write it like 10 PER SECOND, 600 PER MINUTE or 100 PER 15 MINUTES",
        )


def _wrong_place(options: Mapping[str, Any], path: str) -> Iterator[InvalidOption]:
    """Yield an error for a path that leaves the connection's url, however it is encoded."""
    given = options.get("path", path)
    if not isinstance(given, str):
        return
    if ADDRESS.match(given):
        what, why = "path is a complete address", "requests and credentials are only sent below the connection's url"
        yield InvalidOption(
            "E314", "path", what, why, "write the part below the url, or declare a connection for the other address"
        )
    elif why := wrong_path(given):
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
    for name, kind in _REQUIRED_WITH.items():
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
    """Yield errors for options that contradict the paging. With `is_whole`, also for a missing option.

    A connection need not have all options, as a collect can add them.
    """
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
            "E314",
            "time_format",
            f"invalid time_format {pattern!r}",
            "",
            f"write {', '.join(_FORMATS)}, or a %-pattern",
        )
    zone = options.get("time_zone")
    if isinstance(zone, str) and not _is_zone(zone):
        yield InvalidOption(
            "E314", "time_zone", f"unknown time_zone {zone!r}", "", "write a zone such as Europe/Berlin"
        )


def _unused_each_options(options: Mapping[str, Any], path: str) -> Iterator[InvalidOption]:
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
            where = name if name.startswith("params.") else "the path"
            what = f"{where} uses {{{places[0]}}}, but there is no FOR EACH"
            why = "the value comes from a column of the rows of FOR EACH"
            yield InvalidOption("E392", name, what, why, f"add FOR EACH schema.table, a table that has {places[0]}")


def _wrong_each_options(options: Mapping[str, Any], path: str) -> Iterator[InvalidOption]:
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
        yield InvalidOption(
            "E394", "cache", f"invalid cache {options['cache']!r}", "", "write it like 7 days or 12 hours"
        )
    if "cache" in options and "since" in options:
        why = "with since a response is valid for its own window only"
        yield InvalidOption("E394", "cache", "cache and since are both set", why, "leave one of them out")


def _is_duration(given: object) -> bool:
    try:
        parse_duration(str(given))
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
            "the path uses a column",
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
