"""How is a sealed slice delivered as a file, all or nothing, once a claim?

From a partitioned table (and by APPEND) each label has its file, `<unit>/<unit>_<label>.<ext>`; from a regular table
there is one, `<unit>/<unit>.<ext>`. A unit `a.b` is the folder `a/b` and the name `a_b`. An empty slice is a file too.

1. The file is written beside its place, as `.<name>.<claim>.part`, and flushed to the disk.
2. The claim's record `_waterclock/deliveries/<project>/<publish>/<claim>.json` is created put-if-absent: the latch.
3. The file is renamed to its place: readers see the old one or the new one, never a part.

A crash between 2 and 3 is mended by whoever delivers that claim again, or looks at what stands under it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from waterclock.connectors.interface import Delivered, Delivery, Outcome
from waterclock.connectors.outfile import ENDINGS, Writing, write_file
from waterclock.connectors.sealed import batches_of
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.flow import Unit

_FIELDS = ("claim", "outcome", "label_text", "rows", "deleted", "note")

RECORDS = Path("_waterclock") / "deliveries"


@dataclass(frozen=True, slots=True)
class FilesDeliverer:
    """Delivers into a folder."""

    folder: Path

    def deliver(self, unit: Unit, delivery: Delivery) -> Delivered:
        """Write the slice's file and put it in its place.

        Raises  E821 when the folder cannot be written, E820 for a place that another project publishes to; nothing
                has changed then
        """
        where = f"{unit}@{delivery.label_text}"
        records = self._records(delivery.project, delivery.publish)
        with _telling(self.folder, where):
            if stands := self.find(unit, delivery.project, delivery.publish, delivery.claim):
                return stands
            self._refuse_foreign(unit, delivery)
            writing = writing_of(unit)
            target = place_of(unit, delivery, writing)
            self._finish_earlier(records, target)
            newest = self.last(unit, delivery.project, delivery.publish)
            if newest and not delivery.is_by_label and newest.label_text > delivery.label_text:
                older = Delivered(delivery.claim, Outcome.OLDER, delivery.label_text, 0)
                return self._latch(records, _record(delivery, older, "", newest))
            return self._put(delivery, target, writing, newest)

    def _put(self, delivery: Delivery, target: Path, writing: Writing, newest: Delivered | None) -> Delivered:
        records = self._records(delivery.project, delivery.publish)
        part = self.folder / _part_of(target, delivery.claim)
        part.parent.mkdir(parents=True, exist_ok=True)
        try:
            batches = batches_of(delivery.files, [name for name, _ in delivery.columns])
            rows = write_file(part, batches, delivery.columns, writing)
            fault("deliver.rows")
            delivered = Delivered(delivery.claim, Outcome.DELIVERED, delivery.label_text, rows, 0, delivery.note)
            stands = self._latch(records, _record(delivery, delivered, str(target), newest))
            fault("deliver.latched")
            self._finish(records, delivery.claim)
        finally:
            record = _read(records / f"{delivery.claim}.json")
            if record is None or record["outcome"] != Outcome.DELIVERED.value:
                part.unlink(missing_ok=True)
        fault("deliver.done")
        return stands

    def kill(self, unit: Unit, project: str, publish: str, claim: int) -> Delivered:
        """Create the claim's record without a file, unless it is there."""
        with _telling(self.folder, str(unit)):
            if stands := self.find(unit, project, publish, claim):
                return stands
            killed = Delivered(claim, Outcome.KILLED, "", 0)
            record = {"project": project, "publish": publish, "target": "", "newest": None, **_parts(killed)}
            stands = self._latch(self._records(project, publish), record)
            if stands.outcome is Outcome.KILLED:
                for part in _folder_of(self.folder, unit).glob(f".*.{claim}.part"):
                    part.unlink(missing_ok=True)
            return stands

    def find(self, unit: Unit, project: str, publish: str, claim: int) -> Delivered | None:
        """What stands under a claim; puts its file in place where a crash has left that undone."""
        del unit
        records = self._records(project, publish)
        record = _read(records / f"{claim}.json")
        if record is None:
            return None
        self._finish(records, claim)
        return _delivered(record)

    def last(self, unit: Unit, project: str, publish: str) -> Delivered | None:
        """The newest label's newest delivery: each record names the newest delivery as of itself."""
        del unit
        records = self._records(project, publish)
        claims = sorted((int(path.stem) for path in records.glob("*.json") if path.stem.isdigit()), reverse=True)
        for claim in claims:
            record = _read(records / f"{claim}.json")
            if record and record["newest"]:
                return _delivered(record["newest"])
        return None

    def _records(self, project: str, publish: str) -> Path:
        return self.folder / RECORDS / project / publish

    def _refuse_foreign(self, unit: Unit, delivery: Delivery) -> None:
        for folder in (self.folder / RECORDS).glob(f"*/{delivery.publish}"):
            if folder.parent.name != delivery.project:
                raise WaterclockError(
                    "E820",
                    f"{unit} belongs to the project {folder.parent.name}",
                    where=f"{unit}@{delivery.label_text}",
                    why="its files would be replaced by ours",
                    fix="publish under another name, or into another folder",
                )

    def _finish_earlier(self, records: Path, target: Path) -> None:
        """Put earlier files in place that a crash has left aside, in order, so that none comes after a newer one."""
        parts = (self.folder / target).parent.glob(f".{target.name}.*.part")
        for claim in sorted(int(part.name.split(".")[-2]) for part in parts):
            self._finish(records, claim)

    def _latch(self, records: Path, record: dict[str, Any]) -> Delivered:
        """Create a record unless its claim has one; give what stands then."""
        records.mkdir(parents=True, exist_ok=True)
        path = records / f"{record['claim']}.json"
        aside = records / f".{record['claim']}.{os.getpid()}.{os.urandom(4).hex()}"
        try:
            with aside.open("x", encoding="utf-8") as file:
                json.dump(record, file)
                file.flush()
                os.fsync(file.fileno())
            os.link(aside, path)
        except FileExistsError:
            stands = _read(path)
            return _delivered(stands or record)
        finally:
            aside.unlink(missing_ok=True)
        _flush_folder(records)
        return replace(_delivered(record), is_repeat=False)

    def _finish(self, records: Path, claim: int) -> None:
        """Rename the file of a delivered claim to its place, if that is still to be done."""
        record = _read(records / f"{claim}.json")
        if record is None or not record["target"] or record["outcome"] != Outcome.DELIVERED.value:
            return
        target = self.folder / record["target"]
        part = self.folder / _part_of(Path(record["target"]), claim)
        try:
            part.replace(target)
        except FileNotFoundError:
            return
        _flush_folder(target.parent)


def writing_of(unit: Unit) -> Writing:
    """Give what a unit's options say of its files."""
    options = unit.options
    return Writing(
        format=str(options.get("format", "csv")),
        compression=str(options.get("compression", "none")),
        has_header=bool(options.get("header", True)),
        delimiter=str(options.get("delimiter", ",")),
    )


def place_of(unit: Unit, delivery: Delivery, writing: Writing) -> Path:
    """Give the file's path below the connection's folder."""
    folder = _folder_of(Path(), unit)
    label = f"_{delivery.label_text}" if delivery.is_by_label else ""
    return folder / f"{'_'.join(folder.parts)}{label}.{ENDINGS[writing.format, writing.compression]}"


def _folder_of(folder: Path, unit: Unit) -> Path:
    return folder.joinpath(*(part for part in re.split(r"[./]", unit.path) if part))


def _part_of(target: Path, claim: int) -> Path:
    return target.with_name(f".{target.name}.{claim}.part")


def _record(delivery: Delivery, delivered: Delivered, target: str, newest: Delivered | None) -> dict[str, Any]:
    is_newest = delivered.outcome is Outcome.DELIVERED and (newest is None or newest.label_text <= delivered.label_text)
    top = delivered if is_newest else newest
    return {
        "project": delivery.project,
        "publish": delivery.publish,
        "mode": delivery.mode.value,
        "target": target,
        "newest": _parts(top) if top else None,
        **_parts(delivered),
    }


def _parts(delivered: Delivered) -> dict[str, Any]:
    parts = asdict(delivered)
    return {name: parts[name] for name in _FIELDS} | {"outcome": delivered.outcome.value}


def _delivered(record: dict[str, Any]) -> Delivered:
    parts = {name: record[name] for name in _FIELDS} | {"outcome": Outcome(record["outcome"])}
    return Delivered(**parts, is_repeat=True)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return read


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _telling(folder: Path, where: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WaterclockError(
            "E821",
            "the folder cannot be written",
            where=where,
            why=f"{folder}: {error.strerror or error}; what was there is unchanged",
            fix="free some space, or give the right to write there; then run again",
        ) from error
