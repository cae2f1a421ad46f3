"""Reads an API page by page into files, which Spark then reads. Only one page is in memory at a time.

Each window is requested separately, with its start and end in the API's parameters. A collect that continues after an
interruption reuses its pages, even if it collects other windows too. An API may return records outside of the requested
window, if its end is inclusive or it takes dates instead of times. These are dropped, because the request for their own
window returns them too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from waterclock.connectors.column_matching import SourceColumn, map_column_types, match, missing_time_column_error
from waterclock.connectors.interface import Collected, Setting, WindowRequest
from waterclock.connectors.rest import frames, page_store
from waterclock.connectors.rest.addresses import OutsideApiError
from waterclock.connectors.rest.client import Api, ApiRequest
from waterclock.connectors.rest.option_definitions import Resource, WindowParams
from waterclock.connectors.rest.page_store import Page, Series
from waterclock.connectors.rest.paging import PagePosition, first_position, next_position, params_at
from waterclock.connectors.rest.records import Body, NoRecords, body_of
from waterclock.connectors.rest.response_headers import Response
from waterclock.connectors.windowing import assign_windows
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import entry_path
from waterclock.flow.declarations import Columns, Unit
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_EQUAL_PAGES = 3  # after so many equal pages in a row, the source is assumed to ignore the page parameter
_MOST_EMPTY = 1000


@dataclass(frozen=True, slots=True)
class RestSource:
    """The source of a collect: the API, the unit, and the resource to request.

    Pages are stored in the archive of `setting`.
    """

    api: Api
    setting: Setting
    unit: Unit
    resource: Resource

    @property
    def columns_folder(self) -> Path:
        """The folder with the list of all columns in the responses to this request so far."""
        resource, archive = self.resource, entry_path(self.setting.archive)
        parts = [resource.method, resource.path, resource.params, resource.rows]
        return page_store.columns_folder(archive, self.setting.name, self.unit.path, parts)


def read_windows(
    spark: SparkSession, reading: RestSource, request: WindowRequest, columns: Columns, zone: str
) -> Collected:
    """Collect the records of windows from an API.

    Raises E805 if the time column does not exist, and E840 to E845 for failed requests.
    """
    is_asked = bool(reading.resource.window_params.since)
    found = _window_series(reading, request) if is_asked else [(_common_series(reading, request.windows[-1]), None)]
    with _close_on_failure(found):
        read = _read_pages(reading, found)
        time = request.time_column
        if read.known and not any(each.name.lower() == time.lower() for each in read.known):
            raise missing_time_column_error(time, [each.name for each in read.known], where=str(reading.unit))
        if not read.rows:
            return _build_empty_result(spark, reading, columns, read, has_label=True)
        matched = match(columns, read.known, where=str(reading.unit))
        frame = frames.frame_of(
            spark, read.paths, read.known, matched.taken, zone, reading.resource.epoch, time=time, by_window=is_asked
        )
        labelled, set_aside = assign_windows(frame, request.windows, ())
        if is_asked:
            labelled = frames.keep_own_window(labelled)
        return read.build_result(labelled, set_aside=set_aside, left_out=matched.left_out)


def read_snapshot(spark: SparkSession, reading: RestSource, columns: Columns, zone: str) -> Collected:
    """Collect all records of an API. As pages are requested one after the other, they can be of different moments."""
    found = [(_series_of(reading, None, reuses_complete=False), None)]
    with _close_on_failure(found):
        read = _read_pages(reading, found)
        if not read.rows:
            return _build_empty_result(spark, reading, columns, read, has_label=False)
        matched = match(columns, read.known, where=str(reading.unit))
        frame = frames.frame_of(spark, read.paths, read.known, matched.taken, zone, reading.resource.epoch)
        return read.build_result(frame, left_out=matched.left_out)


def columns_now(reading: RestSource) -> tuple[str, ...]:
    """Request the first page, without a window, and return the columns of its records."""
    return request_page(reading, first_position(reading.resource.paging), None, 1)[0].columns


@dataclass(frozen=True, slots=True)
class _CollectedPages:
    """The pages of a collect: their files, the row count, the known columns, and facts for the manifest."""

    paths: Sequence[str]
    rows: int
    known: Sequence[SourceColumn]
    source: Mapping[str, Any]
    close: Callable[[], None]

    def build_result(self, frame: DataFrame, **facts: Any) -> Collected:
        """Build the result of the collect. It closes the series before the commit, so that no later batch reuses it."""
        seen = map_column_types(self.known)
        return Collected(
            frame, source=self.source, close=self.close, before_commit=self.close, source_columns=seen, **facts
        )


_SeriesList = Sequence[tuple[Series, Window | None]]


def _window_series(reading: RestSource, request: WindowRequest) -> _SeriesList:
    """Return the series of pages of each window."""
    return [(_series_of(reading, window), window) for window in request.windows]


def _common_series(reading: RestSource, newest: Window) -> Series:
    """Return one series for all windows, for an API that takes no window. It is named after the newest window's end."""
    return _series_of(reading, None, until=newest.end.isoformat())


def _series_of(reading: RestSource, window: Window | None, *, until: str = "", reuses_complete: bool = True) -> Series:
    resource = reading.resource
    parts = [
        resource.method,
        resource.path,
        resource.params,
        _window_params(resource.window_params, window),
        resource.rows,
    ]
    parts += [repr(resource.paging), *([until] if until else [])]
    label = window.label if window else ""
    archive = entry_path(reading.setting.archive)
    folder = page_store.folder_of(archive, reading.setting.name, reading.unit.path, label, parts)
    return page_store.open_series(folder, resource.resume, reuses_complete=reuses_complete)


@contextmanager
def _close_on_failure(found: _SeriesList) -> Iterator[None]:
    """Close the series of pages if the block raises a permanent error, so that a retry requests all pages again.

    After a transient error a retry continues the series.
    """
    try:
        yield
    except WaterclockError as error:
        if not error.transient:
            _close_all(found)
        raise


def _close_all(found: _SeriesList) -> None:
    for series, _ in found:
        series.close()


def _read_pages(reading: RestSource, found: _SeriesList) -> _CollectedPages:
    """Read the stored pages of all series, and request the missing ones."""
    read = [list(_read_series(reading, series, window)) for series, window in found]
    rows = sum(page.rows for of_one in read for page in of_one)
    columns = list(dict.fromkeys(column for of_one in read for page in of_one for column in page.columns))
    archive = str(entry_path(reading.setting.archive))
    return _CollectedPages(
        paths=[one.path_of(page) for (one, _), of_one in zip(found, read, strict=True) for page in of_one if page.rows],
        rows=rows,
        known=_known_columns(reading, columns, rows),
        source={
            "path": reading.resource.path,
            "pages": sum(map(len, read)),
            "rows": rows,
            "kept": [str(one.folder).removeprefix(archive).lstrip("/") for one, _ in found],
        },
        close=lambda: _close_all(found),
    )


def _read_series(reading: RestSource, series: Series, window: Window | None) -> Iterator[Page]:
    """Yield the stored pages of a series, then request, store and yield the following ones.

    Raises E843 for pages that do not end, E879 for a damaged page.
    """
    place: PagePosition | None = first_position(reading.resource.paging)
    before, number, digests, empty = 0, 0, [""] * _MOST_EQUAL_PAGES, 0
    places: set[str] = set()
    kept = series.pages()
    while place is not None:
        where = f"{reading.unit}{f'@{window.label}' if window else ''}, page {number + 1}"
        key = json.dumps(place, sort_keys=True)
        if key in places:
            raise endless_pages_error(reading, "it names as the next page one that was read before", where)
        places.add(key)
        page = next(kept, None)
        if page is not None:
            series.require_whole(page, where)
        else:
            page = _request_and_store_page(reading, series, place, window, number + 1, before)
        digests = [*digests[1:], page.digest if page.rows else ""]
        empty = 0 if page.rows else empty + 1
        if empty == _MOST_EMPTY:
            raise endless_pages_error(
                reading, f"{empty} pages in a row were empty, and each announces another page", where
            )
        if digests[0] and len(set(digests)) == 1 and reading.resource.paging.style in {"page", "offset"}:
            raise endless_pages_error(
                reading, f"it returned the same page {_MOST_EQUAL_PAGES} times: it may not support the parameter", where
            )
        yield page
        before, number, place = before + page.rows, page.number, page.next


def _request_and_store_page(
    reading: RestSource, series: Series, place: PagePosition, window: Window | None, number: int, before: int
) -> Page:
    begun = datetime.now(UTC)
    body, following = request_page(reading, place, window, number, before)
    content = "".join(f"{line}\n" for line in body.lines).encode()
    digest = hashlib.sha256(content).hexdigest()
    page = Page(number, "", len(body.lines), body.columns, digest, place, following, begun.isoformat())
    return series.keep(page, content)


class ResourceNotFound(Exception):
    """Raised for a response 404 or 410 to a request that accepts it (`ApiRequest.accepts_not_found`)."""


def request_page(
    reading: RestSource,
    place: PagePosition,
    window: Window | None,
    number: int,
    before: int = 0,
    adapt: Callable[[ApiRequest], ApiRequest] = lambda request: request,
) -> tuple[Body, PagePosition | None]:
    """Request the page at a position. Return its body and the position of the next page, None after the last page.

    `adapt` changes the request before it is sent. `before` is the number of records on earlier pages.
    Raises ResourceNotFound, E842 if the response does not have the declared structure, E843 if its link is not below
    the API's url, and the errors of `Api.request`.
    """
    resource, api = reading.resource, reading.api
    where = f"{reading.unit}{f'@{window.label}' if window else ''}, page {number}"
    request = adapt(_build_request(resource, place, window))

    def read(answer: Response) -> tuple[Body, PagePosition | None]:
        if answer.is_not_found:
            raise ResourceNotFound
        body = Body((), (), None) if answer.status == 204 else body_of(answer.content, resource.rows)
        if answer.status == 204:
            return body, None
        return body, next_position(resource.paging, place, body, before=before, link=answer.next_link)

    try:
        body, following = api.request(request, where=where, read=read)
    except NoRecords as error:
        raise WaterclockError(
            "E842",
            f"a response of {reading.setting.name} does not have the declared structure",
            where=where,
            why=f"{request.display_name}: {error}",
            fix="set rows to the path of the records, such as data.items, and check the options for the next page",
        ) from None
    if following and "link" in following:
        try:
            following = {"link": api.resolve_link(following["link"], request)}
        except OutsideApiError as error:
            raise endless_pages_error(reading, f"the link to the next page is refused: {error}", where) from None
    return body, following


def _build_request(resource: Resource, place: PagePosition, window: Window | None) -> ApiRequest:
    if "link" in place:
        following = ApiRequest(resource.method, resource.path, {}, *_json_body(resource, {}))
        return replace(following, link=str(place["link"]))
    params = {
        **dict(resource.params),
        **_window_params(resource.window_params, window),
        **params_at(resource.paging, place),
    }
    if resource.is_in_body:
        return ApiRequest(resource.method, resource.path, {}, *_json_body(resource, params))
    return ApiRequest(resource.method, resource.path, params, *_json_body(resource, {}))


def _json_body(resource: Resource, params: Mapping[str, str]) -> tuple[bytes] | tuple[()]:
    if resource.method != "POST":
        return ()
    return (json.dumps({name: _json_parameter(value) for name, value in params.items()}).encode(),)


def _json_parameter(value: str) -> Any:
    """Convert the text of a number to a number for a JSON body, as APIs may reject page numbers in quotes."""
    is_number = value.isascii() and value.isdigit() and (value == "0" or not value.startswith("0"))
    return int(value) if is_number else value


def _window_params(names: WindowParams, window: Window | None) -> dict[str, str]:
    """Return the parameters that request a window. A time that the API takes less exactly is rounded outwards."""
    if window is None or not names.since:
        return {}
    params = {names.since: time_text(window.start, names)}
    if names.until:
        params[names.until] = time_text(window.end, names, is_end=True)
    return params


def time_text(instant: datetime, names: WindowParams, *, is_end: bool = False) -> str:
    """Format an instant as the API expects it. With `is_end`, a pattern that omits seconds or hours rounds up."""
    if names.format in {"seconds", "milliseconds"}:
        return str(int(instant.timestamp()) * (1000 if names.format == "milliseconds" else 1))
    local = instant.astimezone(ZoneInfo(names.zone))
    if names.format == "iso":
        return local.isoformat().replace("+00:00", "Z")
    pattern = "%Y-%m-%d" if names.format == "date" else names.format
    if "%z" not in pattern.lower():
        local = _widen_bound(local, is_end=is_end)
    text = local.strftime(pattern)
    if not is_end or (local - timedelta(seconds=1)).strftime(pattern) != text:
        return text
    # the pattern truncates the end: round up to the next minute, hour or day
    for step in (timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)):
        later = (local + step).strftime(pattern)
        if later != text:
            return later
    return text


def _widen_bound(local: datetime, *, is_end: bool) -> datetime:
    """Convert a window's bound to a local time without an offset, such that the whole window is requested.

    In a repeated hour the API may interpret the local time as either of two instants. Neither may be later than the
    start of the window or, with `is_end`, earlier than its end.
    """
    offsets = [local.replace(fold=fold).utcoffset() or timedelta(0) for fold in (0, 1)]
    if offsets[0] == offsets[1]:
        return local
    return (local.astimezone(UTC) + (max(offsets) if is_end else min(offsets))).replace(tzinfo=None)


def _known_columns(reading: RestSource, seen: Sequence[str], rows: int) -> list[SourceColumn]:
    """Return the columns of these pages and of earlier collects, because records may omit empty fields."""
    if rows:
        page_store.add_seen_columns(reading.columns_folder, seen)
    earlier = page_store.read_seen_columns(reading.columns_folder)
    if not rows and not earlier:
        try:
            earlier = columns_now(reading)
        except WaterclockError:
            earlier = ()  # without records, the columns stay unknown
    return [SourceColumn(name) for name in dict.fromkeys((*seen, *earlier))]


def _build_empty_result(
    spark: SparkSession, reading: RestSource, columns: Columns, read: _CollectedPages, *, has_label: bool
) -> Collected:
    """Build a result without rows. It has the known columns of the source or, if none are known, the declared ones."""
    left_out: tuple[str, ...] = ()
    types = {column.name: column.type or "STRING" for column in columns.named if column.metadata_field is None}
    if read.known:
        matched = match(columns, read.known, where=str(reading.unit))
        types, left_out = {taken.name: taken.type for taken in matched.taken}, matched.left_out
    frame = frames.empty_frame(spark, types, has_label=has_label)
    return read.build_result(frame, left_out=left_out, is_empty=True)


def endless_pages_error(reading: RestSource, why: str, where: str) -> WaterclockError:
    """Build the error for pages that never end, or whose link to the next page is refused."""
    return WaterclockError(
        "E843",
        f"the pages of {reading.unit} do not end",
        where=where,
        why=why,
        fix="check the options for paging: paging, page_param, next; then run again",
    )
