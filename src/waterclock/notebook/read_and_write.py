"""`wc.read` and `wc.write`: a project's connections for notebooks, with the options of COLLECT and PUBLISH."""

from __future__ import annotations

import atexit
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waterclock.cli.project_folder import project_folder
from waterclock.connectors.delivering import Delivered, Delivery, DeliveryOutcome
from waterclock.connectors.interface import Collected, SnapshotCollector, do_nothing
from waterclock.connectors.registry import capabilities
from waterclock.dpl.resolve.connections import ValidConnections
from waterclock.dpl.syntax.clause_parsing import parse_clause
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.dpl.syntax.statements import ParsedColumnList, ParsedOptions, ParsedUnit
from waterclock.engine.connections import Connections, connections_of
from waterclock.engine.query.notebook import sessions_to_keep
from waterclock.engine.spark.errors import to_error
from waterclock.engine.storage_access import reach_storage
from waterclock.errors import ProjectErrors, WaterclockError
from waterclock.files.filesystem import entry_path, files_below, remove_folder
from waterclock.flow.declarations import Column, Columns, Unit, Value
from waterclock.flow.enums import Batching, Mode
from waterclock.flow.origins import IN_ROWS
from waterclock.notebook.results import CommandResult
from waterclock.operations.project_opening import open_project
from waterclock.spark_sql import quote_name
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from rich.console import Console

    from waterclock.dpl.project import Project

_FOLDER = "notebook"
_MINUTE = timedelta(minutes=1)
_PARTIAL_DELIVERY = frozenset({"E847", "E848"})


@dataclass(frozen=True, slots=True, repr=False)
class WriteResult(CommandResult):
    """The rows that `wc.write` delivered to a destination."""

    unit: str
    delivered: Delivered

    @property
    def rows(self) -> int:
        """The number of delivered rows."""
        return self.delivered.rows

    def draw(self, to: Console) -> None:
        """Print the number of rows and the destination, and a note that no batch records them."""
        to.print(f"{self.rows} rows to {self.unit}, outside of the ledger: no batch knows of it")

    def to_json(self) -> dict[str, Any]:
        """Return the destination and the number of rows."""
        return {"destination": self.unit, "rows": self.rows}


def read(
    source: str,
    *,
    columns: str = "*",
    options: Mapping[str, Value] | None = None,
    zone: str = "UTC",
    project: str | Path | None = None,
    env: str | None = None,
) -> DataFrame:
    """Return the current content of a project's source, read like a COLLECT's snapshot. Nothing is stored in a table.

    The function uses the existing Spark session, or starts one and leaves it open. For files, it reads those of the
    newest stamp, archived or not.

    The source is read when the frame is evaluated. If the source keeps a resource open, or the session's zone is not
    UTC, the rows are copied first, into a folder of the storage that is removed when the process ends.

    Args:
        source: The source as after FROM: ``landing.faa.flights``, ``landing.`web/*.json` ``, ``shop.orders`` or
            ``shop QUERY 'SELECT ...'``.
        columns: The names and types of a column list, and `_source.file`, without rules.
        options: The options of OPTIONS.
        zone: The zone of times without an offset.
        project: The project's folder; without it, the current one or the nearest above that contains a project.
        env: The environment in `waterclock.toml`; without it, the project's default.

    Returns:
        The rows.

    Raises:
        ProjectErrors: The project, the source or the options have errors.
        WaterclockError: E339 for a source that has no snapshots; the source's own errors.

    Example:
        >>> wc.read("shop.orders").select("customer").distinct().count()
        2
    """
    loaded = open_project(project_folder(project), env)
    unit = _parse_unit(loaded, source, options or {}, is_source=True)
    column_list = _parse_columns(columns)
    reach_storage(loaded)
    sessions, connections = sessions_to_keep(loaded), connections_of(loaded)
    collector = connections.collector(unit.connection)
    kind = loaded.flow.connections[unit.connection].type
    if Batching.SNAPSHOT not in capabilities()[kind].collects or not isinstance(collector, SnapshotCollector):
        raise _usage_error(
            f"{unit} cannot be read so", f"{kind} gives no snapshot", "wc.resolve gives tables of a project"
        )
    spark = sessions.root()
    is_direct = str(spark.conf.get("spark.sql.session.timeZone")) in ("UTC", "Etc/UTC")
    own = spark if is_direct else sessions.own()
    opened = connections.resolve_unit(unit)
    try:
        collected = collector.read_snapshot(own, opened, column_list, zone)
        if is_direct and collected.close is do_nothing:
            return _rename_columns(collected.frame, columns)
        return _rename_columns(_copy_rows(loaded, spark, collected), columns)
    except Exception as error:
        if isinstance(error, WaterclockError):
            raise
        raise to_error(collector.explain(opened, column_list, error) or error, where=str(unit)) from error
    finally:
        if own is not spark:
            sessions.release(own)


def write(
    frame: DataFrame,
    destination: str,
    *,
    mode: str = "replace",
    key: str | Sequence[str] = (),
    options: Mapping[str, Value] | None = None,
    project: str | Path | None = None,
    env: str | None = None,
) -> WriteResult:
    """Write a frame to a project's destination like a PUBLISH: completely or not at all, in one transaction.

    The write is outside the ledger: no batch records it, and none becomes due because of it. Writing twice delivers
    twice. The rows are evaluated once, into a folder of the storage, and delivered from there.

    Args:
        frame: The rows.
        destination: The destination as after TO, such as `reports.orders`.
        mode: replace, append, or merge, which requires `key`. With append, the rows of each call get a `timelabel` of
            their own: the current minute, or the next unused one.
        key: The column or columns of the key.
        options: The options of OPTIONS.
        project: The project's folder; without it, the current one or the nearest above that contains a project.
        env: The environment in `waterclock.toml`; without it, the project's default.

    Returns:
        The number of delivered rows, and the destination.

    Raises:
        ProjectErrors: The project, the destination or the options have errors.
        WaterclockError: E339 for a destination that a PUBLISH of the flow writes, for a mode that the destination does
            not support, and in an environment that does not publish; the destination's own errors.

    Example:
        >>> wc.write(wc.resolve("marts.sums").drop("timelabel"), "reports.sums_by_hand").rows
        3
    """
    loaded = open_project(project_folder(project), env)
    unit = _parse_unit(loaded, destination, options or {}, is_source=False)
    how = _parse_mode(loaded, unit, mode, (key,) if isinstance(key, str) else tuple(key))
    _require_unpublished(loaded, unit)
    if TIMELABEL in (name.lower() for name in frame.columns):
        why = f"{TIMELABEL} names the batch that made a row, and no batch made these rows"
        raise _usage_error(f"the frame has a column {TIMELABEL}", why, f"frame.drop('{TIMELABEL}')")
    reach_storage(loaded)
    connections = connections_of(loaded)
    with _temporary_folder(loaded) as folder:
        try:
            frame.write.parquet(str(folder))
        except Exception as error:
            raise to_error(error, where=str(unit)) from error
        files = tuple(folder / one.path for one in files_below(folder) if one.path.endswith(".parquet"))
        return WriteResult(str(unit), _deliver_frame(loaded, connections, unit, frame, how, files))


def _deliver_frame(
    project: Project,
    connections: Connections,
    unit: Unit,
    frame: DataFrame,
    how: tuple[Mode, tuple[str, ...]],
    files: tuple[Path, ...],
) -> Delivered:
    deliverer, publish = connections.deliverer(unit.connection), f"notebook.{unit.path}"
    opened = connections.resolve_unit(unit)
    last = deliverer.last(opened, project.name, publish)
    now = datetime.now(UTC)
    label = now.replace(second=0, microsecond=0)
    while last is not None and label_of(label) <= last.label_text:
        label += _MINUTE
    delivery = Delivery(
        project=project.name,
        publish=publish,
        claim=max(int(now.timestamp() * 1_000_000), (last.claim if last else 0) + 1),
        label=label,
        label_text=label_of(label),
        mode=how[0],
        is_from_partitioned=False,
        columns=tuple((field.name, field.dataType.simpleString()) for field in frame.schema.fields),
        files=files,
        keys=how[1],
    )
    try:
        delivered = deliverer.deliver(opened, [delivery])[-1]
    except WaterclockError as error:
        if error.code in _PARTIAL_DELIVERY:  # no later run sends the remaining rows
            error.fix = "what was accepted stays there: write again only the rows that were not"
        raise
    if delivered.outcome is not DeliveryOutcome.DELIVERED:
        why = "another user wrote there at the same time, and their version is newer"
        raise _usage_error(f"{unit} was not written", why, "write again")
    return delivered


def _parse_unit(project: Project, text: str, options: Mapping[str, Value], *, is_source: bool) -> Unit:
    """Resolve the text of a source or destination, as in a statement. Raises ProjectErrors with all its errors."""
    source = SourceText("wc.read" if is_source else "wc.write", text)
    errors: list[WaterclockError] = []
    try:
        parsed: ParsedUnit = parse_clause("FROM" if is_source else "TO", text, source, variables={})
    except WaterclockError as error:
        raise ProjectErrors([error]) from None
    whole = source.span(0, max(len(text), 1))
    known = project.flow.connections
    systems = ValidConnections(known, frozenset(known), capabilities())
    unit = systems.unit(
        parsed, ParsedOptions(dict(options), dict.fromkeys(options, whole)), errors, is_source=is_source
    )
    if errors:
        raise ProjectErrors(errors)
    return unit


def _parse_columns(text: str) -> Columns:
    source = SourceText("wc.read", text)
    try:
        parsed: ParsedColumnList = parse_clause("COLUMNS", text, source, variables={})
    except WaterclockError as error:
        raise ProjectErrors([error]) from None
    return Columns(
        tuple(
            Column(one.name, one.span.place, one.declared.type)
            if one.metadata_field is None
            else Column(
                IN_ROWS[one.metadata_field.what],
                one.span.place,
                one.declared.type,
                metadata_field=one.metadata_field.what,
            )
            for one in parsed.columns
        ),
        parsed.is_open,
    )


def _rename_columns(frame: DataFrame, columns: str) -> DataFrame:
    """Rename and reorder the columns of a frame by the column list `columns`. Columns that it does not name follow."""
    parsed: ParsedColumnList = parse_clause("COLUMNS", columns, SourceText("wc.read", columns), variables={})
    new_names = {
        IN_ROWS[one.metadata_field.what] if one.metadata_field is not None else one.name: one.name
        for one in parsed.columns
    }
    others = [name for name in frame.columns if name not in new_names]
    selected = [
        f"{quote_name(name)} AS {quote_name(shown)}" for name, shown in new_names.items() if name in frame.columns
    ]
    return frame.selectExpr(*selected, *map(quote_name, others))


def _copy_rows(project: Project, spark: SparkSession, collected: Collected) -> DataFrame:
    """Copy rows to the storage, close the source's resources, and return a frame that reads the copy."""
    folder = entry_path(project.storage, _FOLDER, uuid.uuid4().hex)
    atexit.register(partial(remove_folder, folder))
    try:
        collected.frame.write.parquet(str(folder))
    finally:
        collected.close()
    return spark.read.parquet(str(folder)).selectExpr(*map(quote_name, collected.frame.columns))


@contextmanager
def _temporary_folder(project: Project) -> Iterator[Path]:
    folder = entry_path(project.storage, _FOLDER, uuid.uuid4().hex)
    try:
        yield folder
    finally:
        remove_folder(folder)


def _parse_mode(project: Project, unit: Unit, mode_name: str, keys: tuple[str, ...]) -> tuple[Mode, tuple[str, ...]]:
    kind = project.flow.connections[unit.connection].type
    modes = {mode.value: mode for mode in capabilities()[kind].publishes}
    mode = modes.get(mode_name.lower())
    if mode is None:
        raise _usage_error(
            f"{kind} takes no {mode_name}", f"it takes {', '.join(sorted(modes)) or 'nothing'}", "choose another"
        )
    if (mode is Mode.MERGE) != bool(keys):
        why = "MERGE finds the rows to replace by a key, and no other mode has one"
        raise _usage_error(f"{mode_name} {'with' if keys else 'without'} a key", why, "as in mode='merge', key='id'")
    return mode, keys


def _require_unpublished(project: Project, unit: Unit) -> None:
    for table in project.flow.tables.values():
        to = table.destination
        if to is not None and (to.connection, to.path.lower()) == (unit.connection, unit.path.lower()):
            why = f"PUBLISH {table.name} delivers to it, and knows what it has brought there"
            raise _usage_error(f"{unit} is not for a notebook", why, "write under another name")
    if not project.delivers_to(unit.connection):
        why = project.why_not_delivered(unit.connection)
        raise _usage_error(f"{unit} is not written", why, "name an environment that publishes, as in env='prod'")


def _usage_error(what: str, why: str, fix: str) -> WaterclockError:
    return WaterclockError("E339", what, why=why, fix=fix)
