"""Persons are erased from tables in a bucket, with the ledger in PostgreSQL; killed in the middle, it carries on."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from tests import s3
from tests.integration.engine.erasing.test_erasing import ERASED, OTHER, SMALL, erased, found, killed, run
from tests.keys import VARIABLES
from tests.postgres import server
from tests.stores import fresh_bucket
from tests.tiny import TOML, Tiny, day
from waterclock.files.filesystem import entry_path, files_below, read_bytes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

POINTS = ("erase.sealed", "erase.files_purged", "erase.held_replaced")
HELD = "EXPECT amount >= 0 AS positive ELSE QUARANTINE, max(amount) < 500 AS small ELSE HOLD"


def project(root: Path, spark: SparkSession) -> Tiny:
    """Return a project of which one day is done, and the second one is held, with all that is stored in a bucket."""
    url = fresh_bucket()
    s3.reach(spark, url.rpartition("/")[2])
    options = s3.server().options()
    (root / "secrets").mkdir(parents=True, exist_ok=True)
    (root / "secrets" / "s3").write_text(options.pop("secret_access_key"))
    listed = ", ".join(
        [*(f'{name} = "{value}"' for name, value in options.items()), 'secret_access_key = {{ secret = "s3" }}']
    )
    schema = server().fresh_schema()
    server().run(f"CREATE SCHEMA {schema}")
    ledger = f'ledger = "{server().ledger_url()}"\nstorage_options = {{{{ {listed} }}}}\n'
    tiny = Tiny(root, spark, storage=f"{url}/lake", toml=TOML.replace("publish = true\n", f"publish = true\n{ledger}"))
    tiny.declare(SMALL.replace("EXPECT amount >= 0 AS positive ELSE QUARANTINE", HELD))
    rows = [
        (number, who, f"2020-01-{of:02d} 10:00:{number:02d}", amount)
        for number, (of, who, amount) in enumerate(
            [(1, ERASED, 1), (1, OTHER, 2), (1, ERASED, -1), (2, ERASED, 3), (2, OTHER, 999)]
        )
    ]
    tiny.source("orders", "id INT, buyer INT, at TEXT, amount INT", rows)
    tiny.run(day(3))
    assert tiny.batches()["raw.orders", "20200102000000"] == "held"
    return tiny


def objects_with(tiny: Tiny, value: int) -> Iterator[str]:
    """Yield the objects of the bucket that contain a value, as text or in rows and bounds of Parquet files."""
    root = entry_path(tiny.storage)
    for file in filter(lambda file: file.size, files_below(root)):  # others are markers of folders
        content = read_bytes(root / file.path)
        if file.path.endswith(".parquet"):
            parquet = pq.ParquetFile(io.BytesIO(content))
            groups = [parquet.metadata.row_group(at).to_dict() for at in range(parquet.metadata.num_row_groups)]
            content = (str(parquet.read().to_pylist()) + json.dumps(groups, default=str)).encode()
        if str(value).encode() in content:
            yield file.path


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", POINTS)
def test_a_person_is_erased_from_a_bucket(
    point: str, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    tiny = project(tmp_path, spark)
    assert set(found(tiny, ERASED)) == {"raw.orders", "marts.newest"}
    with tiny.opened():
        assert list(objects_with(tiny, ERASED))
    with killed(point, monkeypatch) as struck:
        erased(tiny, ERASED)
    assert struck == [point]
    result = erased(tiny, ERASED, continues=True)
    assert [each.place for each in result.left] == ["the ledger"]
    assert not result.search.hits
    assert found(tiny, ERASED) == []
    with tiny.opened():
        assert not list(objects_with(tiny, ERASED))
    assert tiny.rows("SELECT id, buyer FROM raw.orders ORDER BY id") == [(1, OTHER)]
    assert tiny.rows("SELECT id FROM raw.orders_held") == [(4,)]
    assert tiny.rows("SELECT client, amount FROM marts.newest") == [(OTHER, 2)]
    tiny.shop(
        f"INSERT INTO orders VALUES (9, {ERASED}, '2020-01-03 10:00:00', 5), (10, {OTHER}, '2020-01-03 11:00:00', 6)"
    )
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("raw.orders", [day(1)], "recollect", who="ann")
    run(tiny, 4)
    assert tiny.rows("SELECT id, buyer FROM raw.orders ORDER BY id") == [(1, OTHER), (10, OTHER)]
