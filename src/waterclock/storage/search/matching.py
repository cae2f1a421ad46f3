"""Finds thousands of values in bytes in one pass, in the spellings in which files contain texts. Pure functions.

Each value has a window of 8 or 4 bytes that few other values have. The windows of a buffer are hashed with NumPy, and
compared with a table of hashes. Only where both match are the bytes compared with a value.
"""

from __future__ import annotations

import contextlib
import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import numpy as np

_FEWEST_CHARACTERS = 6
_FEWEST_DIGITS = 9
_CUT = 32  # characters of texts in the statistics of Delta's log
_CUT_WITHIN = 10  # bytes after a cut text in which its quote must be
_BITS = 22
_FACTORS = {8: np.uint64(0x9E3779B97F4A7C15), 4: np.uint32(0x9E3779B1)}
_WORD = re.compile(rb"[0-9A-Za-z_\x80-\xff]")
_SHORT_WORDS = re.compile(rb"(?<![0-9A-Za-z_\x80-\xff])[0-9A-Za-z_]{1,3}(?![0-9A-Za-z_\x80-\xff])")


@dataclass(frozen=True, slots=True)
class Needle:
    """The bytes of a value in one spelling.

    `is_word`: they are found only between other characters than letters and digits. `is_doubtful`: they may occur by
    chance. `is_cut`: they are the beginning of a long text, and found only if a quote follows.
    """

    text: bytes
    is_word: bool = False
    is_doubtful: bool = False
    is_cut: bool = False

    def fits(self, data: bytes, start: int, low: int, high: int) -> bool:
        """Return whether an occurrence counts, in a value that is `data[low:high]`."""
        end = start + len(self.text)
        if start < low or end > high:
            return False
        if self.is_cut:
            return b'"' in data[end : min(high, end + _CUT_WITHIN)]
        if not self.is_word:
            return True
        before, after = data[max(low, start - 2) : start], data[end : min(high, end + 2)]
        if _WORD.match(before[-1:]) or _WORD.match(after[:1]):
            return False
        is_number = self.text.isdigit()
        return not (is_number and (_is_fraction(before[::-1]) or _is_fraction(after)))


def _is_fraction(beside: bytes) -> bool:
    return len(beside) == 2 and beside[:1] == b"." and beside[1:].isdigit()


@dataclass(frozen=True, slots=True)
class Match:
    """An occurrence of a value: its start in the data, and its needle."""

    start: int
    needle: Needle


def is_doubtful(value: str) -> bool:
    """Return whether a value may occur by chance, so that its place decides: a short text or number."""
    return len(value) < (_FEWEST_DIGITS if value.removeprefix("-").isdecimal() else _FEWEST_CHARACTERS)


def needles_of(value: str) -> Iterator[Needle]:
    """Yield the spellings of a value: as UTF-8, in JSON, CSV, SQL, XML and URLs, and in other encodings."""
    doubtful = is_doubtful(value)
    is_word = doubtful or value.isdecimal()
    spelled = {value, value.replace('"', '""'), value.replace("'", "''"), html.escape(value)}
    spelled |= {quote(value), quote(value, "")}
    for text in (value, _json(value), _json(value, is_ascii=True)):
        spelled |= {text, _json(text), _json(text, is_ascii=True)}
    upper = {re.sub(r"\\u([0-9a-f]{4})", lambda found: f"\\u{found[1].upper()}", text) for text in spelled}
    yield from (Needle(text.encode("utf-8", "surrogatepass"), is_word, doubtful) for text in sorted(spelled | upper))
    if not is_word:
        yield from (Needle(value.encode(name, "surrogatepass")) for name in ("utf-16-le", "utf-16-be"))
    if not value.isascii():
        with contextlib.suppress(UnicodeEncodeError):
            yield Needle(value.encode("cp1252"), is_word, doubtful)
    if len(value) > _CUT:
        cut = value[:_CUT]
        once = {cut, _json(cut), _json(cut, is_ascii=True)}
        yield from (Needle(text.encode("utf-8", "surrogatepass"), is_cut=True) for text in {*once, *map(_json, once)})


def _json(text: str, *, is_ascii: bool = False) -> str:
    return json.dumps(text, ensure_ascii=is_ascii)[1:-1]


class ValueMatcher:
    """Finds values in bytes."""

    def __init__(self, values: Iterable[str]) -> None:
        """Prepare the values; empty ones are ignored."""
        needles = {needle.text: needle for value in values if value for needle in needles_of(value)}
        self.is_empty = not needles
        self.longest = max(map(len, needles), default=0)
        self._tables = [
            _WindowTable([each for text, each in needles.items() if len(text) >= 8], 8),
            _WindowTable([each for text, each in needles.items() if 4 <= len(text) < 8], 4),
        ]
        tiny = {text: each for text, each in needles.items() if len(text) < 4}
        self._words = {text: each for text, each in tiny.items() if re.fullmatch(rb"[0-9A-Za-z_]+", text)}
        self._others = {text: each for text, each in tiny.items() if text not in self._words}

    def find(self, data: bytes, low: int = 0, high: int | None = None) -> Iterator[Match]:
        """Yield the occurrences of all values in `data[low:high]`, in no order."""
        end = len(data) if high is None else high
        for match in self.find_anywhere(data):
            if match.needle.fits(data, match.start, low, end):
                yield match
        if self._words:
            for found in _SHORT_WORDS.finditer(data, low, end):
                needle = self._words.get(found[0])
                if needle is not None and needle.fits(data, found.start(), low, end):
                    yield Match(found.start(), needle)

    def find_anywhere(self, data: bytes) -> Iterator[Match]:
        """Yield all occurrences, also within words. Values of one to three letters or digits are left out."""
        for table in self._tables:
            yield from table.find(data)
        for text, needle in self._others.items():
            at = data.find(text)
            while at >= 0:
                yield Match(at, needle)
                at = data.find(text, at + 1)

    def find_in_chunks(self, chunks: Iterable[bytes]) -> Iterator[Match]:
        """Yield the occurrences in a stream, by their offsets. Cost: a chunk and the longest value are in memory."""
        beyond = self.longest + _CUT_WITHIN
        window, base, begin = b"", 0, 0  # the data, its offset in the stream, and the first start to report
        waiting = iter(chunks)
        is_over = False
        while not is_over:
            chunk = next(waiting, None)
            is_over = chunk is None
            window += chunk or b""
            limit = base + len(window) - (0 if is_over else beyond)
            if limit <= begin:
                continue
            for match in self.find(window):
                if begin <= base + match.start < limit:
                    yield Match(base + match.start, match.needle)
            begin = limit
            kept = max(0, limit - 2 - base)
            window, base = window[kept:], base + kept


class _WindowTable:
    """Finds needles of at least `size` bytes by a window of `size` bytes of each."""

    def __init__(self, needles: Sequence[Needle], size: int) -> None:
        self._size = size
        self._by_window: dict[int, list[tuple[Needle, int]]] = {}
        counts = Counter(window for needle in needles for window in set(_windows(needle.text, size)))
        for needle in needles:
            windows = _windows(needle.text, size)
            at = min(range(len(windows)), key=lambda at: counts[windows[at]])
            self._by_window.setdefault(int.from_bytes(windows[at], "little"), []).append((needle, at))
        kind = np.uint64 if size == 8 else np.uint32
        self._table = np.zeros(1 << _BITS, np.bool_)
        self._table[self._hashes(np.array(list(self._by_window), kind))] = True

    def find(self, data: bytes) -> Iterator[Match]:
        """Yield all occurrences."""
        if not self._by_window:
            return
        kind = np.dtype(f"<u{self._size}")
        for shift in range(self._size):
            count = (len(data) - shift) // self._size
            if count <= 0:
                break
            windows = np.frombuffer(data, kind, count, shift)
            for at in np.flatnonzero(self._table[self._hashes(windows)]).tolist():
                for needle, inner in self._by_window.get(int(windows[at]), ()):
                    start = shift + at * self._size - inner
                    if start >= 0 and data.startswith(needle.text, start):
                        yield Match(start, needle)

    def _hashes(self, windows: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            hashes: np.ndarray = (windows * _FACTORS[self._size]) >> windows.dtype.type(self._size * 8 - _BITS)
        return hashes


def _windows(text: bytes, size: int) -> list[bytes]:
    return [text[at : at + size] for at in range(len(text) - size + 1)]
