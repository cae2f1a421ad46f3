"""Delivers sealed slices as files. The files of one claim are delivered all or none, and at most once.

From a partitioned table (and by APPEND) each label has a file, `<unit>/<unit>_<label>.<ext>`, whose last column is
`timelabel`, as in a database. A table that is delivered as one state has one file, `<unit>/<unit>.<ext>`. A unit `a.b`
is delivered to the folder `a/b` under the name `a_b`. An empty slice is delivered as a file too.

1. The file is written and flushed as a temporary file in the same folder, its part `.<name>.<claim>.<attempt>.part`.
2. The claim's record `_waterclock/deliveries/<project>/<publish>/<claim>.json` is created, unless it exists. It names
   the part of the attempt that created it, so it decides which attempt delivers.
3. That part is renamed to the final path (in an object store copied). Readers see the old file or the new one, never a
   part.

With `format 'raw'` a label delivers copies of the files that it was collected from, each with a separate part
(`raw_file_delivery`).

A runner that lost its claim has written a separate part, which no record names. So it never overwrites a newer file.

A crash between 2 and 3 is repaired by the next delivery of that claim, or by the next check of its outcome.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from waterclock.connectors.delivering import Delivered, Delivery, DeliveryOutcome
from waterclock.connectors.files.file_writing import ENDINGS, WriteOptions, write_file
from waterclock.connectors.files.raw_file_delivery import Copier, Copy, of_record, originals_of, tidy_parts
from waterclock.connectors.files.raw_files import RAW
from waterclock.connectors.slice_rows import add_timelabel, batches_of, deliverable_batches_of
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.files.filesystem import (
    file_exists,
    flush_folder,
    folders_in,
    make_delivery_folder,
    move_file,
    names_in,
    put_if_absent,
    read_json,
    remove_file,
    stat_file,
)
from waterclock.files.object_stores import is_remote
from waterclock.flow.declarations import Unit
from waterclock.timelabel.label import TIMELABEL

RECORDS = Path("_waterclock") / "deliveries"
PARTS = Path("_waterclock") / "parts"
_LAST_CLAIMS = 8  # more than the number of runners that may crash at once
_PART = re.compile(r"\.(\d+)\.[0-9a-f]{32}\.part$")


@dataclass(frozen=True, slots=True)
class _DeliveryEntry:
    """The outcome of one label of a claim, with the final path and the size in bytes of its file.

    `target` is empty if there is no file. `part` is the temporary path to which the attempt that created the record
    wrote the file; empty in records of older versions. `copies` are the original files that a label delivers.
    """

    delivered: Delivered
    target: str
    size: int | None = None
    part: str = ""
    copies: tuple[Copy, ...] = ()


@dataclass(frozen=True, slots=True)
class FilesDeliverer:
    """Delivers slices as files into a folder or a bucket."""

    folder: Path

    def deliver(self, unit: Unit, deliveries: Sequence[Delivery]) -> tuple[Delivered, ...]:
        """Write the files of a claim's slices and move them to their final paths, all or none.

        Raises E820 for a destination of another project; E821 if the folder cannot be written.
        """
        one = deliveries[0]
        where = f"{unit}@{', '.join(delivery.label_text for delivery in deliveries)}"
        records = self._record_folder(one.project, one.publish)
        with _translate_errors(self.folder, where):
            if outcomes := self._load_delivered(records, one.claim):
                return outcomes
            self._require_same_project(unit, one)
            if unit.options.get("format") == RAW:
                return self._deliver_copies(unit, deliveries, records)
            writing = parse_write_options(unit)
            targets = [destination_path(unit, delivery, writing) for delivery in deliveries]
            self._finish_earlier(records, targets)
            newest = self.last(unit, one.project, one.publish)
            attempt = uuid.uuid4().hex
            parts = [_part_path(target, one.claim, attempt) for target in targets]
            try:
                entries = [
                    self._write_part(delivery, target, part, writing, newest)
                    for delivery, target, part in zip(deliveries, targets, parts, strict=True)
                ]
                fault("deliver.rows")
                outcomes = self._create_record(records, one.project, one.claim, entries, newest)
                fault("deliver.latched")
                self._finish_claim(records, one.claim)
            except FileNotFoundError:
                outcomes = self._load_delivered(records, one.claim)
                if not outcomes:
                    raise
                # another runner has completed the claim in the meantime, and removed this part as superseded
            finally:
                self._remove_unrecorded(records, one.claim, parts)
        fault("deliver.done")
        return outcomes

    def _deliver_copies(self, unit: Unit, deliveries: Sequence[Delivery], records: Path) -> tuple[Delivered, ...]:
        """Copy the original files of a claim's labels to temporary paths, verify them, and move them to final paths."""
        one = deliveries[0]
        self._finish_copies(records)
        newest = self.last(unit, one.project, one.publish)
        keeps_times = unit.options.get("keep") == "all" and not is_remote(self.folder)
        parts = PARTS / one.project / one.publish
        earlier = cache(lambda: _read_delivered_paths(records))
        copier = Copier(self.folder, parts, unit, one.claim, keeps_times, earlier)
        inner = _unit_folder(unit)
        names = [original.name for delivery in deliveries for original in originals_of(delivery)]
        places = one.places(names) if one.places is not None and names else {}
        entries: list[_DeliveryEntry] = []
        for delivery in deliveries:
            copies = tuple(copier.copies(delivery, inner, places))
            outcome = Delivered(
                delivery.claim, DeliveryOutcome.DELIVERED, delivery.label_text, len(copies), 0, delivery.note
            )
            entries.append(_DeliveryEntry(outcome, "", copies=copies))
        fault("deliver.rows")
        outcomes = self._create_record(records, one.project, one.claim, entries, newest)
        fault("deliver.latched")
        self._finish_claim(records, one.claim)
        tidy_parts(self.folder / str(parts), one.claim)
        fault("deliver.done")
        return outcomes

    def _finish_copies(self, records: Path) -> None:
        """Move copies that a crash left at temporary paths to their final paths: of the last claims, oldest first."""
        for claim in _claims_in(records)[:_LAST_CLAIMS][::-1]:
            self._finish_claim(records, claim)

    def _write_part(
        self, delivery: Delivery, target: Path, part: Path, writing: WriteOptions, newest: Delivered | None
    ) -> _DeliveryEntry:
        if newest and not delivery.is_by_label and newest.label_text > delivery.label_text:
            return _DeliveryEntry(
                Delivered(delivery.claim, DeliveryOutcome.OLDER, delivery.label_text, 0, 0, delivery.note), ""
            )
        place = self.folder / str(part)
        make_delivery_folder(place.parent)
        read = batches_of if writing.format == "parquet" else deliverable_batches_of
        batches = read(delivery.files, [name for name, _ in delivery.columns])
        columns = delivery.columns
        if delivery.is_by_label and writing.has_timelabel:
            batches, columns = add_timelabel(batches, delivery.label_text), (*columns, (TIMELABEL, "STRING"))
        rows = write_file(place, batches, columns, writing)
        delivered = Delivered(delivery.claim, DeliveryOutcome.DELIVERED, delivery.label_text, rows, 0, delivery.note)
        return _DeliveryEntry(delivered, str(target), stat_file(place).size, str(part))

    def kill(self, unit: Unit, project: str, publish: str, claim: int) -> Delivered:
        """Record a claim as killed, so that it can no longer deliver, unless it has a record. Return its outcome."""
        records = self._record_folder(project, publish)
        with _translate_errors(self.folder, str(unit)):
            if outcomes := self._load_delivered(records, claim):
                return outcomes[-1]
            entry = _DeliveryEntry(Delivered(claim, DeliveryOutcome.KILLED, "", 0), "")
            outcomes = self._create_record(records, project, claim, [entry], None)
            if outcomes[-1].outcome is DeliveryOutcome.KILLED:
                inner = _unit_folder(unit)
                found = self._find_parts(inner, f".{'_'.join(inner.parts)}")
                self._remove_unrecorded(records, claim, found.get(claim, []))
                tidy_parts(self.folder / str(PARTS / project / publish), claim)
            return outcomes[-1]

    def find(self, unit: Unit, project: str, publish: str, claim: int) -> Delivered | None:
        """Return the recorded outcome of a claim; None if it has no record.

        It first moves files that a crash left at temporary paths to their final paths.
        """
        with _translate_errors(self.folder, str(unit)):
            outcomes = self._load_delivered(self._record_folder(project, publish), claim)
        return outcomes[-1] if outcomes else None

    def last(self, unit: Unit, project: str, publish: str) -> Delivered | None:
        """Return the newest delivery of the newest label; None before the first delivery.

        Each record contains the newest delivery at the time when the record was created.
        """
        del unit
        records = self._record_folder(project, publish)
        for claim in _claims_in(records):
            record = read_json(records / f"{claim}.json")
            if record and record["newest"]:
                return replace(Delivered.of_record(record["newest"]), is_repeat=True)
        return None

    def find_loss(self, unit: Unit, project: str, publish: str, claim: int) -> str | None:
        """Describe the problem of a claim's delivery; None if it is intact.

        A problem is a missing record, or a file of its newest label that is missing or changed. A file that a newer
        claim has replaced is intact.
        """
        records = self._record_folder(project, publish)
        with _translate_errors(self.folder, str(unit)):
            outcomes = self._load_delivered(records, claim)  # moves parts that a crash left to their final paths
            if not outcomes or outcomes[-1].outcome is DeliveryOutcome.KILLED:
                return f"{RECORDS / project / publish} has no record of claim {claim}"
            record = read_json(records / f"{claim}.json") or {"deliveries": []}
            # another claim may have delivered an older label of this one again
            entry = max(_parse_entries(record), key=lambda one: one.delivered.label_text, default=None)
            changed = _describe_change(self.folder / entry.target, entry) if entry and entry.target else None
            for copy in entry.copies if entry else ():
                changed = changed or copy.problem(self.folder)
        newest = self.last(unit, project, publish) if changed else None
        is_newer = newest is not None and newest.claim > claim  # from a runner whose ledger entry is not written yet
        return None if is_newer else changed

    def _record_folder(self, project: str, publish: str) -> Path:
        return self.folder / str(RECORDS / project / publish)

    def _require_same_project(self, unit: Unit, delivery: Delivery) -> None:
        records = self.folder / str(RECORDS)
        for project in folders_in(records):
            if project != delivery.project and names_in(records / project / delivery.publish, ""):
                raise WaterclockError(
                    "E820",
                    f"{unit} belongs to the project {project}",
                    where=f"{unit}@{delivery.label_text}",
                    why="this delivery would replace the files of that project",
                    fix="publish under another name, or into another folder",
                )

    def _load_delivered(self, records: Path, claim: int) -> tuple[Delivered, ...]:
        record = read_json(records / f"{claim}.json")
        if record is None:
            return ()
        self._finish_claim(records, claim)
        return tuple(replace(entry.delivered, is_repeat=True) for entry in _parse_entries(record))

    def _finish_earlier(self, records: Path, targets: Sequence[Path]) -> None:
        """Move files that a crash left at temporary paths to their final paths, oldest claim first.

        So none of them replaces a newer file.
        """
        found: dict[int, list[Path]] = {}
        for target in targets:
            for claim, parts in self._find_parts(target.parent, f".{target.name}.").items():
                found.setdefault(claim, []).extend(parts)
        for claim, parts in sorted(found.items()):
            self._finish_claim(records, claim)
            if file_exists(records / f"{claim}.json"):  # else its runner may still be active
                self._remove_unrecorded(records, claim, parts)

    def _find_parts(self, folder: Path, begin: str) -> dict[int, list[Path]]:
        """Return the temporary files in a folder whose names begin with a prefix, by claim.

        Paths are below the connection's folder.
        """
        found: dict[int, list[Path]] = {}
        for name in names_in(self.folder / str(folder), begin):
            if match := _PART.search(name):
                found.setdefault(int(match[1]), []).append(folder / name)
        return found

    def _remove_unrecorded(self, records: Path, claim: int, parts: Iterable[Path]) -> None:
        """Remove those temporary files `parts` that the claim's record does not name: they are never delivered."""
        record = read_json(records / f"{claim}.json")
        named = {entry.part for entry in _parse_entries(record)} if record else set()
        for part in parts:
            if str(part) not in named:
                remove_file(self.folder / str(part))

    def _create_record(
        self, records: Path, project: str, claim: int, entries: Sequence[_DeliveryEntry], newest: Delivered | None
    ) -> tuple[Delivered, ...]:
        """Create the claim's record of outcomes unless it exists. Return the outcomes in the new or existing record."""
        new_deliveries = [entry.delivered for entry in entries if entry.delivered.outcome is DeliveryOutcome.DELIVERED]
        tops = sorted([*([newest] if newest else []), *new_deliveries], key=lambda one: (one.label_text, one.claim))
        record = {
            "project": project,
            "claim": claim,
            "deliveries": [
                {**entry.delivered.to_record(), "target": entry.target, "size": entry.size, "part": entry.part}
                | ({"copies": [asdict(copy) for copy in entry.copies]} if entry.copies else {})
                for entry in entries
            ],
            "newest": tops[-1].to_record() if tops else None,
        }
        make_delivery_folder(records)
        if not put_if_absent(records / f"{claim}.json", json.dumps(record), is_flushed=True):
            return self._load_delivered(records, claim)
        return tuple(entry.delivered for entry in entries)

    def _finish_claim(self, records: Path, claim: int) -> None:
        """Move the parts (temporary files) of a recorded claim to their final paths, unless that was already done."""
        record = read_json(records / f"{claim}.json")
        for entry in _parse_entries(record) if record else ():
            if entry.part:
                self._move_to_destination(entry.part, entry.target)
            parts = [copy.part for copy in entry.copies if copy.part]
            there = set(names_in((self.folder / parts[0]).parent, "")) if parts else set()
            for copy in entry.copies:
                if copy.part.rpartition("/")[2] in there:
                    make_delivery_folder((self.folder / copy.target).parent)
                    self._move_to_destination(copy.part, copy.target)

    def _move_to_destination(self, part: str, place: str) -> None:
        target = self.folder / place
        with suppress(FileNotFoundError):  # this runner or another one has done it
            move_file(self.folder / part, target)
            flush_folder(target.parent)


def parse_write_options(unit: Unit) -> WriteOptions:
    """Parse the OPTIONS of a PUBLISH into files."""
    options = unit.options
    return WriteOptions(
        format=str(options.get("format", "csv")),
        compression=str(options.get("compression", "none")),
        has_header=bool(options.get("header", True)),
        delimiter=str(options.get("delimiter", ",")),
        has_timelabel=bool(options.get(TIMELABEL, True)),
        escapes_formulas=options.get("formulas") == "escape",
    )


def destination_path(unit: Unit, delivery: Delivery, writing: WriteOptions) -> Path:
    """Return the final path of a delivery's file, relative to the connection's folder."""
    folder = _unit_folder(unit)
    label = f"_{delivery.label_text}" if delivery.is_by_label else ""
    return folder / f"{'_'.join(folder.parts)}{label}.{ENDINGS[writing.format, writing.compression]}"


def _unit_folder(unit: Unit) -> Path:
    return Path(*(part for part in re.split(r"[./]", unit.path) if part))


def _part_path(target: Path, claim: int, attempt: str) -> Path:
    return target.with_name(f".{target.name}.{claim}.{attempt}.part")


def _parse_entries(record: Mapping[str, Any]) -> list[_DeliveryEntry]:
    return [_parse_entry(entry) for entry in record["deliveries"]]


def _parse_entry(parts: Mapping[str, Any]) -> _DeliveryEntry:
    own_keys = {"target", "size", "part", "copies"}
    delivered = {name: part for name, part in parts.items() if name not in own_keys}
    copies = of_record(parts.get("copies", ()))
    return _DeliveryEntry(
        Delivered.of_record(delivered), parts["target"], parts.get("size"), parts.get("part", ""), copies
    )


def _claims_in(records: Path) -> list[int]:
    """Return the numbers of the claims that have a delivery record, newest first."""
    found = (name.removesuffix(".json") for name in names_in(records, "") if name.endswith(".json"))
    return sorted((int(name) for name in found if name.isdigit()), reverse=True)


def _read_delivered_paths(records: Path) -> frozenset[str]:
    """Return the final paths of all delivered copies. Cost: all records of the publish are read."""
    documents = (read_json(records / f"{claim}.json") for claim in _claims_in(records))
    entries = (entry for record in documents if record for entry in _parse_entries(record))
    return frozenset(copy.target for entry in entries for copy in entry.copies)


def _describe_change(target: Path, entry: _DeliveryEntry) -> str | None:
    try:
        size = stat_file(target).size
    except FileNotFoundError:
        return f"{target.name} is gone"
    is_as_delivered = entry.size is None or size == entry.size
    return None if is_as_delivered else f"{target.name} has {size} bytes, {entry.size} were delivered"


@contextmanager
def _translate_errors(folder: Path, where: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WaterclockError(
            "E821",
            "the folder cannot be written",
            where=where,
            why=f"{folder}: {error.strerror or error}; its files are unchanged",
            fix="free disk space, or allow writing there; then run again",
        ) from error
