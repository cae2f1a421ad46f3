"""Persons are erased from tables in a bucket, with the ledger in PostgreSQL; a killed erasure continues."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from tests import s3
from tests.integration.engine.erasing import test_tokens
from tests.integration.engine.erasing.test_erasing import ERASED, OTHER, SMALL, erased, found, killed, run
from tests.keys import VARIABLES
from tests.postgres import server
from tests.stores import fresh_bucket
from tests.tiny import TOML, Tiny, day
from waterclock.files.filesystem import entry_path, files_below, read_bytes
from waterclock.storage.lake import vault_folder
from waterclock.storage.token_vault import add_tokens, find_tokens, read_tokens

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ADA = test_tokens.ADA
POINTS = ("erase.sealed", "erase.files_purged", "erase.held_replaced")
HELD = "EXPECT amount >= 0 AS positive ELSE QUARANTINE, max(amount) < 500 AS small ELSE HOLD"


def in_bucket(root: Path, spark: SparkSession) -> Tiny:
    """Return a project without a flow that stores everything in a bucket, with the ledger in PostgreSQL."""
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
    return Tiny(root, spark, storage=f"{url}/lake", toml=TOML.replace("publish = true\n", f"publish = true\n{ledger}"))


def project(root: Path, spark: SparkSession) -> Tiny:
    """Return a project whose first day is done and whose second day is held."""
    tiny = in_bucket(root, spark)
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


def objects_with(tiny: Tiny, value: int | str) -> Iterator[str]:
    """Yield the objects of the bucket that contain a value, as text or in rows and bounds of Parquet files."""
    root = entry_path(tiny.storage)
    for file in filter(lambda file: file.size, files_below(root)):  # others are folder markers
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


def test_tokens_are_decided_in_a_bucket_and_removed_from_it(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sessions add the same persons at once: the bucket refuses the second commit of a version."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    tiny = in_bucket(tmp_path, spark)
    tiny.declare(test_tokens.FLOW.partition("TRANSFORM marts.lands")[0])
    test_tokens.fill(tiny)
    run(tiny)
    made = test_tokens.tokens(tiny)
    with tiny.opened():
        folder = vault_folder(tiny.storage, "customer")

        def add() -> None:
            session = spark.newSession()
            people = session.createDataFrame([(value,) for value in (ADA, "new.one", "new.two")], "value STRING")
            add_tokens(session, folder, people, tiny.name)

        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(add) for _ in range(2)]:
                done.result()
        decided = find_tokens(folder, [*made, "new.one", "new.two"])
        assert decided.items() >= made.items()
        assert len(decided) == len(set(decided.values())) == len(made) + 2
        assert sum(row.value == "new.one" for row in read_tokens(spark, folder).collect()) == 1
    result = test_tokens.erased_of(tiny, ADA)
    assert [each.place for each in result.left] == ["the ledger"]
    with tiny.opened():
        assert list(objects_with(tiny, made[ADA])) == list(objects_with(tiny, ADA)) == []
        assert find_tokens(folder, [ADA]) == {}
    assert tiny.rows("SELECT id FROM raw.visits ORDER BY id") == [(2,), (3,), (5,)]
