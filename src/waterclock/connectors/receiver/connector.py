"""The connection type `receiver`: its capabilities, and the collector of events that `waterclock receive` stored."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waterclock.connectors.delivering import Deliverer
from waterclock.connectors.files.connector import FilesCollector
from waterclock.connectors.interface import Collected, ConnectionType, Item, Listing, PendingData, Report, Setting
from waterclock.connectors.original_erasure import OriginalErasure, Subjects
from waterclock.connectors.receiver import segment_names
from waterclock.connectors.receiver.events import OWN
from waterclock.connectors.receiver.unsealed_events import UnsealedEvents, is_unsealed, list_unsealed
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import Capabilities, InvalidOption, Option
from waterclock.flow.declarations import Columns, Unit
from waterclock.flow.enums import Batching
from waterclock.flow.origins import TYPES
from waterclock.flow.receiver_limits import LARGEST_MAX_BODY, MAX_BODY, MAX_WAITING
from waterclock.permissions.ownership import make_private_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from waterclock.flow.declarations import Flow
    from waterclock.timelabel.cadence import Cadence

_TYPE_ERROR_FIX = (
    "declare the column with the type that is sent, or STRING; or quarantine such rows with an ELSE after the type; "
    "then `waterclock retry`. Received events are stored unchanged, and need not be sent again"
)
_SEGMENT_PROBLEMS = {
    "open": "events that are being received are not collected yet",
    "closed": "its events are not collected yet",
    "damaged": "a damaged segment cannot be rewritten",
}
_SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie"})


def streams_of(flow: Flow) -> dict[str, list[Cadence]]:
    """Map each stream `connection/stream` that tables collect to the cadences of these tables."""
    found: dict[str, list[Cadence]] = {}
    for table in flow.tables.values():
        unit = table.source.unit if table.source is not None else None
        if unit is not None and flow.connections[unit.connection].type == CAPABILITIES.type:
            found.setdefault(f"{unit.connection}/{unit.path}", []).append(table.cadence)
    return found


def _wrong_options(what: str, options: Mapping[str, Any], path: str) -> Iterable[InvalidOption]:
    del path
    kept = {name.strip().lower() for name in str(options.get("headers") or "").split(",")}
    if what == "connection" and (secret := sorted(kept & _SECRET_HEADERS)):
        yield InvalidOption(
            "E313",
            "headers",
            f"headers contains {secret[0]}",
            "the table would contain the credentials of senders",
            "leave it out; use another header to identify the sender",
        )


CAPABILITIES = Capabilities(
    type="receiver",
    connection_options={
        "path": Option(is_required=True, help="the local folder that events are written to"),
        "token": Option(
            is_secret=True,
            help="the token of senders (`Authorization: Bearer`), as a secret; default none: only this machine sends",
        ),
        "max_body": Option(
            "number",
            help=f"the maximum bytes of a request, unpacked; default {MAX_BODY}, at most {LARGEST_MAX_BODY}",
        ),
        "max_waiting": Option(
            "number", help=f"the maximum bytes of requests that wait for the disk at once; default {MAX_WAITING}"
        ),
        "headers": Option(help="request headers to store in a column _headers, separated by commas; default none"),
        "raw": Option("flag", help="whether to store each event as it was sent in a column _raw; default false"),
    },
    collect_options={
        "timestamp_format": Option(help="a Spark datetime pattern for TIMESTAMP columns; default ISO 8601"),
        "date_format": Option(help="a Spark datetime pattern for DATE columns; default ISO 8601"),
    },
    collects=frozenset({Batching.ARRIVAL_TIME}),
    reads_open_windows=frozenset({Batching.ARRIVAL_TIME}),
    origin_fields=frozenset(TYPES),
    seals=True,
    wrong_options=_wrong_options,
)


def _open_source(setting: Setting) -> ReceiverCollector:
    return ReceiverCollector(setting)


def _open_destination(setting: Setting) -> Deliverer:
    """Raise an error, because nothing can be published to a receiver. `waterclock check` reports it before."""
    raise AssertionError(f"{setting.name} is a receiver: nothing is published to it")


CONNECTOR = ConnectionType(CAPABILITIES, _open_source, _open_destination)


@dataclass(frozen=True, slots=True)
class ReceiverCollector:
    """Collects received events from the sealed files: JSON lines into which `segment_sealing` converts segments."""

    setting: Setting

    def seal(self, unit: Unit, now: datetime) -> datetime:
        """Convert received events to sealed files. Return the instant up to which all events are in them."""
        from waterclock.connectors.receiver.segment_sealing import seal

        return seal(self._folder(unit), now)

    def find_pending(self, unit: Unit) -> PendingData:
        """Return the number, size and oldest label of segments and sealed files that are not archived yet."""
        folder = self._folder(unit)
        segments = segment_names.segments_in(folder)
        landed = [path for path in folder.glob(segment_names.LANDED) if not path.name.startswith(".")]
        there = [*(folder / segment.name for segment in segments), *landed]
        labels = [*(each.label for each in segments), *(segment_names.label_of_file(path.name) for path in landed)]
        return PendingData(
            len(there), sum(_size_of(path) for path in there), min(labels, default=None),
            is_open=any(segment.state == "open" for segment in segments),
        )  # fmt: skip

    def clock(self, unit: Unit) -> datetime | None:
        """Return the instant up to which the stream was last sealed; None before the first time."""
        return segment_names.find_seal_time(self._folder(unit))

    def schema(self, unit: Unit) -> Mapping[str, str] | None:
        """Return None: an event may have any keys."""
        del unit
        return None

    def explain(self, unit: Unit, columns: Columns, error: BaseException) -> WaterclockError | None:
        """Build an error that names the file, the line and the key that Spark failed to read."""
        explained = self._files().explain(_build_landed_unit(unit), columns, error)
        if explained is None or explained.code != "E806":
            return explained
        return WaterclockError(
            explained.code, explained.what, where=explained.where, why=explained.why, fix=_TYPE_ERROR_FIX
        )

    def arrivals(self, unit: Unit, taken: Collection[str] = ()) -> Listing:
        """List all sealed files of events, archived or not, oldest first, with reports about damaged segments."""
        folder = self._folder(unit)
        make_private_folder(folder)
        listing = self._files().arrivals(_build_landed_unit(unit), taken)
        return Listing(
            listing.items, (*listing.reports, *map(_build_damage_report, self._find_damaged_segments(folder)))
        )

    def arrivals_so_far(self, unit: Unit, taken: Collection[str] = ()) -> Listing:
        """List sealed files as `arrivals` does, and segments under the names of the files that they become."""
        segments = list_unsealed(self._folder(unit))  # before the files, as it may be sealed in between
        listing = self.arrivals(unit, taken)
        sealed = {*taken, *(item.name for item in listing.items)}
        items = [*listing.items, *(item for item in segments if item.name not in sealed)]
        return replace(listing, items=tuple(sorted(items, key=lambda item: (item.stamp, item.name))))

    def find(self, unit: Unit, names: Collection[str]) -> tuple[Item, ...]:
        """Return the files of events with these names, archived or not."""
        return self._files().find(_build_landed_unit(unit), names)

    def read_items(
        self, spark: SparkSession, unit: Unit, items: Mapping[datetime, Sequence[Item]], columns: Columns, zone: str
    ) -> Collected:
        """Read files of events into one frame, with labels. A column that no event of the batch has is NULL.

        The events of segments are copied before, and the copies are removed when the read is closed.
        """
        folder = self._folder(unit)
        make_private_folder(folder)
        if any(is_unsealed(item) for of in items.values() for item in of):
            return self._read_unsealed(spark, unit, items, columns, zone)
        collected = self._files().read_items(spark, _build_landed_unit(unit), items, columns, zone)
        left_out = tuple(name for name in collected.left_out if name not in OWN)
        return replace(collected, left_out=left_out, may_miss_columns=True)

    def _read_unsealed(
        self, spark: SparkSession, unit: Unit, items: Mapping[datetime, Sequence[Item]], columns: Columns, zone: str
    ) -> Collected:
        copies = UnsealedEvents(self._folder(unit))
        try:
            collected = self.read_items(spark, unit, copies.copy(items), columns, zone)
        except BaseException:
            copies.close()
            raise

        def close() -> None:
            collected.close()
            copies.close()

        return replace(collected, close=close)

    def archive(self, unit: Unit, items: Sequence[Item]) -> tuple[Report, ...]:
        """Move files of collected events to the archive. Return a report for each file that stays."""
        return self._files().archive(_build_landed_unit(unit), items)

    def erase_originals(
        self,
        unit: Unit,
        columns: Columns,
        subjects: Subjects,
        *,
        is_dry_run: bool = False,
        requested: Sequence[str] = (),
    ) -> Iterator[OriginalErasure]:
        """Rewrite sealed files of events, archived or not, without the events of erased persons. Report segments."""
        folder = self._folder(unit)
        files, landed = self._files(), _build_landed_unit(unit)
        yield from files.erase_originals(
            landed, columns, subjects, is_dry_run=is_dry_run, requested=requested, in_landing=True
        )
        for segment in segment_names.segments_in(folder):
            yield OriginalErasure(str(folder / segment.name), problem=_SEGMENT_PROBLEMS[segment.state])

    def _folder(self, unit: Unit) -> Path:
        return folder_of(self.setting) / unit.path

    def _files(self) -> FilesCollector:
        return FilesCollector(replace(self.setting, options={"path": str(folder_of(self.setting))}))

    @staticmethod
    def _find_damaged_segments(folder: Path) -> list[Path]:
        return [folder / each.name for each in segment_names.segments_in(folder) if each.state == "damaged"]


def folder_of(setting: Setting) -> Path:
    """Return the folder of a connection; a relative path is below the project's folder."""
    folder = setting.folder / str(setting.options["path"])
    return folder.resolve() if ".." in folder.parts else folder


def _build_landed_unit(unit: Unit) -> Unit:
    return replace(unit, path=f"{unit.path}/{segment_names.LANDED}")


def _build_damage_report(path: Path) -> Report:
    damage = WaterclockError("E871", "only events before the damage were collected; the file was complete once")
    return Report(str(path), "damaged", f"{damage.code}: {damage.what}")


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
