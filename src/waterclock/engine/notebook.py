"""Gives a project's tables to a notebook, as of a tick."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.connectors import capabilities
from waterclock.dpl import load_project
from waterclock.engine.as_of import frame_as_of
from waterclock.engine.damage import require_log
from waterclock.engine.moments import AsOf, moment_of
from waterclock.engine.opening import open_workplace
from waterclock.engine.query import require_table
from waterclock.engine.session import Sessions
from waterclock.timelabel import utc_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def resolve(
    table: str,
    as_of: str = "latest",
    *,
    known_at: datetime | None = None,
    project: str | Path = ".",
    env: str | None = None,
) -> DataFrame:
    """Give a table of a project as of a tick, `timelabel` among its columns; grain: the table's.

    `as_of` is an instant (UTC where it has no offset), a timelabel, `table@label` (the end of its window) or `latest`,
    the newest tick at which the table is settled. `known_at`: only what was committed by then counts, by the ledger's
    clock. While the table is being restated, it is what was known before. Takes the Spark session that is there, else
    starts one and leaves it open. Cost: one look at the ledger; rows are read when the frame is.

    Raises ProjectErrors for a project with errors; WaterclockError E511 for a table that is not there, E706 for a
    destination, E521 to E523 where the table has no content as of the tick, E640 where it is not kept any more.
    """
    loaded = load_project(Path(project), env=env, capabilities=capabilities())
    sessions = Sessions(work_folder=Path(loaded.storage) / "spark")
    with open_workplace(loaded, sessions=sessions, is_question=True) as work:
        declared = require_table(work.flow, table)
        require_log(work, table)
        known = None if known_at is None else utc_of(known_at)
        moment = moment_of(work, [table], AsOf(as_of, known))
        return frame_as_of(work, sessions.root(), declared, moment.tick, known_at=moment.known_at)
