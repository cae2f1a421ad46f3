"""Collects the response of an API for each row of a table (FOR EACH). Rows with a stored response are not requested.

The keys to request are first written to a temporary file, so that no Spark job waits for the API. Requests are
concurrent. Responses are stored page by page (`response_store`), and Spark reads these pages. Only the requests in
flight are in memory.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial, reduce
from typing import IO, TYPE_CHECKING, Any

from waterclock.connectors.column_matching import SourceColumn, map_column_types, match
from waterclock.connectors.interface import Collected, EachRequest
from waterclock.connectors.rest import frames, page_store
from waterclock.connectors.rest.addresses import OutsideApiError, fill, fill_path
from waterclock.connectors.rest.client import ApiRequest
from waterclock.connectors.rest.collection import ResourceNotFound, RestSource, endless_pages_error, request_page
from waterclock.connectors.rest.option_definitions import EachOptions, Resource, details_of
from waterclock.connectors.rest.page_store import Page, Series
from waterclock.connectors.rest.paging import PagePosition, first_position
from waterclock.connectors.rest.records import Body, value_at
from waterclock.connectors.rest.response_store import (
    ANSWERED_AT,
    KEY,
    NOTHING,
    ResponseStore,
    ResponseWriter,
    StoredResponse,
    answer_of,
    asked_member,
)
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import entry_path
from waterclock.flow.declarations import Columns
from waterclock.similar_names import did_you_mean
from waterclock.spark_sql import literal_path, quote_name, sql_text
from waterclock.timelabel.label import TIMELABEL
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_UNSUPPORTED_TYPES = ("array", "map", "struct", "binary", "variant", "interval")
_LINES = "_waterclock_lines"


@dataclass(frozen=True, slots=True)
class _EachContext:
    """The inputs of one collect: source, request, options and stored responses."""

    reading: RestSource
    request: EachRequest
    details: EachOptions
    answers: ResponseStore

    @property
    def members(self) -> Mapping[str, str]:
        """The JSON member of a stored line that contains the requested value, by requested column."""
        return {name: asked_member(at) for at, name in enumerate(self.request.parameters)}


def read_each(spark: SparkSession, reading: RestSource, request: EachRequest, columns: Columns, zone: str) -> Collected:
    """Collect the responses of an API for each row of each window.

    Raises E392 for a column that is missing or not a scalar, E840 to E845 for failed requests, E868 for a record that
    matches no requested row, E869 for a 404, E877 for a value that leads to another path, and E879 for a damaged page.
    """
    resource = reading.resource
    folder = page_store.unit_folder(entry_path(reading.setting.archive), reading.setting.name, reading.unit.path)
    spans = [
        resource.window_params.since,
        resource.window_params.until,
        resource.window_params.format,
        resource.window_params.zone,
    ]
    parts = [resource.method, resource.path, resource.params, resource.is_in_body, resource.rows, request.parameters]
    parts += [repr(resource.paging), spans if resource.window_params.since else []]
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
    context = _EachContext(
        reading, request, details_of(reading.unit.options), ResponseStore(folder / f"each={request.stored_as}", digest)
    )
    kept: list[tuple[Series, list[Page]]] = []
    keys: list[DataFrame] = []
    count = 0
    for window, rows in request.rows.items():
        of_window = _requested_keys(rows, context, window)
        series, requested = _fetch_responses(spark, context, window, of_window)
        kept.append((series, list(series.pages())))
        keys.append(of_window)
        count += requested
    return _collect_records(spark, context, kept, keys, columns, zone, count)


def _requested_keys(rows: DataFrame, context: _EachContext, window: Window) -> DataFrame:
    """Return the distinct keys to request for a window as the column `KEY`, with the label.

    A key is a JSON array of the requested values of a row. Rows with an empty or NULL value have none.
    """
    names = {name.lower(): name for name in rows.columns}
    texts = []
    for name in context.request.parameters:
        found = names.get(name.lower())
        if found is None:
            raise _missing_column_error(context, window, name, rows.columns)
        texts.append(_text_sql(quote_name(found), rows.schema[found].dataType.simpleString(), context, name))
    is_asked = " AND ".join(f"{text} <> ''" for text in texts)
    one = f"to_json(array({', '.join(texts)}))"
    return (
        rows.where(is_asked)
        .selectExpr(f"{one} AS {KEY}")
        .distinct()
        .selectExpr(KEY, f"{sql_text(window.label)} AS {TIMELABEL}")
    )


def _text_sql(value: str, kind: str, context: _EachContext, name: str) -> str:
    """Return SQL that converts a value to text for a request; instants are in UTC.

    Raises E392 for a nested or binary value.
    """
    if kind.startswith(_UNSUPPORTED_TYPES):
        raise WaterclockError(
            "E392",
            f"{name} has the type {kind.partition('<')[0]}, and cannot be put into a request",
            where=context.request.table,
            why="a request takes a single value",
            fix="make a column with one value in a TRANSFORM, and use that table in FOR EACH",
        )
    if kind == "timestamp":
        return f"concat(replace(CAST({value} AS STRING), ' ', 'T'), 'Z')"
    return f"CAST({value} AS STRING)"


def _fetch_responses(spark: SparkSession, context: _EachContext, window: Window, keys: DataFrame) -> tuple[Series, int]:
    """Request and store the responses for all keys of a window that have none yet.

    Return the series that contains all responses, and the number of keys that were requested.
    Raises the first failure, after the responses to the other requests in flight are stored.
    """
    now = datetime.now(UTC)
    series = context.answers.series(
        window.label,
        context.details.resume,
        now,
        is_done=window.start in context.request.done,
        is_anew=context.request.is_anew,
    )
    known = list(series.pages())
    for page in known:
        series.require_whole(page, f"{context.reading.unit}@{window.label}")
    writer = ResponseWriter(context.answers, series, len(known) + 1)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as waiting:
        count = 0
        for key, answer in _pending_keys(spark, context, series, known, keys, now):
            if answer is not None:
                writer.add(key, answer)
            else:
                waiting.write(f"{key}\n")
                count += 1
        writer.flush()
        waiting.seek(0)
        try:
            _request_all_keys(context, window, writer, waiting)
        finally:
            writer.flush()
    series.close()
    return series, count


def _pending_keys(
    spark: SparkSession, context: _EachContext, series: Series, known: Sequence[Page], keys: DataFrame, now: datetime
) -> Iterator[tuple[str, StoredResponse | None]]:
    """Yield each key without a response in the window's series, with a cached response of an earlier label or None."""
    if known:
        stored = _read_lines(spark, [series.path_of(page) for page in known], KEY)
        keys = keys.join(stored.select(KEY).distinct(), KEY, "left_anti")
    cache = None if context.request.is_anew else context.details.cache
    earliest = None if cache is None else cache.subtract_from(now, "UTC")
    files = [] if earliest is None else context.answers.files_since(earliest, now, series)
    if not files or earliest is None:
        for (key,) in keys.select(KEY).toLocalIterator():
            yield key, None
        return
    lines = spark.read.text([literal_path(file) for file in files]).selectExpr(
        "value",
        f"get_json_object(value, '$.{KEY}') AS {KEY}",
        f"get_json_object(value, '$.{ANSWERED_AT}') AS {ANSWERED_AT}",
        f"get_json_object(value, '$.{NOTHING}') AS {NOTHING}",
        "_metadata.file_path AS _file",
    )
    young = lines.where(f"{ANSWERED_AT} >= {sql_text(_instant(earliest))}")
    # an empty response is newer than an older response with records: the key is requested again
    whole = young.groupBy(KEY, ANSWERED_AT, "_file").agg(
        _sql(f"IF(max({NOTHING}) IS NULL, collect_list(value), NULL) AS {_LINES}")
    )
    newest = whole.groupBy(KEY).agg(_sql(f"max_by({_LINES}, struct({ANSWERED_AT}, _file)) AS {_LINES}"))
    for key, found in keys.join(newest, KEY, "left").select(KEY, _LINES).toLocalIterator():
        yield key, None if found is None else _restore_response(found)


def _instant(instant: datetime) -> str:
    return instant.isoformat(timespec="microseconds")


def _restore_response(lines: Sequence[str]) -> StoredResponse:
    """Build a stored response from lines that were stored for an earlier label."""
    ours = "_waterclock_"
    columns = dict.fromkeys(name for line in lines for name in json.loads(line) if not name.startswith(ours))
    return StoredResponse(tuple(lines), tuple(columns), len(lines))


def _request_all_keys(context: _EachContext, window: Window, writer: ResponseWriter, waiting: IO[str]) -> None:
    """Request all pending keys. After the first failure no new requests are sent; those in flight are still stored."""
    batches = _batches(waiting, context.details.batch, is_listed=not context.reading.resource.is_in_body)
    most, running, failed = context.details.in_flight, set[Future[Mapping[str, StoredResponse]]](), None
    with ThreadPoolExecutor(most, thread_name_prefix="each") as pool:
        while True:
            while failed is None and len(running) < most and (batch := next(batches, None)) is not None:
                running.add(pool.submit(_request_keys, context, window, batch))
            if not running:
                break
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                error = one.exception()
                if error is not None:
                    failed = failed or error
                    continue
                for key, answer in one.result().items():
                    writer.add(key, answer)
    if failed is not None:
        raise failed


def _batches(waiting: IO[str], most: int, *, is_listed: bool) -> Iterator[list[str]]:
    """Yield the keys of each request. A key with a comma is sent alone if a request separates keys by commas."""
    batch: list[str] = []
    for line in waiting:
        key = line.rstrip("\n")
        if most > 1 and is_listed and "," in json.loads(key)[0]:
            yield [key]
            continue
        batch.append(key)
        if len(batch) == most:
            yield batch
            batch = []
    if batch:
        yield batch


def _request_keys(context: _EachContext, window: Window, keys: Sequence[str]) -> Mapping[str, StoredResponse]:
    """Request some keys and the following pages of the response. Return the response for each key."""
    try:
        bodies = list(_request_pages(context, window, keys))
    except (ResourceNotFound, OutsideApiError) as error:
        if len(keys) > 1:  # some or all keys do not exist; a request for each shows which
            return {key: answer for one in keys for key, answer in _request_keys(context, window, [one]).items()}
        if not context.details.skips_not_found:
            outside = isinstance(error, OutsideApiError)
            raise (
                _outside_path_error(context, window, error) if outside else _not_found_error(context, window, keys[0])
            ) from None
        bodies = []
    found: dict[str, list[str]] = {key: [] for key in keys}
    columns = list(dict.fromkeys(name for body in bodies for name in body.columns))
    by_value = {json.loads(key)[0]: key for key in keys}
    for body in bodies:
        for line in body.lines:
            key = keys[0] if context.details.batch == 1 else by_value.get(_value_of(context, window, line))
            if key is None:
                raise _unrequested_record_error(context, window, line)
            found[key].append(line)
    now, names = datetime.now(UTC), list(context.members.values())
    return {key: answer_of(key, names, lines, columns, now) for key, lines in found.items()}


def _request_pages(context: _EachContext, window: Window, keys: Sequence[str]) -> Iterator[Body]:
    """Yield the pages of the response for these keys. Raises E843 if they do not end."""
    values = [json.loads(key) for key in keys]
    resource = _resource_for(context, values)
    reading = replace(context.reading, resource=resource)
    place: PagePosition | None = first_position(resource.paging)
    number, before, places = 1, 0, set[str]()
    while place is not None:
        place_key = json.dumps(place, sort_keys=True)
        if place_key in places:
            where = f"{reading.unit}@{window.label}, page {number}"
            raise endless_pages_error(reading, "it names as the next page one that was read before", where)
        places.add(place_key)
        # a 404 for a later page does not mean that the keys do not exist, as their first page was found
        adapt = partial(_adapt_request, context, values, accepts_not_found=number == 1)
        body, place = request_page(reading, place, window, number, before, adapt)
        yield body
        number, before = number + 1, before + len(body.lines)


def _resource_for(context: _EachContext, values: Sequence[Sequence[str]]) -> Resource:
    """Replace the column names in a resource's path and parameters by values, joined by commas in a batch.

    Raises OutsideApiError for a value that leads to another path.
    """
    resource = context.reading.resource
    by_name = {name: [each[at] for each in values] for at, name in enumerate(context.request.parameters)}
    in_params = {name: ",".join(of) for name, of in by_name.items()}
    params = tuple((name, fill(text, in_params)) for name, text in resource.params)
    return replace(resource, path=fill_path(resource.path, by_name), params=params)


def _adapt_request(
    context: _EachContext, values: Sequence[Sequence[str]], request: ApiRequest, *, accepts_not_found: bool
) -> ApiRequest:
    """Set whether a 404 is a valid response. In a JSON body, replace the placeholder of a batch by a list of values."""
    if context.details.batch > 1 and context.reading.resource.is_in_body and request.content is not None:
        body: dict[str, Any] = json.loads(request.content)
        place = f"{{{context.request.parameters[0]}}}"
        for name, text in context.reading.resource.params:
            if text == place:
                body[name] = [each[0] for each in values]
        request = replace(request, content=json.dumps(body).encode())
    return replace(request, accepts_not_found=accepts_not_found)


def _value_of(context: _EachContext, window: Window, line: str) -> str:
    """Return the value in a record that identifies the row that was requested. Raises E868 if it has none."""
    path = context.details.match
    found = value_at(json.loads(line, parse_int=str, parse_float=str), path)
    if isinstance(found, bool):
        return str(found).lower()
    if not isinstance(found, str):
        raise WaterclockError(
            "E868",
            f"a record of {context.reading.unit} does not show which requested row it belongs to",
            where=f"{context.reading.unit}@{window.label}",
            why=f"it does not have exactly one value at {'.'.join(path)}",
            fix="set match to the path of the requested value, or leave batch out",
        )
    return found


def _unrequested_record_error(context: _EachContext, window: Window, line: str) -> WaterclockError:
    return WaterclockError(
        "E868",
        f"{context.reading.unit} returned a record that was not requested",
        where=f"{context.reading.unit}@{window.label}",
        why=f"a record has {_value_of(context, window, line)!r} at {'.'.join(context.details.match)}, which is not "
        "among the values of its request",
        fix="check the parameter against the API's documentation, and set match to the path of the requested value",
    )


def _not_found_error(context: _EachContext, window: Window, key: str) -> WaterclockError:
    resource = _resource_for(context, [json.loads(key)])
    return WaterclockError(
        "E869",
        f"{context.reading.unit} does not know the key of a row of its table",
        where=f"{context.reading.unit}@{window.label}",
        why=f"{ApiRequest(resource.method, resource.path, {}).display_name} returned 404",
        fix="set not_found 'skip' if such a key means no row, or fix the table; then `waterclock retry`",
    )


def _outside_path_error(context: _EachContext, window: Window, error: Exception) -> WaterclockError:
    return WaterclockError(
        "E877",
        f"a row for {context.request.table} has an address outside of {context.reading.unit}",
        where=f"{context.reading.unit}@{window.label}",
        why=f"{error}; nothing was sent",
        fix="set OPTIONS (not_found 'skip') if that means no row, or fix the table; then `waterclock retry`",
    )


def _missing_column_error(context: _EachContext, window: Window, name: str, known: Sequence[str]) -> WaterclockError:
    return WaterclockError(
        "E392",
        f"the FOR EACH table of {context.request.table} has no column {name}",
        where=f"{context.reading.unit}@{window.label}",
        why=f"it has {', '.join(known)}",
        fix=did_you_mean(name, known, otherwise="name one of its columns in braces"),
    )


def _collect_records(
    spark: SparkSession,
    context: _EachContext,
    kept: Sequence[tuple[Series, Sequence[Page]]],
    keys: Sequence[DataFrame],
    columns: Columns,
    zone: str,
    count: int,
) -> Collected:
    """Build the result of the collect: the records for all keys in the table now, with labels and requested values."""
    all_pages = [(series, page) for series, of_one in kept for page in of_one]
    paths = [series.path_of(page) for series, page in all_pages if page.rows]
    archive = str(entry_path(context.reading.setting.archive))
    source = {
        "path": context.reading.resource.path,
        "asked": count,
        "kept": [str(series.folder).removeprefix(archive).lstrip("/") for series, _ in kept],
    }
    types = {name.lower(): kind for name, kind in _parameter_types(context)}
    own = {name.lower(): name for name in context.request.parameters}
    seen = list(dict.fromkeys(name for _, page in all_pages for name in page.columns if name.lower() not in own))
    if seen:
        page_store.add_seen_columns(context.answers.folder, seen)
    beyond = [name for name in page_store.read_seen_columns(context.answers.folder) if name.lower() not in own]
    known = [SourceColumn(name, types[lower]) for lower, name in own.items()]
    known += [SourceColumn(name) for name in dict.fromkeys((*seen, *beyond))]
    if not paths:
        return _build_empty_result(spark, context, known, columns, source, is_known=bool(beyond))
    matched = match(columns, known, where=str(context.reading.unit))
    taken = [replace(one, is_typed=True) if one.source.lower() in own else one for one in matched.taken]
    frame = frames.frame_of(
        spark,
        paths,
        [*known, SourceColumn(KEY), SourceColumn(NOTHING)],
        taken,
        zone,
        context.reading.resource.epoch,
        by_window=True,
        inside={**context.members, KEY: KEY, NOTHING: NOTHING},
        chosen=partial(_filter_requested_lines, reduce(lambda one, other: one.unionByName(other), keys)),
    )
    labelled = frame.withColumnRenamed(frames.ASKED_BY, TIMELABEL)
    return Collected(labelled, left_out=matched.left_out, source=source, source_columns=map_column_types(known))


def _filter_requested_lines(keys: DataFrame, lines: DataFrame) -> DataFrame:
    """Keep only lines with a record whose key is still in the table."""
    requested = keys.selectExpr(f"{KEY} AS _key", f"{TIMELABEL} AS _label")
    is_asked = _sql(f"_key = {KEY} AND _label = {frames.ASKED_BY}")
    return lines.where(f"{NOTHING} IS NULL").join(requested, is_asked, "left_semi")


def _parameter_types(context: _EachContext) -> Iterator[tuple[str, str]]:
    """Yield the columns whose values are requested, with their types in the FOR EACH table."""
    rows = next(iter(context.request.rows.values()))
    names = {name.lower(): name for name in rows.columns}
    for name in context.request.parameters:
        yield name, rows.schema[names[name.lower()]].dataType.simpleString()


def _build_empty_result(
    spark: SparkSession,
    context: _EachContext,
    known: Sequence[SourceColumn],
    columns: Columns,
    source: Mapping[str, Any],
    *,
    is_known: bool,
) -> Collected:
    """Build a result without rows. It has the columns of earlier collects or, if there are none, the declared ones."""
    left_out: tuple[str, ...] = ()
    types = {column.name: column.type or "STRING" for column in columns.named if column.metadata_field is None}
    if is_known:
        matched = match(columns, known, where=str(context.reading.unit))
        types, left_out = {taken.name: taken.type for taken in matched.taken}, matched.left_out
    elif columns.is_open:
        declared_names = {name.lower() for name in types}
        types |= {one.name: one.type or "STRING" for one in known if one.name.lower() not in declared_names}
    frame = frames.empty_frame(spark, types, has_label=True)
    return Collected(frame, left_out=left_out, source=source, is_empty=True, source_columns=map_column_types(known))


def _read_lines(spark: SparkSession, files: Sequence[str], *names: str) -> DataFrame:
    ddl = ", ".join(f"{quote_name(name)} STRING" for name in names)
    return spark.read.schema(ddl).json([literal_path(file) for file in files])


def _sql(text: str) -> Any:
    from pyspark.sql import functions as sf

    return sf.expr(text)
