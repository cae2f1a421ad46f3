"""The connection type `files`: collects files that arrive in folders, and writes files into folders.

Connection      `path`: the landing folder (collect) or the destination folder (publish); `archive`: where originals are
                moved, by default the storage's `archive/<connection>`. Both may be URLs of an object store.
Unit            The name after FROM: `supplier.source` or a glob (see `file_name_matching`).
Arrival time    An item is a file; its arrival is its stamp: the time in its name, or else its last modification.
Data time       A file's stamp is the last second of its rows. A window [s, e) is read from the files stamped from s to
                e + slack (see `WindowRequest`), and the first one after. If stamps are times of the last modification,
                all files after s are read. The source's clock is the second after the newest complete file's stamp.
Snapshot        The files of the newest stamp at or before the run's now; all files of a glob whose names have no
                stamps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waterclock.connectors.delivering import Deliverer
from waterclock.connectors.files import file_name_matching
from waterclock.connectors.files import landing as land
from waterclock.connectors.files.connection_folders import folder_of, register_buckets, resolve_landing
from waterclock.connectors.files.file_writing import find_write_option_errors
from waterclock.connectors.files.markers import has_marker
from waterclock.connectors.files.missing_files import later_files_error, missing_file_error, no_files_error
from waterclock.connectors.files.name_stamps import CLOCK_AFTER_STAMP, wrong_stamp
from waterclock.connectors.files.number_texts import wrong_numbers
from waterclock.connectors.files.own_copies import name_as_landed
from waterclock.connectors.files.raw_files import RAW, keeps_times, rows_of_files
from waterclock.connectors.files.raw_files import TYPES as RAW_TYPES
from waterclock.connectors.files.reading_options import (
    ROOM,
    ReadOptions,
    find_read_option_errors,
    parse_read_options,
    wrong_raw,
)
from waterclock.connectors.files.source_file_columns import split_origin_columns, with_file_names
from waterclock.connectors.files.stamp_notes import stamp_note, stamp_warning
from waterclock.connectors.interface import (
    ChangedWindows,
    ChangeScanRequest,
    Collected,
    ConnectionType,
    Item,
    Listing,
    Report,
    Setting,
    WindowRequest,
)
from waterclock.connectors.original_erasure import OriginalErasure, Subjects
from waterclock.errors import WaterclockError
from waterclock.flow.awaits import Awaits
from waterclock.flow.capabilities import Capabilities, DestinationNames, InvalidOption, Option
from waterclock.flow.declarations import Columns, Unit
from waterclock.flow.enums import Batching, Mode, WindowSignal
from waterclock.flow.lookback_changes import ChangeReporting
from waterclock.flow.origins import TYPES
from waterclock.timelabel.label import TIMELABEL, label_of
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_READING_OPTIONS = {
    "format": Option(
        choices=(RAW,), help="raw: one row per file, with its bytes unchanged; default: by the file's extension"
    ),
    "header": Option(
        "flag",
        help="whether a CSV file or a sheet begins with its column names; default true",
    ),
    "delimiter": Option(help="the separator of the fields of a CSV file; default a comma, in .tsv files a tab"),
    "quote": Option(help='the quote character of a CSV file; default "'),
    "escape": Option(help='the character before a quote inside quotes; default the quote itself, as in ""'),
    "encoding": Option(help="the files' encoding; default UTF-8"),
    "null": Option(help="the text that means NULL in a CSV file; default the empty text"),
    "multiline": Option("flag", help="whether a JSON value may span lines; default false. Quoted CSV fields may"),
    "decimal": Option(help="the decimal separator in CSV, XML and fixed width, such as ','; default a point"),
    "thousands": Option(help="the thousands separator of such numbers, such as '.' or a blank; default none"),
    "timestamp_format": Option(help="a Spark datetime pattern for TIMESTAMP columns; default ISO 8601"),
    "date_format": Option(help="a Spark datetime pattern for DATE columns; default ISO 8601"),
    "rows": Option(help="the path of the records in a JSON document, such as data.items; in XML, the element of a row"),
    "outer": Option(help="values outside of the JSON records to add as columns: orders.id AS order_id, exported_at"),
    "positions": Option(help="the fields of .txt, .dat and .fwf files (fixed width): id 1-6, name 7-30, note 31-"),
    "stamp": Option(
        help="the form of the date in names that match a glob, such as '%Y%m%d' (the stamp is its last second); "
        "changed: the time of the last change; default: a date with a time of day in the name, else the last change"
    ),
    "stamp_zone": Option(help="the zone of the stamps in the names; default UTC"),
    "sheet": Option(help="the Excel sheet, by name or by a glob that matches one; default the first visible one"),
    "range": Option(help="the range with the data, header first: B3:F100, B3:F or B3; default the used range"),
    "merged": Option(
        choices=("refuse", "fill"), help="refuse merged cells, or fill each with the value; default refuse"
    ),
    "member": Option(help="a glob of the members of a zip to read, such as *.csv; default all"),
    "most_mb": Option("number", help="how many MB the members of a zip may have together; default 4096"),
    "settle": Option("number", help="seconds that a file must be unchanged before it is read; default 0"),
}
_WRITING_OPTIONS = {
    "format": Option(
        choices=("csv", "json", "parquet", "avro", "excel", RAW),
        help="the files' format; raw: copies of the originals; default csv",
    ),
    "keep": Option(choices=("all",), help="with format raw: also keep the times of the last changes"),
    "compression": Option(choices=("none", "gzip", "bz2", "zstd"), help="the files' compression; default none"),
    "header": Option("flag", help="whether a CSV file begins with its column names; default true"),
    "delimiter": Option(help="the separator of the fields of a CSV file; default a comma"),
    "formulas": Option(
        choices=("keep", "escape"),
        help="escape: put an apostrophe before texts that a spreadsheet would take for formulas; default keep",
    ),
    TIMELABEL: Option("flag", help="whether the timelabel is the last column of each file; default true"),
}

# those of `object_stores.OPTIONS`, for the buckets of `path` and `archive`
_STORE_OPTIONS = {
    "endpoint": Option(is_address=True, help="the URL of an object store other than AWS"),
    "region": Option(help="the bucket's region; default AWS_REGION"),
    "access_key_id": Option(help="the ID of the access key; default AWS_ACCESS_KEY_ID, or the machine's role"),
    "secret_access_key": Option(is_secret=True, help="the access key, as a secret; default AWS_SECRET_ACCESS_KEY"),
    "session_token": Option(is_secret=True, help="the session token, as a secret; default AWS_SESSION_TOKEN"),
    "virtual_hosted_style_request": Option("flag", help="whether the bucket is part of the host name; default false"),
}


def _wrong_options(what: str, options: Mapping[str, Any], path: str) -> Iterable[InvalidOption]:
    """Yield errors for invalid or contradictory OPTIONS. `what` is the statement: `collect` or `publish`."""
    if what == "collect":
        wrong = wrong_raw(options) if options.get("format") == RAW else find_read_option_errors(options, path)
        return chain(wrong, wrong_numbers(options), _wrong_stamp(options, path))
    return find_write_option_errors(options) if what == "publish" else ()


def _wrong_stamp(options: Mapping[str, Any], path: str) -> Iterable[InvalidOption]:
    try:
        names = file_name_matching.parse_unit_path(path)
    except WaterclockError:  # `require_path` reports it
        return ()
    return wrong_stamp(options, is_glob=not names.supplier)


def _stamp_warning(folder: Path, connection: Mapping[str, Any], unit: Unit) -> InvalidOption | None:
    return stamp_warning(folder, connection, _names_of(unit))


CAPABILITIES = Capabilities(
    type="files",
    connection_options={
        "path": Option(
            is_required=True, help="the folder to collect from or to publish into, or a URL such as s3://bucket/folder"
        ),
        "archive": Option(help="the folder or URL to move originals to; default archive/<connection> in the storage"),
        **_STORE_OPTIONS,
    },
    collect_options=_READING_OPTIONS,
    publish_options=_WRITING_OPTIONS,
    collects=frozenset({Batching.ARRIVAL_TIME, Batching.DATA_TIME, Batching.SNAPSHOT}),
    publishes=frozenset({Mode.APPEND, Mode.REPLACE}),
    awaits=frozenset({WindowSignal.MARKER, WindowSignal.NEXT}),
    changes=ChangeReporting.BY_ITSELF,
    returns_unparsed_lines=True,
    reads_open_windows=frozenset({Batching.ARRIVAL_TIME}),
    origin_fields=frozenset(TYPES),
    copies=True,
    wrong_options=_wrong_options,
    require_path=file_name_matching.parse_unit_path,
    warning=_stamp_warning,
    destination_names=DestinationNames({r"_waterclock(\..*)?": "the folder contains the records of deliveries"}),
)


def _open_source(setting: Setting) -> FilesCollector:
    register_buckets(setting)
    return FilesCollector(setting)


def _open_destination(setting: Setting) -> Deliverer:
    from waterclock.connectors.files.delivery import FilesDeliverer

    register_buckets(setting)
    return FilesDeliverer(folder_of(setting))


CONNECTOR = ConnectionType(CAPABILITIES, _open_source, _open_destination)


@dataclass(frozen=True, slots=True)
class FilesCollector:
    """Collects files from a landing folder and its archive."""

    setting: Setting

    def clock(self, unit: Unit) -> datetime | None:
        """Return the stamp (arrival time) of the newest complete file plus one second; None without a complete file.

        Raises E804 if the unit is the name of one file, and that file is missing.
        """
        newest = land.newest_stamp(self._resolve_landing(unit), _names_of(unit), now=datetime.now(UTC))
        if newest is None and file_name_matching.has_file_ending(_names_of(unit)):
            raise missing_file_error(unit)  # without this error, its labels would be made without rows
        return newest + CLOCK_AFTER_STAMP if newest else None

    def has_sign(self, unit: Unit, awaits: Awaits, window: Window, zone: str) -> bool:
        """Return whether a window is complete: its marker file exists or, for NEXT, a file stamped at or after its end.

        A marker whose name is the same for all windows counts for those that end before its last modification.
        """
        if awaits.sign is WindowSignal.NEXT:
            newest = land.newest_stamp(self._resolve_landing(unit), _names_of(unit), now=datetime.now(UTC))
            return newest is not None and newest >= window.end
        return has_marker(self._resolve_landing(unit).folder, awaits.text, window, zone)

    def schema(self, unit: Unit) -> Mapping[str, str] | None:
        """Return the names and types of the columns of the newest complete CSV file, or None. Fixed for `raw`."""
        if _is_raw(unit):
            return dict(RAW_TYPES)
        from waterclock.connectors.files.file_schemas import shapes_of

        newest = (item for items in self._newest_first(unit) for item in reversed(items))
        item = next((item for item in newest if self._format_of(item) == "csv"), None)
        if item is None:
            return None
        shapes = shapes_of([item.path], self._resolve_read_options(unit), Columns())
        return {found.name: found.type or "STRING" for shape in shapes for found in shape.found}

    def explain(self, unit: Unit, columns: Columns, error: BaseException) -> WaterclockError | None:
        """Build an error with the file, line and column that Spark failed to read; None if no file is the cause."""
        from waterclock.connectors.files.error_positions import explain

        found = explain(error, self._resolve_read_options(unit), split_origin_columns(columns)[0])
        return None if found is None else name_as_landed(found, self._resolve_read_options(unit))

    def value_of_text(self, unit: Unit, text: str, type_text: str, zone: str) -> str:
        """Return SQL that parses a text by the declared options, such as `date_format`; NULL for an invalid text."""
        from waterclock.connectors.files.scanning import value_of_text

        return value_of_text(text, type_text, zone, self._resolve_read_options(unit))

    def arrivals(self, unit: Unit, taken: Collection[str] = ()) -> Listing:
        """List all complete files of the unit, archived ones not in `taken` too, oldest first, and report others."""
        names = _names_of(unit)
        return land.list_items(self._resolve_landing(unit), names, now=datetime.now(UTC), taken=taken)

    def find(self, unit: Unit, names: Collection[str]) -> tuple[Item, ...]:
        """Return the files with these item names, archived or not; see `landing.find_items`."""
        return land.find_items(self._resolve_landing(unit), _names_of(unit), names)

    def read_items(
        self, spark: SparkSession, unit: Unit, items: Mapping[datetime, Sequence[Item]], columns: Columns, zone: str
    ) -> Collected:
        """Read files into one frame. Each row has the label under which `items` lists its file."""
        read = [item for taken in items.values() for item in taken]
        collected = self._read_items(spark, unit, items, columns, zone)
        return replace(collected, before_commit=self._change_check(unit, read), notes=_notes(unit, read))

    def _read_items(
        self, spark: SparkSession, unit: Unit, items: Mapping[datetime, Sequence[Item]], columns: Columns, zone: str
    ) -> Collected:
        if _is_raw(unit):
            return self._collect_raw(spark, unit, items, columns)
        from waterclock.connectors.files.scanning import scan

        labels = {item.path: label_of(label) for label, taken in items.items() for item in taken}
        if not labels:
            return self._collect_nothing(spark, unit, columns, zone)
        own, fields = split_origin_columns(columns)
        scanned = scan(spark, list(labels), self._resolve_read_options(unit), own, zone, has_rows="row" in fields)
        rows = scanned.frame
        if "file" in fields:
            rows = with_file_names(spark, rows, [item for taken in items.values() for item in taken])
        frame = _with_file_labels(spark, rows, labels)
        source = {label_of(label): [_item_to_dict(item) for item in taken] for label, taken in items.items()}
        by_label = {
            label: scanned.merge_column_types({item.path for item in taken}) for label, taken in items.items() if taken
        }
        return Collected(
            frame,
            left_out=scanned.left_out,
            source={"items": source},
            close=scanned.close,
            source_columns=scanned.merge_column_types(),
            source_columns_by_label=by_label,
        )

    def archive(self, unit: Unit, items: Sequence[Item]) -> tuple[Report, ...]:
        """Move files to the archive; see `archiving.archive_items`."""
        from waterclock.connectors.files.archiving import archive_items

        return archive_items(self._resolve_landing(unit), items)

    def erase_originals(
        self,
        unit: Unit,
        columns: Columns,
        subjects: Subjects,
        *,
        is_dry_run: bool = False,
        requested: Sequence[str] = (),
        in_landing: bool = False,
    ) -> Iterator[OriginalErasure]:
        """Rewrite archived files without the rows of erased persons; see `erasure.erase_files`.

        `in_landing`: also the files in the landing folder, if they belong to Waterclock.
        """
        from waterclock.connectors.files.erasure import erase_files

        del requested
        landing = self._resolve_landing(unit)
        for folder in (landing.archive, *((landing.folder,) if in_landing else ())):
            options = self._resolve_read_options(unit)
            yield from erase_files(landing, folder, _names_of(unit), options, columns, subjects, is_dry_run=is_dry_run)

    def read_windows(
        self, spark: SparkSession, unit: Unit, request: WindowRequest, columns: Columns, zone: str
    ) -> Collected:
        """Read the files that may contain rows of the windows, and label each row with its window."""
        from waterclock.connectors.files.scanning import scan
        from waterclock.connectors.windowing import assign_windows

        first, last = request.windows[0].start, request.windows[-1].end
        span = (first, last + request.slack)
        chosen = land.list_between(self._resolve_landing(unit), _names_of(unit), span, now=datetime.now(UTC))
        if not chosen:
            return self._collect_nothing(spark, unit, columns, zone)
        own, fields = split_origin_columns(columns)
        stamps, time = {item.path: item.stamp for item in chosen}, request.time_column
        reading = self._resolve_read_options(unit)
        scanned = scan(spark, list(stamps), reading, own, zone, time=time, stamps=stamps, has_rows="row" in fields)
        rows = with_file_names(spark, scanned.frame, chosen) if "file" in fields else scanned.frame
        outside = [item.path for item in chosen if not first <= item.stamp < last]
        frame, set_aside = assign_windows(rows, request.windows, outside)
        source = {"items": [_item_to_dict(item) for item in chosen]}
        return Collected(
            frame,
            set_aside,
            scanned.left_out,
            source,
            close=scanned.close,
            source_columns=scanned.merge_column_types(),
            notes=_notes(unit, chosen),
            before_commit=self._change_check(unit, chosen, accepts_growth=True),
        )

    def scan_changes(
        self, spark: Callable[[], SparkSession], unit: Unit, request: ChangeScanRequest, columns: Columns, zone: str
    ) -> ChangedWindows:
        """Return the windows that have rows in files that arrived since the last scan; see `change_scans`."""
        from waterclock.connectors.files.change_scans import find_changed_windows

        span = (request.windows[0].start, request.windows[-1].end + request.slack)
        items = land.list_between(self._resolve_landing(unit), _names_of(unit), span, now=datetime.now(UTC))
        return find_changed_windows(
            spark, items, request, self._resolve_read_options(unit), split_origin_columns(columns)[0], zone
        )

    def read_snapshot(
        self, spark: SparkSession, unit: Unit, columns: Columns, zone: str, *, now: datetime | None = None
    ) -> Collected:
        """Read the newest files that are not later than `now`, by their stamps: the times in their names.

        If the names have no stamps, read all files of the glob.
        """
        from waterclock.connectors.files.scanning import scan
        from waterclock.connectors.windowing import FILE_KEY

        chosen = self._newest_items(unit, now)
        if not chosen:
            items = self.arrivals(unit).items
            raise later_files_error(unit, items[0], now) if items else no_files_error(unit)
        check = self._change_check(unit, chosen)
        if _is_raw(unit):
            return replace(self._collect_raw(spark, unit, {None: chosen}, columns), before_commit=check)
        own, fields = split_origin_columns(columns)
        paths = [item.path for item in chosen]
        scanned = scan(spark, paths, self._resolve_read_options(unit), own, zone, has_rows="row" in fields)
        rows = with_file_names(spark, scanned.frame, chosen) if "file" in fields else scanned.frame
        return Collected(
            rows.drop(FILE_KEY),
            left_out=scanned.left_out,
            source={"items": [_item_to_dict(item) for item in chosen]},
            close=scanned.close,
            source_columns=scanned.merge_column_types(),
            notes=_notes(unit, chosen),
            before_commit=check,
        )

    def _collect_raw(
        self,
        spark: SparkSession,
        unit: Unit,
        items: Mapping[datetime, Sequence[Item]] | Mapping[None, Sequence[Item]],
        columns: Columns,
    ) -> Collected:
        """Return one row for each file, with the label under which `items` lists it. A snapshot has no labels."""
        by_label: dict[datetime | None, Sequence[Item]] = {label: taken for label, taken in items.items()}  # noqa: C416
        landing = self._resolve_landing(unit)
        has_times = keeps_times(landing.folder, landing.archive)
        collected = rows_of_files(spark, by_label, columns, landing.folder, has_times=has_times)
        positions = {label: [_item_to_dict(item) for item in taken] for label, taken in by_label.items()}
        source = {label_of(label): of for label, of in positions.items() if label is not None}
        return replace(collected, source={"items": positions.get(None, source)})

    def _newest_items(self, unit: Unit, now: datetime | None) -> Sequence[Item]:
        """Return the newest files that are not later than `now`, by their stamps: the times in their names.

        If the names have no stamps, return all files of the glob.
        """
        names = _names_of(unit)
        if not names.supplier:
            items = self.arrivals(unit).items
            if not file_name_matching.has_stamps(names, items):
                return items
        return next(self._newest_first(unit, until=now), ())

    def _newest_first(self, unit: Unit, until: datetime | None = None) -> Iterator[tuple[Item, ...]]:
        names = _names_of(unit)
        return land.newest_first(self._resolve_landing(unit), names, now=datetime.now(UTC), until=until)

    def _collect_nothing(self, spark: SparkSession, unit: Unit, columns: Columns, zone: str) -> Collected:
        """Return a frame without rows. It has the columns of the newest file or, without one, the declared columns."""
        from pyspark.sql import functions as sf

        from waterclock.connectors.files.scanning import scan
        from waterclock.connectors.windowing import FILE_KEY

        columns, _ = split_origin_columns(columns)
        items = next(self._newest_first(unit), ())
        label = sf.lit("").alias(TIMELABEL)
        if items:
            scanned = scan(spark, [items[-1].path], self._resolve_read_options(unit), columns, zone)
            empty = scanned.frame.drop(FILE_KEY).select("*", label).limit(0)
            return Collected(empty, source={"items": []}, is_empty=True, close=scanned.close)
        fields = [sf.lit(None).cast(column.type or "STRING").alias(column.name) for column in columns.named]
        return Collected(spark.range(0).select(*fields, label), source={"items": []}, is_empty=True)

    def _change_check(self, unit: Unit, items: Sequence[Item], *, accepts_growth: bool = False) -> Callable[[], None]:
        from waterclock.connectors.files.changed_while_read import require_unchanged

        place = (self._resolve_landing(unit), _names_of(unit), items)
        return partial(require_unchanged, *place, accepts_growth=accepts_growth)

    def _resolve_read_options(self, unit: Unit) -> ReadOptions:
        landing = self._resolve_landing(unit)
        return replace(parse_read_options(unit.options), room=landing.archive / ROOM, landing=landing.folder)

    def _resolve_landing(self, unit: Unit) -> land.Landing:
        return resolve_landing(self.setting, unit)

    @staticmethod
    def _format_of(item: Item) -> str:
        kind = file_name_matching.format_of(item.name)
        return file_name_matching.FORMATS[kind[0]] if kind else ""


def _is_raw(unit: Unit) -> bool:
    return unit.options.get("format") == RAW


def _names_of(unit: Unit) -> file_name_matching.FileNaming:
    has_positions = bool(unit.options.get("positions"))
    stamp = str(unit.options.get("stamp") or "")
    return file_name_matching.parse_unit_path(
        unit.path, has_positions=has_positions, takes_all=_is_raw(unit), stamp=stamp
    )


def _notes(unit: Unit, items: Iterable[Item]) -> tuple[str, ...]:
    note = stamp_note(_names_of(unit), [item.name for item in items])
    return () if note is None else (note,)


def _item_to_dict(item: Item) -> dict[str, object]:
    return {"name": item.name, "stamp": item.stamp.isoformat(), "size": item.size}


def _with_file_labels(spark: SparkSession, frame: DataFrame, labels: Mapping[str, str]) -> DataFrame:
    from waterclock.connectors.files.source_file_columns import map_by_file
    from waterclock.connectors.windowing import FILE_KEY
    from waterclock.spark_sql import quote_name, sql_text

    names = [quote_name(name) for name in frame.columns if name != FILE_KEY]
    if len(set(labels.values())) == 1:
        return frame.selectExpr(*names, f"{sql_text(next(iter(labels.values())))} AS {TIMELABEL}")
    frame, found = map_by_file(spark, frame, labels)
    unknown = f"raise_error(concat('a file that was not requested was read: ', {FILE_KEY}))"
    return frame.selectExpr(*names, f"coalesce({found}, {unknown}) AS {TIMELABEL}")
