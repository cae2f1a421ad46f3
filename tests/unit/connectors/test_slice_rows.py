from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.connectors import slice_rows
from waterclock.connectors.slice_rows import batches_of, instant_text, to_portable_types

_WHOLE = st.datetimes().map(lambda at: at.replace(microsecond=0))
_TIMES = st.one_of(st.lists(st.none() | _WHOLE, max_size=4), st.lists(st.none() | st.datetimes(), max_size=4))


@given(_TIMES, st.sampled_from(["", "Z"]))
def test_times_are_written_as_one_by_one(times: list[datetime | None], mark: str) -> None:
    told = [None if at is None else instant_text(at) for at in times]
    assert to_portable_types(pa.array(times, pa.timestamp("us")), "TIMESTAMP_NTZ", mark=mark).to_pylist() == told
    instants = pa.array(times, pa.timestamp("us", "UTC"))
    assert to_portable_types(instants, "TIMESTAMP", mark=mark).to_pylist() == [
        None if it is None else it + mark for it in told
    ]


@pytest.mark.parametrize("unit", ["s", "ms", "ns"])
def test_times_of_any_unit_and_zone_are_written_in_utc(unit: str) -> None:
    noon = pa.array([datetime(2013, 1, 1, 12, tzinfo=UTC)], pa.timestamp(unit, "America/New_York"))
    assert to_portable_types(noon, "TIMESTAMP", mark="Z").to_pylist() == ["2013-01-01 12:00:00Z"]


def test_batches_of_wide_rows_have_fewer_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slice_rows, "_BATCH_BYTES", 100_000)
    texts = pa.table({"text": [f"{at:06}" * 1000 for at in range(50)]})
    for at in range(2):
        pq.write_table(texts, tmp_path / f"{at}.parquet", use_dictionary=False)
    pq.write_table(texts.slice(0, 0), tmp_path / "empty.parquet")
    read = list(batches_of(sorted(tmp_path.iterdir()), ["text"]))
    assert max(batch.num_rows for batch in read) == 16
    assert pa.Table.from_batches(read)["text"].to_pylist() == texts["text"].to_pylist() * 2
