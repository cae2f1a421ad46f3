"""The tables of open windows: what a damaged log does."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from waterclock.errors import WaterclockError
from waterclock.storage.commit.speed_tables import end_running_ticks, read_history, read_state
from waterclock.storage.log.delta_log import commit_file

COLUMNS = StructType([StructField("timelabel", StringType()), StructField("user", StringType())])


@pytest.mark.parametrize("content", [b"{not", b"\xff\xfe\x00"])
def test_a_damaged_log_is_reported_with_its_folder(tmp_path: Path, content: bytes) -> None:
    folder = str(tmp_path / "spd_clicks")
    end_running_ticks(folder, COLUMNS, table="web.spd_clicks", project="tiny")
    Path(commit_file(folder, 1)).write_bytes(content)
    for read in (read_state, read_history):
        with pytest.raises(WaterclockError, match="E643") as raised:
            read(folder)
        assert folder in (raised.value.fix or "")
