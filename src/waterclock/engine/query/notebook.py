"""Returns a project's tables to a notebook, all as of one tick and as known at one instant."""

from __future__ import annotations

import warnings
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, overload

from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import Project, load_project
from waterclock.engine.damage import require_log
from waterclock.engine.query.query import require_table
from waterclock.engine.query.ticks import RequestedTick, list_limitations, resolve_tick
from waterclock.engine.query.view_rows import frame_at_moment
from waterclock.engine.query.views import find_viewed_table, table_of_closed_view
from waterclock.engine.reads.hidden import drop_columns
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_opening import open_workplace
from waterclock.engine.spark.session import Sessions
from waterclock.engine.spark.settings import settings_of
from waterclock.timelabel.instant import utc_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def sessions_to_keep(project: Project, also: Project | None = None) -> Sessions:
    """Return sessions on this process's Spark session, or on one that is started when needed and is not stopped.

    A session that is started can read the storage of the environment `also`, too.
    """
    return Sessions(work_folder=project.work_folder / "spark", settings=settings_of(project, also=also))


@overload
def resolve(
    table: str,
    as_of: str = "latest",
    *,
    known_at: datetime | None = None,
    partial: bool = False,
    hidden: bool = False,
    project: str | Path = ".",
    env: str | None = None,
) -> DataFrame: ...
@overload
def resolve(
    table: list[str] | tuple[str, ...],
    as_of: str = "latest",
    *,
    known_at: datetime | None = None,
    partial: bool = False,
    hidden: bool = False,
    project: str | Path = ".",
    env: str | None = None,
) -> tuple[DataFrame, ...]: ...
def resolve(
    table: str | list[str] | tuple[str, ...],
    as_of: str = "latest",
    *,
    known_at: datetime | None = None,
    partial: bool = False,
    hidden: bool = False,
    project: str | Path = ".",
    env: str | None = None,
) -> DataFrame | tuple[DataFrame, ...]:
    """Return the rows of a table, or of its view, as of a tick, with the column `timelabel`.

    During a restatement, the rows are as known at the last instant at which all tables agreed; a warning names the
    batches that were not made again yet. An existing Spark session is used; otherwise one is started and left open.
    The call costs a few ledger queries; rows are read when a frame is evaluated.

    Args:
        table: The table or view; or a list of them, which are all as of one tick and as known at one instant, so that
            they can be joined.
        as_of: An instant (UTC if it has no offset), a timelabel, `table@label` or `latest`. `table@label` is the end
            of that window; `latest` is the newest tick at which all the tables are settled.
        known_at: Limits the rows to those committed by then, by the ledger's clock.
        partial: True leaves missing labels out; a warning names them.
        hidden: True includes HIDDEN columns.
        project: The project's folder.
        env: The environment in `waterclock.toml`; without it, the project's default.

    Returns:
        The rows; for a list of tables a tuple of frames in the same order.

    Raises:
        ProjectErrors: The project has errors.
        WaterclockError: E511 for an unknown table, E706 for a destination, E518 and E521 to E523 if the tables have
            no content as of the tick, E640 if it is not kept any more.

    Example:
        >>> sums = wc.resolve("marts.sums", as_of="2026-01-03")
        >>> sums.select("timelabel", "total").orderBy("timelabel").collect()
        [Row(timelabel='20260101000000', total=10), Row(timelabel='20260102000000', total=20)]
    """
    names = [table] if isinstance(table, str) else list(table)
    if not names:
        return ()
    loaded = load_project(Path(project), env=env, capabilities=capabilities())
    sessions = sessions_to_keep(loaded)
    with open_workplace(loaded, sessions=sessions, is_question=True) as work:
        names = [table_of_closed_view(work.flow, name) for name in names]
        for name in names:
            require_log(work, require_table(work.flow, find_viewed_table(work.flow, name) or name).name)
        known = None if known_at is None else utc_of(known_at)
        moment = resolve_tick(work, names, RequestedTick(as_of, known, is_partial=partial))
        for limitation in list_limitations(moment):
            warnings.warn(limitation, stacklevel=2)
        spark = sessions.root()
        frames = tuple(
            _select_columns(work, frame_at_moment(work, spark, name, moment), name, hidden) for name in names
        )
    return frames[0] if isinstance(table, str) else frames


def _select_columns(work: RunContext, rows: DataFrame, name: str, hidden: bool) -> DataFrame:  # noqa: FBT001 - as `resolve` passes it
    return (
        rows
        if hidden
        else drop_columns(rows, work.flow.tables[find_viewed_table(work.flow, name) or name].hidden_columns)
    )
