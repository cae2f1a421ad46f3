"""Records which requests an API has accepted, so that no retry sends them again.

    <archive>/<connection>/_waterclock/deliveries/<project>/<publish>/
        <claim>.json          the rows to send for a claim, or that it was killed
        <claim>.accepted      a line for each accepted request, flushed at once; in an object store a folder with an
                              object for each; removed once all requests were accepted
        <claim>.done.json     all requests were accepted
        <claim>.refused.json  the API refused some requests for good; the others were accepted
        labels/<label>/done-<claim>, refused-<claim>

All files except `<claim>.accepted` are created only if they do not exist, so the first of two runners wins.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from waterclock.files.filesystem import (
    flush_folder,
    make_folder,
    names_in,
    put_if_absent,
    read_json,
    read_text,
    remove_file,
    remove_folder,
)
from waterclock.files.object_stores import is_remote

KILLED = "killed"
SENDING = "sending"
_DONE, _REFUSED = "done", "refused"


@dataclass(frozen=True, slots=True)
class AcceptedRequest:
    """A request that the API accepted: its label, its chunk number, and the digests of its rows."""

    label: str
    chunk: int
    digests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Journal:
    """The record of the requests that a publish sent to an API."""

    folder: Path
    _lock: threading.Lock = field(default_factory=threading.Lock, compare=False, repr=False)

    def latch(self, claim: int, record: Mapping[str, Any]) -> bool:
        """Record the rows to send for a claim, or that it is killed. Return False if the claim already has a record."""
        make_folder(self.folder)
        return put_if_absent(self.folder / f"{claim}.json", json.dumps(record), is_flushed=True)

    def record(self, claim: int) -> dict[str, Any] | None:
        """Return the record that `latch` created for a claim; None if there is none."""
        return read_json(self.folder / f"{claim}.json")

    def accept(self, claim: int, accepted: AcceptedRequest) -> None:
        """Record an accepted request, and flush the record to the disk."""
        line = json.dumps([accepted.label, accepted.chunk, "".join(accepted.digests)])
        # starts with a line feed too: a line that a crash cut off must not corrupt this one
        left = memoryview(f"\n{line}\n".encode())
        if is_remote(self.folder):
            # parts of one chunk may be accepted one after the other: each has a separate object
            name = f"{accepted.label}-{accepted.chunk}-{hashlib.sha256(line.encode()).hexdigest()[:16]}.json"
            put_if_absent(self.folder / f"{claim}.accepted" / name, line)
            return
        path = self.folder / f"{claim}.accepted"
        with self._lock:
            is_new = not path.exists()
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                while left:
                    left = left[os.write(descriptor, left) :]
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if is_new:
                flush_folder(self.folder)

    def read_accepted(self, claim: int) -> Iterator[AcceptedRequest]:
        """Yield the accepted requests of a claim. A line that a crash cut off is skipped.

        If two runners sent the same request and both recorded it, it is yielded once.
        """
        for line in dict.fromkeys(self._lines(claim)):
            with suppress(ValueError):
                label, chunk, digests = json.loads(line)
                yield AcceptedRequest(label, chunk, tuple(digests[at : at + 16] for at in range(0, len(digests), 16)))

    def finish(self, claim: int, labels: Iterable[str], record: Mapping[str, Any]) -> dict[str, Any]:
        """Record that all rows of a claim were accepted, and remove its list of accepted requests.

        Return the record.
        """
        recorded = self._record_end(claim, labels, record, _DONE)
        path = self.folder / f"{claim}.accepted"
        if is_remote(self.folder):
            remove_folder(path)
        else:
            remove_file(path)
        return recorded

    def refuse(self, claim: int, labels: Iterable[str], record: Mapping[str, Any]) -> dict[str, Any]:
        """Record that the API refused a part of a claim for good. Return the record."""
        return self._record_end(claim, labels, record, _REFUSED)

    def read_completion(self, claim: int) -> dict[str, Any] | None:
        """Return the record of `finish` for a claim; None if not all of its rows were accepted."""
        return read_json(self.folder / f"{claim}.{_DONE}.json")

    def read_refusal(self, claim: int) -> dict[str, Any] | None:
        """Return the record of `refuse` for a claim; None if no rows were refused."""
        return read_json(self.folder / f"{claim}.{_REFUSED}.json")

    def claims_done(self) -> list[int]:
        """Return the claims whose rows were all accepted, newest first."""
        ending = f".{_DONE}.json"
        found = (name.removesuffix(ending) for name in names_in(self.folder, "") if name.endswith(ending))
        return sorted((int(name) for name in found if name.isdigit()), reverse=True)

    def generation(self, label: str) -> tuple[int, tuple[int, ...]]:
        """Return the newest claim that delivered a label completely (0 if none), and the claims refused since then."""
        names = names_in(self._label_folder(label), "")
        done = max((int(name.removeprefix("done-")) for name in names if name.startswith("done-")), default=0)
        refused = sorted(int(name.removeprefix("refused-")) for name in names if name.startswith("refused-"))
        return done, tuple(claim for claim in refused if claim > done)

    def count_carried(self, label: str, claims: Sequence[int]) -> Counter[str]:
        """Count the rows of a label, by digest, that the API accepted from claims that it then refused in part."""
        counted: Counter[str] = Counter()
        for claim in claims:
            for one in self.read_accepted(claim):
                if one.label == label:
                    counted.update(one.digests)
        return counted

    def _record_end(self, claim: int, labels: Iterable[str], record: Mapping[str, Any], how: str) -> dict[str, Any]:
        for label in labels:
            make_folder(self._label_folder(label))
            put_if_absent(self._label_folder(label) / f"{how}-{claim}", "{}", is_flushed=True)
        path = self.folder / f"{claim}.{how}.json"
        put_if_absent(path, json.dumps(record), is_flushed=True)
        return read_json(path) or dict(record)

    def _label_folder(self, label: str) -> Path:
        return self.folder / "labels" / label

    def _lines(self, claim: int) -> Iterator[str]:
        path = self.folder / f"{claim}.accepted"
        if is_remote(self.folder):
            for name in sorted(names_in(path, "")):
                yield read_text(path / name)
            return
        with suppress(FileNotFoundError):
            yield from path.read_text(encoding="utf-8").splitlines()
