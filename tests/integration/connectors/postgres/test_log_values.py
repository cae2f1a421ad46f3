"""Values of every type are equal, whether they come from a snapshot or from the log, by either decoder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.postgres import drop_all_slots, needs_wal2json
from tests.replicas import Replicated, past_all_windows
from waterclock.connectors.postgres.connector import PostgresCollector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.soak]
VALUES = {
    "bool": ("true",),
    "int2": ("-3",),
    "int8": ("9223372036854775807",),
    "text": ("E'a\\tb\\n\\\\ \"q\" {x} é €'", "''"),
    "varchar(9)": ("'  x '",),
    "char(5)": ("'ab'",),
    "date": ("'2020-02-29'", "'0001-01-01'", "'9999-12-31'"),
    "timestamp": ("'2020-01-01 00:00:00.123456'", "'1900-01-01'"),
    "timestamptz": ("'2020-01-01 00:00:00.123456+05:30'", "'1582-10-04 00:00+00'"),
    "bytea": ("'\\x00ff10'", "''"),
    "uuid": ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",),
    "jsonb": ('\'{"a": [1, null, "x"], "b": 1.50}\'', "'null'"),
    "json": ("'{\"a\" :  1}'",),
    "text[]": ("ARRAY['a', NULL, 'b,c', '\"q\"', '', 'NULL']", "'{}'"),
    "int4[]": ("ARRAY[1,NULL,3]",),
    "numeric(12,3)": ("-1.5", "999999999.999"),
    "float4": ("0.1",),
    "float8": ("1.5e300", "0.1", "'NaN'", "'-Infinity'"),
}
LOST_BY_WAL2JSON = frozenset({"'NaN'", "'-Infinity'"})


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    needs_wal2json()
    monkeypatch.setattr(PostgresCollector, "clock", past_all_windows)
    yield
    drop_all_slots()


@pytest.mark.parametrize("decoder", ["pgoutput", "wal2json"])
def test_a_value_of_the_log_is_that_of_a_snapshot(tmp_path: Path, spark: SparkSession, decoder: str) -> None:
    lost = LOST_BY_WAL2JSON if decoder == "wal2json" else frozenset()
    values = {kind: [text for text in of if text not in lost] for kind, of in VALUES.items()}
    columns = [f"c{number} {kind}" for number, kind in enumerate(values)]
    declared = f"id int PRIMARY KEY, big text, {', '.join(columns)}"
    it = Replicated.begun(tmp_path, spark, columns=declared, options=f" OPTIONS (decoder '{decoder}')")

    def insert(first: int) -> None:
        for number in range(max(map(len, values.values())) + 1):
            texts = [of[number] if number < len(of) else "NULL" for of in values.values()]
            it.sql(f"INSERT INTO orders VALUES ({first + number}, NULL, {', '.join(texts)})")

    insert(0)
    it.replicate()
    insert(100)
    it.replicate()
    names = ", ".join(f"c{number}" for number in range(len(values)))
    by_snapshot, by_log = (
        it.tiny.rows(f"SELECT {names} FROM shop.orders WHERE id {those} ORDER BY id") for those in ("< 100", ">= 100")
    )
    assert repr(by_snapshot) == repr(by_log)  # NaN is not equal to itself
    assert len(by_log) > 1
