"""Batches of tables with CONTINUOUS end the running ticks, and do not depend on the tables of open windows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from tests.ledgers import day
from tests.unit.engine.fakes import collect
from waterclock.engine.batch.open_windows import end_ticks
from waterclock.engine.run_context import RunContext
from waterclock.storage.commit.speed_tables import end_running_ticks, read_state
from waterclock.storage.lake import Lake
from waterclock.storage.log.delta_log import commit_file
from waterclock.storage.log.open_tables import forget_open_table
from waterclock.timelabel.duration import Duration
from waterclock.timelabel.intervals import IntervalSet

COLUMNS = StructType([StructField("timelabel", StringType()), StructField("user", StringType())])
TABLE = replace(collect("web.clicks"), continuous=Duration(10, "SECOND"))


@pytest.mark.parametrize("damage", ["none", "commit", "file"])
def test_a_damaged_table_of_open_windows_does_not_fail_the_batch(tmp_path: Path, damage: str) -> None:
    lake, reported = Lake(str(tmp_path)), list[str]()
    work = cast("Any", SimpleNamespace(
        lake=lake,
        flow=SimpleNamespace(project="tiny", order=[TABLE.name], tables={TABLE.name: TABLE}),
        ledger=SimpleNamespace(reads=SimpleNamespace(covered_windows=lambda _: IntervalSet.from_intervals([]))),
        report_once=reported.append,
    ))  # fmt: skip
    folder = lake.folder("web.spd_clicks")
    if damage == "file":
        Path(folder).parent.mkdir(parents=True)
        Path(folder).write_text("no folder")
    else:
        end_running_ticks(folder, COLUMNS, table="web.spd_clicks", project="tiny")
    if damage == "commit":
        Path(commit_file(folder, 1)).write_text("{not")
        forget_open_table(folder)
    end_ticks(cast("RunContext", work), TABLE, [day(1)])
    assert [text.partition(":")[0] for text in reported] == (
        [] if damage == "none" else ["running ticks of web.clicks could not be ended"]
    )
    if damage == "none":
        assert read_state(folder).head == 2
