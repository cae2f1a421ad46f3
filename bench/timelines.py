"""Measures batches of a TEMPORAL table that touch 1 or 10 % of the keys.

The table has the history of a million keys, five raw rows each. A batch has one row for each touched key; one in five
of these is late, within the existing history. It is compared with a rebuild of all versions from all raw rows, and with
Delta's MERGE by hand: append the raw rows, compute the versions of the touched keys again, and merge the differences.
At the end, all results are compared.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from chain import DAY, START
from measure import Cost, cost_of, grid, interleaved, middle, ratio
from product import warm_spark

from waterclock.flow.declarations import Place, Table
from waterclock.flow.enums import Kind, Mode, TableType
from waterclock.flow.merge_settings import Temporal
from waterclock.storage.commit.creation import create_table
from waterclock.storage.folds.temporal_commit import place_slices
from waterclock.storage.folds.versions import table_schema_of, versions_of
from waterclock.storage.lake import Lake
from waterclock.storage.log.content_as_of import DataCommit, resolve
from waterclock.storage.log.identity import Identity
from waterclock.storage.slices.manifest import read_manifest
from waterclock.storage.slices.writer import write_slices
from waterclock.temporal import compute_temporal
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.label import label_of
from waterclock.timelabel.period import parse_period

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_OF_A_KEY = 5
SHARES = (0.01, 0.1)
TEMPORAL = Temporal(("id",), "at")


@dataclass
class Accounts:
    """A TEMPORAL table. `keys` is the number of its natural keys."""

    spark: SparkSession
    lake: Lake
    keys: int
    table: Table = field(init=False)
    records: list[DataCommit] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table = Table(
            name="raw.accounts",
            kind=Kind.COLLECT,
            type=TableType.REGULAR,
            mode=Mode.TEMPORAL,
            cadence=Cadence(parse_period("DAY")),
            place=Place("bench/timelines.py", 1, 1),
            fold=TEMPORAL,
        )
        raw = self.rows(0, 1.0)
        schema = table_schema_of(raw.schema.json(), TEMPORAL)
        create_table(self.folder, schema, is_partitioned=False, project="bench")
        self.put(1.0)

    @property
    def folder(self) -> str:
        return self.lake.folder(self.table.name)

    def rows(self, number: int, share: float) -> DataFrame:
        """Build the raw rows of a label: the whole history, or a row for an evenly spread share of the keys."""
        if number == 0:
            ids = self.spark.range(0, self.keys * ROWS_OF_A_KEY, 1, 2)
            key, day = f"id % {self.keys}", f"id div {self.keys} * 100 + abs(hash(id)) % 50"
        else:
            ids = self.spark.range(0, self.keys, round(1 / share), 2)
            key, day = "id", f"if(hash(id, {number}) % 5 = 0, abs(hash(id)) % 400, 1000 + {number})"
        return ids.selectExpr(
            f"{key} AS id",
            f"timestamp'2018-01-01 00:00:00Z' + make_dt_interval(cast({day} AS INT)) AS at",
            f"if(hash(id, {number}, 1) % 3 = 0, NULL, concat('city-', abs(hash(id, {number}, 2)) % 500)) AS city",
            f"if(hash(id, {number}, 3) % 3 = 0, NULL, abs(hash(id, {number}, 4)) % 20) AS grade",
            f"concat('name-', abs(hash(id, {number}, 5)) % 100000) AS name",
            f"cast(abs(hash(id, {number}, 6)) % 1000000 AS double) / 100 AS amount",
        )

    def put(self, share: float) -> None:
        """Seal the slice of the next label and commit it, as the engine does."""
        number = len(self.records)
        label = START + number * DAY
        manifest = write_slices(
            self.rows(number, share),
            folder=self.folder,
            claim=number + 1,
            labels=[label],
            lake=self.lake,
            code="c",
            name=self.table.name,
        ).manifests[0]
        text = label_of(label)
        told = Identity("bench", self.table.name, "collect", (text,), text, number + 1, "c", (), (manifest.slice_path,))
        steps = resolve(self.table, label, self.records).steps
        version = place_slices(self.spark, self.lake, self.table, [manifest], told, steps)
        self.records.append(DataCommit(version, datetime.now(UTC), {label: manifest.slice_path}))

    def whole(self) -> DataFrame:
        """Compute all versions from all raw rows."""
        steps = resolve(self.table, START + 999 * DAY, self.records).steps
        manifests = [read_manifest(self.folder, step.slice_path) for step in steps]
        return versions_of(self.spark, self.folder, manifests, self.table)

    def rebuild(self) -> None:
        """Compute all versions again, and write them to another folder."""
        self.whole().write.mode("overwrite").parquet(str(Path(self.lake.root, "rebuilt")))

    def copy(self) -> None:
        """Write copies of the table and its raw rows for Delta's MERGE."""
        for name, frame in (("hand", self.whole()), ("hand_raw", self.rows(0, 1.0))):
            frame.drop("timelabel").write.format("delta").save(str(Path(self.lake.root, name)))

    def merge(self, number: int, share: float) -> None:
        """Merge the raw rows of a label into the copy by hand: compute touched keys again, merge the differences."""
        from pyspark.sql.functions import broadcast

        raw, made = (str(Path(self.lake.root, name)) for name in ("hand_raw", "hand"))
        rows = self.rows(number, share)
        rows.write.format("delta").mode("append").save(raw)
        keys = broadcast(rows.select("id").distinct())
        new = compute_temporal(self.spark.read.format("delta").load(raw).join(keys, "id", "left_semi"), "id", time="at")
        old = self.spark.read.format("delta").load(made)
        names, on = old.columns, ["id", "rec_eff_time"]
        rest = [name for name in names if name not in on]
        packed = [frame.selectExpr(*on, f"struct({', '.join(rest)}) AS row") for frame in (new, old)]
        both = packed[0].alias("n").join(packed[1].join(keys, "id", "left_semi").alias("o"), on, "full_outer")
        changes = both.where("NOT n.row <=> o.row").selectExpr(*on, "n.row.*", "n.row IS NULL AS gone")
        changes.createOrReplaceTempView("changes")
        self.spark.sql(
            f"MERGE INTO delta.`{made}` t USING changes s ON t.id = s.id AND t.rec_eff_time = s.rec_eff_time "
            "WHEN MATCHED AND s.gone THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in names)} "
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
        ).collect()

    def require_right(self) -> None:
        """Stop if the table differs from all versions computed again."""
        wanted, found = self.whole(), self.spark.read.format("delta").load(self.folder)
        told = [
            frame.selectExpr("count(*)", "sum(hash(id, rec_eff_time, city, grade, name, amount, rec_exp_time))").first()
            for frame in (wanted, found)
        ]
        if told[0] != told[1]:
            sys.exit(f"the table holds {told[1]}, all rows together make {told[0]}")


def batches(accounts: Accounts, rounds: int, minutes: float) -> str:
    sides: dict[str, Callable[[int], Cost]] = {
        f"{share:.0%} of the keys": partial(_batch, accounts, share) for share in SHARES
    }
    accounts.copy()
    sides |= {f"{share:.0%} by Delta's MERGE": partial(_merged, accounts, share) for share in SHARES}
    sides["all versions made again"] = lambda _: cost_of(accounts.rebuild, accounts.spark)
    found = interleaved(sides, rounds, warm=1, minutes=minutes)
    middles = {name: middle(costs) for name, costs in found.items()}
    other = middles["all versions made again"]
    rows = [
        [
            name,
            f"{cost.cpu:.2f}",
            f"{cost.wall:.2f}",
            ratio(cost.cpu, other.cpu),
            ratio(cost.wall, other.wall),
            cost.jobs,
        ]
        for name, cost in middles.items()
    ]
    return grid(["", "CPU s", "wall s", "CPU of making all again", "wall of making all again", "jobs"], rows)


def _batch(accounts: Accounts, share: float, _: int) -> Cost:
    return cost_of(lambda: accounts.put(share), accounts.spark)


def _merged(accounts: Accounts, share: float, index: int) -> Cost:
    number = 1 + 2 * index + SHARES.index(share)
    return cost_of(lambda: accounts.merge(number, share), accounts.spark)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keys", type=int, default=1_000_000, help="keys of the table, five raw rows each (1 million)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds measured (3)")
    parser.add_argument("--minutes", type=float, default=10, help="begin no round after these (10)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, warm_spark(Path(name)) as spark:
        accounts = Accounts(spark, Lake(str(Path(name, "lake"))), asked.keys)
        print(f"A batch of a TEMPORAL table of {asked.keys * ROWS_OF_A_KEY:,} raw rows of {asked.keys:,} keys:\n")
        print(batches(accounts, asked.rounds, asked.minutes))
        accounts.require_right()


if __name__ == "__main__":
    main()
