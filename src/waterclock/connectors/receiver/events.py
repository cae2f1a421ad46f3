"""Parses the JSON objects of a request (one, an array, or one per line) and builds the lines that are stored.

The checks accept only events that Spark can read later. The sender of a refused event can fix it at once, whereas an
event that Spark cannot read would stop a table.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from waterclock.json_depth import require_depth
from waterclock.spark_sql import column_name, fold_case

RECEIVED, REQUEST, EVENT, HEADERS, RAW = "_received", "_request", "_event", "_headers", "_raw"
OWN = frozenset({RECEIVED, REQUEST, EVENT, HEADERS, RAW})
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

_BLANK = re.compile(r"[ \t\n\r]*")
_SEPARATOR = re.compile(r"[ \t\n\r]*,?[ \t\n\r]*")
_LINE_BREAKS = str.maketrans("\r\n", "  ")
_GZIP_WBITS = 31
MOST_LEVELS = 500
"""The maximum depth of objects and arrays in an event: half of Spark's limit, as other readers may have lower ones."""
_LONG = 900  # a shorter text contains no number that is too long for Spark's reader
_LONG_NAME = 40_000
MOST_EVENTS = 10_000
"""The maximum number of events in a request, as each takes time and memory beyond its bytes."""
MOST_KEYS = 1_000  # in an event, at all levels: each may become a column, and Spark takes minutes for thousands
_MOST_EXPONENT = 400
_EXPONENT = re.compile(r"[0-9.][eE][+-]?0*[0-9]{3}")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_VALID_KEYS: set[str] = set()  # cache of keys that are valid column names without a change; most events repeat them
_MOST_CACHED_KEYS = 10_000


class RefusedError(ValueError):
    """Raised for a request that is refused; `status` is the HTTP status."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class StoredEvents:
    """The events of a request as they are stored: the text of each event as it was sent, with line breaks replaced."""

    events: tuple[str, ...]

    def body(self, request: str | None, headers: Mapping[str, str] | None, *, has_raw: bool) -> bytes:
        """Build the content of a frame: a line of metadata about the request, then a line for each event."""
        metadata = json.dumps({"request": request, "headers": headers, "raw": has_raw}, separators=(",", ":"))
        return "\n".join((metadata, *self.events)).encode()


def events_of(body: bytes) -> StoredEvents:
    """Parse the events of a request: a JSON object, an array of objects, or consecutive objects, as in NDJSON.

    If one event is invalid, none is accepted. Raises RefusedError with the number of that event, from 1, and the
    problem; its status is 413 for more than `MOST_EVENTS`.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise RefusedError(f"the body is not UTF-8 at byte {error.start + 1}") from None
    at = _match_end(_BLANK, text, 0)
    is_array = text.startswith("[", at)
    at = _match_end(_BLANK, text, at + 1) if is_array else at
    found: list[str] = []
    while at < len(text) and not (is_array and text[at] == "]"):
        if len(found) == MOST_EVENTS:
            raise RefusedError(f"the body holds more than {MOST_EVENTS} events: send several requests", 413)
        end = _check_event(text, at, len(found) + 1)
        event = text[at:end]
        found.append(event.translate(_LINE_BREAKS) if "\n" in event or "\r" in event else event)
        is_line = not is_array and text.startswith("\n{", end)
        at = end + 1 if is_line else _skip_separator(text, end, len(found), is_array=is_array)
    if is_array:
        if at >= len(text):
            raise RefusedError("the array does not end")
        if _match_end(_BLANK, text, at + 1) < len(text):
            raise RefusedError("there is text after the array")
    if not found:
        raise RefusedError("the body has no event: send a JSON object, an array of them, or one per line")
    return StoredEvents(tuple(found))


def decode_body(body: bytes, encoding: str, most: int) -> bytes:
    """Decode a body by its Content-Encoding (none or gzip).

    Raises RefusedError with status 400 for invalid gzip, 413 above `most` bytes, 415 for another encoding.
    """
    if encoding in {"", "identity"}:
        return body
    if encoding not in {"gzip", "x-gzip"}:
        raise RefusedError(f"Content-Encoding {encoding} is not supported: use gzip", 415)
    stream = zlib.decompressobj(_GZIP_WBITS)
    try:
        plain = stream.decompress(body, most + 1)
    except zlib.error as error:
        raise RefusedError(f"the body is not gzip: {error}") from None
    if len(plain) > most:
        raise RefusedError(f"the body is larger than {most} bytes when it is unpacked", 413)
    if not stream.eof or stream.unused_data:
        raise RefusedError("the body ends before its gzip stream does, or goes on after it")
    return plain


def lines_of(body: bytes, at: datetime, place: str) -> Iterator[bytes]:
    """Yield a JSON line, to be collected, for each event in the `body` of a frame, with metadata of its request.

    `at` is the time when the request was received. `place` identifies a request without an idempotency key.
    """
    first, *events = body.split(b"\n")
    metadata = json.loads(first)
    fields: dict[str, Any] = {RECEIVED: at.isoformat().replace("+00:00", "Z"), REQUEST: metadata["request"] or place}
    if metadata["headers"] is not None:
        fields[HEADERS] = json.dumps(metadata["headers"], separators=(",", ":"))
    head = json.dumps(fields, separators=(",", ":"))[:-1].encode()
    for number, event in enumerate(events, 1):
        raw = b',"%s":%s' % (RAW.encode(), json.dumps(event.decode()).encode()) if metadata["raw"] else b""
        own = event[1:].lstrip(b" \t")
        comma = b"" if own.startswith(b"}") else b","
        yield b'%s,"%s":%d%s%s%s\n' % (head, EVENT.encode(), number, raw, comma, own)


def _check_event(text: str, at: int, number: int) -> int:
    """Check the event that begins at an index of the text, and return the index of its end.

    Raises RefusedError for an invalid event.
    """
    end: int
    try:
        event, end = _scan(text, at)
        own_text = text[at:end]
        require_depth(own_text, MOST_LEVELS)
        if end - at >= _LONG or own_text.count("{") > 1 or _EXPONENT.search(own_text):
            _STRICT_DECODER.raw_decode(text, at)
        if text.count(":", at, end) > MOST_KEYS:
            _require_few_keys(event, number)
        if _SURROGATE.search(own_text):
            json.dumps(event, ensure_ascii=False).encode()
    except StopIteration as nothing:
        raise RefusedError(f"event {number} is not JSON: no value begins at character {nothing.value + 1}") from None
    except RecursionError:
        raise RefusedError(f"event {number} is nested too deep: the limit is {MOST_LEVELS} levels") from None
    except UnicodeEncodeError:
        raise RefusedError(
            f"event {number} has half of a surrogate pair, as \\ud800, which is not a character"
        ) from None
    except json.JSONDecodeError as error:
        raise RefusedError(f"event {number} is not JSON: {error.msg} at {error.lineno}:{error.colno}") from None
    except ValueError as error:
        raise RefusedError(f"event {number}: {error}") from None
    if not isinstance(event, dict):
        raise RefusedError(f"event {number} is not a JSON object")
    _check_names(event, number)
    return end


def _require_few_keys(event: Any, number: int) -> None:
    """Refuse an event with too many keys. A key that several objects of an array share counts once. Cost: one pass."""
    places: dict[tuple[int, str], int] = {}
    left: list[tuple[int, Any]] = [(0, event)]
    while left:
        place, value = left.pop()
        if isinstance(value, list):
            left.extend((place, each) for each in value)
        elif isinstance(value, dict):
            for key, inner in value.items():
                left.append((places.setdefault((place, key), len(places) + 1), inner))
            if len(places) > MOST_KEYS:
                raise RefusedError(f"event {number} has more than {MOST_KEYS} keys")


def _check_names(event: Mapping[str, Any], number: int) -> None:
    """Refuse keys whose column names collide with each other, or with columns that the receiver adds.

    Names collide if Spark treats them as equal: it compares lower case in some places, and folded case in others.
    """
    names: set[str] = set()
    for key in event:
        if key in _VALID_KEYS:
            name = folded = key
        else:
            name = column_name(key).lower()
            folded = fold_case(column_name(key))
            _check_name(key, name, folded, number)
        if name in names or folded in names:
            raise RefusedError(f"event {number} has two keys {name}")
        names.add(name)
        names.add(folded)


def _check_name(key: str, name: str, folded: str, number: int) -> None:
    """Refuse a key that cannot be the name of a column. Keys that need no change are cached."""
    if folded in OWN:
        raise RefusedError(f"event {number} has a key {key}, which is a column that the endpoint adds")
    if not name:
        raise RefusedError(f"event {number} has a key without a name")
    if (sign := _CONTROL.search(key)) is not None:
        raise RefusedError(f"event {number} has a key with the control character U+{ord(sign[0]):04X}")
    if name == key == folded and len(name) < _LONG and len(_VALID_KEYS) < _MOST_CACHED_KEYS:
        _VALID_KEYS.add(name)


def _skip_separator(text: str, at: int, number: int, *, is_array: bool) -> int:
    if not is_array:
        return _match_end(_BLANK, text, at)
    end = _match_end(_SEPARATOR, text, at)
    has_comma = "," in text[at:end]
    if end < len(text) and has_comma == (text[end] == "]"):
        raise RefusedError(f"the array is malformed after event {number}")
    return end


def _match_end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _raise_for_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON value")


def _check_integer(digits: str) -> int:
    if len(digits) > _LONG:
        raise ValueError(f"a number of {len(digits)} digits")
    return 0


def _parse_float(text: str) -> float:
    digits, _, exponent = text.lower().partition("e")
    if len(digits) > _LONG:
        raise ValueError(f"a number of {len(digits)} digits")
    if len(exponent) > _LONG or (exponent and abs(int(exponent)) > _MOST_EXPONENT):
        raise ValueError(
            f"a number with the exponent {exponent[:20]}: -{_MOST_EXPONENT} to {_MOST_EXPONENT} are allowed"
        )
    found = float(text)
    if not math.isfinite(found):
        raise ValueError(f"{text[:40]} is larger than any DOUBLE")
    return found


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = Counter(name for name, _ in pairs)
        raise ValueError(f"an object has two keys {names.most_common(1)[0][0][:80]}")
    for name in found:
        if len(name) > _LONG_NAME:
            raise ValueError(f"a key of {len(name)} characters")
    return found


_FAST_DECODER = json.JSONDecoder(parse_constant=_raise_for_constant, object_pairs_hook=_build_object)
_scan = _FAST_DECODER.scan_once  # type: ignore[attr-defined]  # raw_decode without its handling of StopIteration
_STRICT_DECODER = json.JSONDecoder(
    parse_constant=_raise_for_constant,
    parse_int=_check_integer,
    parse_float=_parse_float,
    object_pairs_hook=_build_object,
)
