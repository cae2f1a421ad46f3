"""Sends the rows of sealed slices to an API, and never sends rows again that it accepted.

1. The slices of the claim are checked. If one is missing, the delivery stops before anything is sent.
2. The claim's record is created, unless it exists. It names the slices and how they are split. From then on the claim
   can only be completed: every process that handles it, to deliver, to kill or to check, sends the remaining rows.
3. Each chunk is sent with its idempotency key, and recorded once it is accepted (`journal`).
4. The claim's end is recorded: all rows were accepted, or the API refuses some of them for good.

A request with an unknown outcome (no response, a crash) is sent again with the same key. An API that supports keys
processes it once; another API may process it twice, which no sender can prevent.
A refused request (4xx) ends the claim, and its batch fails with an error that names the rows. The next claim of the
label sends the rows that were not accepted, compared row by row by content. A label that was delivered completely and
is made again is sent completely again.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from waterclock.connectors.delivering import Delivered, Delivery, DeliveryOutcome
from waterclock.connectors.interface import Setting
from waterclock.connectors.rest.addresses import OutsideApiError, fill_path
from waterclock.connectors.rest.client import Api, ApiRequest
from waterclock.connectors.rest.delivery_chunks import (
    Chunk,
    ChunkRow,
    chunks_of,
    content_of,
    key_of,
    rows_of,
    skip_accepted_rows,
)
from waterclock.connectors.rest.journal import KILLED, SENDING, AcceptedRequest, Journal
from waterclock.connectors.rest.option_definitions import SendOptions, parse_sending
from waterclock.connectors.slice_rows import deliverable_batches_of
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.files.filesystem import entry_path
from waterclock.flow.declarations import Unit
from waterclock.timelabel.label import TIMELABEL

_REFUSED = frozenset({"E844", "E845"})
_MOST_LISTED = 5
_MOST_REFUSED = 100  # requests: after so many the remaining ones are not sent
_TYPES = {"json": "application/json", "ndjson": "application/x-ndjson", "row": "application/json"}


@dataclass(slots=True)
class _Refusals:
    """The refusals of a claim: the first error, the number of refused requests, and descriptions of the refused rows.

    `entities` are the values of PER in refused rows. Later rows with these values are not sent.
    """

    first: WaterclockError | None = None
    requests: int = 0
    rows: list[str] = field(default_factory=list)
    entities: set[str] = field(default_factory=set)


class RestDeliverer:
    """Delivers rows to an API by HTTP requests."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    @cached_property
    def api(self) -> Api:
        """The client of the API, created on first use."""
        return Api(self.setting)

    def deliver(self, unit: Unit, deliveries: Sequence[Delivery]) -> tuple[Delivered, ...]:
        """Send the slices of a claim, or only the remaining rows if the claim was begun before.

        Raises E822 for a missing slice, E847 if the API refuses rows, E848 (transient) if it accepted only a part so
        far, and E840, E841 or E844 if nothing was accepted.
        """
        one = deliveries[0]
        journal = self._open_journal(one.project, one.publish)
        if recorded := self._load_delivered(journal, one.claim):
            return recorded
        if journal.record(one.claim) is None:
            rows = [_count_rows(delivery) for delivery in deliveries]
            fault("deliver.rows")
            journal.latch(one.claim, _build_record(journal, deliveries, parse_sending(unit.path, unit.options), rows))
            fault("deliver.latched")
            if recorded := self._load_delivered(journal, one.claim):
                return recorded
        delivered = self._send_remaining(unit, journal, one.claim, is_repeat=False)
        fault("deliver.done")
        return delivered

    def kill(self, unit: Unit, project: str, publish: str, claim: int) -> Delivered:
        """Record a claim as killed. If it was begun before, send its remaining rows instead, to complete it.

        Accepted rows cannot be undone. Raises the errors of `deliver` if rows cannot be sent now; the claim stays open.
        """
        journal = self._open_journal(project, publish)
        if journal.latch(claim, {"outcome": KILLED}):
            return Delivered(claim, DeliveryOutcome.KILLED, "", 0)
        if recorded := self._load_delivered(journal, claim):
            return recorded[-1]
        try:
            return self._send_remaining(unit, journal, claim, is_repeat=True)[-1]
        except WaterclockError:
            if journal.read_refusal(claim) is None:
                raise
            return Delivered(claim, DeliveryOutcome.KILLED, "", 0, is_repeat=True)

    def reach(self, unit: Unit) -> None:
        """Check that the API responds and accepts the connection's credentials; no rows are sent.

        Raises E840 without a response, E844 for refused credentials.
        """
        del unit
        self.api.reach("")

    def find(self, unit: Unit, project: str, publish: str, claim: int) -> Delivered | None:
        """Return the outcome of a claim; None if it was not begun or is not completed."""
        del unit
        recorded = self._load_delivered(self._open_journal(project, publish), claim)
        return recorded[-1] if recorded else None

    def last(self, unit: Unit, project: str, publish: str) -> Delivered | None:
        """Return the newest delivery of the newest label; None before the first delivery.

        The record of the newest completed claim contains it.
        """
        del unit
        journal = self._open_journal(project, publish)
        for claim in journal.claims_done():
            completion = journal.read_completion(claim)
            if completion:
                return replace(Delivered.of_record(completion["newest"]), is_repeat=True)
        return None

    def find_loss(self, unit: Unit, project: str, publish: str, claim: int) -> str | None:
        """Return a message if the journal has no record of a completed claim; else None. The API is not checked."""
        del unit
        if self._open_journal(project, publish).read_completion(claim) is None:
            return f"the journal of {self.setting.name} has no record of claim {claim}"
        return None

    def _open_journal(self, project: str, publish: str) -> Journal:
        return Journal(
            entry_path(self.setting.archive) / self.setting.name / "_waterclock" / "deliveries" / project / publish
        )

    def _load_delivered(self, journal: Journal, claim: int) -> tuple[Delivered, ...]:
        done = journal.read_completion(claim)
        if done:
            return tuple(replace(Delivered.of_record(each), is_repeat=True) for each in done["deliveries"])
        record = journal.record(claim)
        if (record and record["outcome"] == KILLED) or journal.read_refusal(claim):
            return (Delivered(claim, DeliveryOutcome.KILLED, "", 0, is_repeat=True),)
        return ()

    def _send_remaining(self, unit: Unit, journal: Journal, claim: int, *, is_repeat: bool) -> tuple[Delivered, ...]:
        """Send the remaining rows of a claim that was begun, record its completion, and return its outcomes."""
        record = journal.record(claim)
        if record is None or record["outcome"] != SENDING:
            raise AssertionError(f"claim {claim} was not begun")
        sending = SendOptions(**record["sending"])
        sender = _Sender(self.api, journal, claim, sending, unit)
        labels = [each["label"] for each in record["deliveries"]]
        delivered = []
        for each in record["deliveries"]:
            sender.send(each, record)
            delivered.append(Delivered(claim, DeliveryOutcome.DELIVERED, each["label"], each["rows"], 0, each["note"]))
        if sender.refusals.first is not None:
            why = sender.build_refusal_error()
            journal.refuse(claim, labels, {"why": why.render()})
            raise why
        newest = self.last(unit, record["project"], record["publish"])
        tops = sorted([*([newest] if newest else []), *delivered], key=lambda one: (one.label_text, one.claim))
        journal.finish(
            claim, labels, {"deliveries": [one.to_record() for one in delivered], "newest": tops[-1].to_record()}
        )
        return tuple(replace(one, is_repeat=is_repeat) for one in delivered)


class _Sender:
    """Sends the labels of one claim, with concurrent requests if the options allow them."""

    def __init__(self, api: Api, journal: Journal, claim: int, sending: SendOptions, unit: Unit) -> None:
        self.api = api
        self.journal = journal
        self.claim = claim
        self.sending = sending
        self.unit = unit
        self.refusals = _Refusals()
        self._before: dict[tuple[str, int], Counter[str]] = {}
        self._accepted = 0
        for one in journal.read_accepted(claim):
            self._before.setdefault((one.label, one.chunk), Counter()).update(one.digests)
            self._accepted += 1
        self._lock = threading.Lock()

    def send(self, each: dict[str, Any], record: dict[str, Any]) -> None:
        """Send the remaining rows of a label.

        Raises E848 if some requests were accepted already; otherwise the original error.
        """
        per, is_ordered = each["per"], bool(each["order_by"])
        chunks: Iterable[tuple[Chunk, str]] = self._find_pending_chunks(each, record)
        if self.sending.in_flight == 1 or (is_ordered and not per):
            for chunk, key in chunks:
                if self._must_stop(stops=is_ordered and not per):
                    return
                self._send(each, chunk, key)
            return
        with ThreadPoolExecutor(self.sending.in_flight) as threads:
            pending: set[Future[None]] = set()
            at_bin = 0
            for chunk, key in chunks:
                most = 0 if chunk.bin != at_bin else self.sending.in_flight - 1
                at_bin = chunk.bin
                pending = _wait_for_requests(pending, most)
                if self._must_stop(stops=False):
                    break
                pending.add(threads.submit(self._send, each, chunk, key))
            _wait_for_requests(pending, 0)

    def build_refusal_error(self) -> WaterclockError:
        """Build the error that lists the refused rows."""
        first, refusals = self.refusals.first, self.refusals
        if first is None:
            raise AssertionError("nothing was refused")
        rows = "; ".join(refusals.rows[:_MOST_LISTED]) + ("; …" if len(refusals.rows) > _MOST_LISTED else "")
        count = len(refusals.rows)
        code = "E844" if first.code == "E844" else "E847"
        return WaterclockError(
            code,
            first.what if code == "E844" else f"{self.api.name} refuses {count} {'row' if count == 1 else 'rows'}",
            where=first.where,
            why=f"{first.why}; refused: {self.api.hide(rows)}",
            fix="check the secret, then `waterclock retry`"
            if code == "E844"
            else "fix the rows at their source, or leave them out, then `waterclock retry`: "
            "accepted rows are not sent again",
        )

    def _must_stop(self, *, stops: bool) -> bool:
        with self._lock:
            first = self.refusals.first
            return first is not None and (stops or first.code == "E844" or self.refusals.requests >= _MOST_REFUSED)

    def _find_pending_chunks(self, each: dict[str, Any], record: dict[str, Any]) -> Iterator[tuple[Chunk, str]]:
        """Yield the chunks of a label that are not accepted yet, with their idempotency keys."""
        label = each["label"]
        carried = self.journal.count_carried(label, each["carried"])
        identity = (record["project"], record["publish"], label, str(each["generation"]))
        met: Counter[str] = Counter()
        rows = skip_accepted_rows(self._rows(each), carried)
        is_sent = False
        for chunk in chunks_of(rows, self.sending.chunk, per=bool(each["per"])):
            is_sent = True
            plain = key_of(identity, chunk.rows, 0)
            key = key_of(identity, chunk.rows, met[plain]) if met[plain] else plain
            met[plain] += 1
            before = self._before.get((label, chunk.number))
            if before is None:
                yield chunk, key
            elif left := tuple(skip_accepted_rows(chunk.rows, before)):
                yield replace(chunk, rows=left), key_of((key,), left, 0)
        if not is_sent and not carried and self.sending.sends_empty and (label, 0) not in self._before:
            yield Chunk(0, 0, ()), key_of(identity, (), 0)

    def _rows(self, each: dict[str, Any]) -> Iterator[ChunkRow]:
        names = [name for name, _ in each["columns"]]
        placed = [name for name in names if f"{{{name}}}" in self.sending.path]
        try:
            yield from rows_of(
                [entry_path(path) for path in each["files"]],
                [(name, kind) for name, kind in each["columns"]],
                timelabel=each["label"] if self.sending.has_timelabel else None,
                order_by=each["order_by"],
                per=each["per"],
                placed=[*placed, *(name for name in each["keys"] if name in names)],
            )
        except WaterclockError as error:
            if error.code != "E822" or not self._accepted:
                raise
            raise WaterclockError(
                "E849",
                f"the delivery of {each['publish']}@{each['label']} cannot continue",
                where=error.where,
                why=f"{error.what}; {self._accepted} requests of claim {self.claim} were accepted",
                fix="restore the file from a backup of the storage; or, to send everything again, remove the record of "
                f"claim {self.claim} in {self.journal.folder}",
            ) from None

    def _send(self, each: dict[str, Any], chunk: Chunk, key: str) -> None:
        label = each["label"]
        where = f"{each['publish']}@{label}, request {chunk.number + 1}"
        with self._lock:
            # rows with the PER values of a refused row are not sent, so that they keep their order
            rows = tuple(row for row in chunk.rows if row.entity not in self.refusals.entities)
        if chunk.rows and not rows:
            return
        if null_column := _find_null_column(self.sending.path, rows):
            self._record_refused(_missing_path_value_error(self.sending.path, null_column, where), rows, each)
            return
        try:
            path = _build_path(self.sending.path, label, rows)
        except OutsideApiError as error:
            self._record_refused(_outside_path_error(str(error), where), rows, each)
            return
        if len(rows) < len(chunk.rows):
            key = key_of((key,), rows, 0)
        # all claims that send rows of one delivery, after refusals, name the first of them
        begun = min(each["carried"], default=self.claim)
        headers = {"Waterclock-Label": label, "Waterclock-Delivery": str(begun)}
        if self.sending.idempotency:
            headers[self.sending.idempotency] = key
        request = ApiRequest(
            self.sending.method,
            path,
            {},
            content_of(rows, self.sending.format, self.sending.wrap),
            _TYPES[self.sending.format],
            headers,
        )
        try:
            self.api.request(request, where=where)
        except WaterclockError as error:
            if error.code in _REFUSED:
                self._record_refused(error, rows, each)
                return
            raise self._explain_partial_delivery(error) from None
        self.journal.accept(self.claim, AcceptedRequest(label, chunk.number, tuple(row.digest for row in rows)))
        with self._lock:
            self._accepted += 1
        fault("deliver.chunk")

    def _record_refused(self, error: WaterclockError, rows: Sequence[ChunkRow], each: dict[str, Any]) -> None:
        with self._lock:
            self.refusals.first = self.refusals.first or error
            self.refusals.requests += 1
            self.refusals.entities |= {row.entity for row in rows if each["per"]}
            self.refusals.rows += [_describe_row(row, each["keys"]) for row in rows]

    def _explain_partial_delivery(self, error: WaterclockError) -> WaterclockError:
        with self._lock:
            accepted = self._accepted
        if not accepted:
            return error
        return WaterclockError(
            "E848",
            f"{self.api.name} accepted {accepted} requests of claim {self.claim} and no more",
            where=error.where,
            why=f"{error.what}: {error.why}",
            fix="nothing to fix here: the next run sends the remaining rows, with the same keys",
            transient=True,
        )


def _wait_for_requests(pending: set[Future[None]], most: int) -> set[Future[None]]:
    """Wait until at most `most` requests are in flight. If one has failed, raise its error once all have ended."""
    while len(pending) > most:
        done, pending = wait(pending, return_when=FIRST_COMPLETED)
        failed = next((one.exception() for one in done if one.exception()), None)
        if failed is not None:
            wait(pending)
            raise failed
    return pending


def _describe_row(row: ChunkRow, keys: Sequence[str]) -> str:
    values = {name: row.values[name] for name in keys if row.values and name in row.values}
    return ", ".join(f"{name} {value}" for name, value in values.items()) if values else row.text[:80]


def _build_path(template: str, label: str, rows: Sequence[ChunkRow]) -> str:
    """Build the path of a request. Raises OutsideApiError for a value that leads to another path."""
    values = {name: [str(value)] for name, value in ((rows[0].values or {}) if rows else {}).items()}
    return fill_path(template, {**values, TIMELABEL: [label]})


def _find_null_column(template: str, rows: Sequence[ChunkRow]) -> str | None:
    """Return a column in the path template that is NULL in the first row; None if there is none."""
    values = (rows[0].values or {}) if rows else {}
    return next((name for name, value in values.items() if value is None and f"{{{name}}}" in template), None)


def _missing_path_value_error(template: str, column: str, where: str) -> WaterclockError:
    return WaterclockError(
        "E845",
        "a row has no address",
        where=where,
        why=f"{column} is NULL, and is part of {template}",
        fix=f"give each row a {column}, or leave such rows out in the query",
    )


def _outside_path_error(why: str, where: str) -> WaterclockError:
    return WaterclockError(
        "E877",
        "the address of a row is outside of its path",
        where=where,
        why=f"{why}; it was not sent",
        fix="fix the values that are part of the path, or leave such rows out in the query",
    )


def _count_rows(delivery: Delivery) -> int:
    """Read a slice, and return its number of rows.

    Raises E822 if one of its files is missing or damaged, E812 for a value that cannot be sent.
    """
    names = [name for name, _ in delivery.columns]
    return sum(batch.num_rows for batch in deliverable_batches_of(delivery.files, names))


def _build_record(
    journal: Journal, deliveries: Sequence[Delivery], sending: SendOptions, rows: Sequence[int]
) -> dict[str, Any]:
    entries = []
    for delivery, count in zip(deliveries, rows, strict=True):
        generation, refused = journal.generation(delivery.label_text)
        entries.append(
            {
                "publish": delivery.publish,
                "label": delivery.label_text,
                "rows": count,
                "columns": [list(column) for column in delivery.columns],
                "files": [str(path) for path in delivery.files],
                "keys": list(delivery.keys),
                "order_by": list(delivery.order_by),
                "per": list(delivery.per),
                "note": delivery.note,
                "generation": generation,
                "carried": list(refused),
            }
        )
    one = deliveries[0]
    return {
        "outcome": SENDING,
        "project": one.project,
        "publish": one.publish,
        "sending": asdict(sending),
        "deliveries": entries,
    }
