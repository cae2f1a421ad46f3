"""A file column named `_metadata`, like Spark's own column with the file of a row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.tiny import Tiny, day

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = [{"id": 1, "_metadata": "a"}, {"id": 2, "_metadata": "b"}]


def drop(tiny: Tiny, kind: str) -> None:
    landing = tiny.root / "landing" / "new" / "acme" / f"from_{kind}"
    landing.mkdir(parents=True)
    file = landing / f"acme_from_{kind}_2020_01_01_23_59_59.{kind.split('_', maxsplit=1)[0]}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), file)
    elif kind == "xml":
        rows = "".join(f"<row><id>{row['id']}</id><_metadata>{row['_metadata']}</_metadata></row>" for row in ROWS)
        file.write_text(f"<rows>{rows}</rows>")
    elif kind == "json_nested":
        file.write_text(json.dumps({"_metadata": ROWS}))
    else:
        file.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))


def test_it_is_a_column_like_any_other(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path / "shop", spark)
    options = {"xml": " OPTIONS (rows 'row')", "json_nested": " OPTIONS (rows '_metadata')"}
    kinds = ["parquet", "json", "xml", "json_nested"]
    for kind in kinds:
        drop(tiny, kind)
    tiny.declare(
        "".join(
            f"COLLECT raw.{kind} PARTITIONED (id BIGINT, _metadata STRING, file HIDDEN AS (_source.file))"
            f" FROM land.acme.from_{kind}{options.get(kind, '')} EVERY DAY START '2020-01-01' BY ARRIVAL TIME;\n"
            for kind in kinds
        )
        + "TRANSFORM raw.folded (id KEY, *) MERGE AS SELECT id, _metadata FROM raw.json;"
    )
    assert not tiny.run(day(3)).failed
    for kind in kinds:
        assert sorted(tiny.rows(f"SELECT id, _metadata FROM raw.{kind}")) == [(1, "a"), (2, "b")], kind
    assert sorted(tiny.rows("SELECT id, _metadata FROM raw.folded")) == [(1, "a"), (2, "b")]
