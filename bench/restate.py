"""Measures changes of the past: a late MERGE label, a ripple through ten tables, a query as of an old tick.

The late label touches 0.1, 1 and 10 % of the keys of a table of ten million rows, and is older than other labels. It is
compared with a rebuild of the whole table from its slices, and with Delta's MERGE of the same rows into a copy without
slices. The ripple is one changed row upstream of a chain of ten PARTITIONED tables, against the same ten batches by
hand (`replaceWhere`). As-of queries sum a column of the big table.
"""

from __future__ import annotations

import argparse
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from chain import DAY, LENGTH, START, by_hand, declare, put_sales
from measure import Cost, cost_of, grid, interleaved, middle, ratio
from product import Project, warm_spark

from waterclock.flow.declarations import Place, Table
from waterclock.flow.enums import Kind, Mode, TableType
from waterclock.flow.merge_settings import Merge
from waterclock.storage.commit.creation import create_table
from waterclock.storage.folds.fold import fold
from waterclock.storage.folds.merge import merge_slice, restate_slices
from waterclock.storage.folds.older_states import frame_of_resolved
from waterclock.storage.lake import Lake
from waterclock.storage.log.content_as_of import DataCommit, resolve
from waterclock.storage.log.delta_log import head
from waterclock.storage.log.identity import Identity
from waterclock.storage.slices.manifest import read_manifest
from waterclock.storage.slices.read import frame_at, table_schema
from waterclock.storage.slices.writer import write_slices
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.label import label_of
from waterclock.timelabel.period import parse_period

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MERGE = Merge(("id",), ("changed",), "is_gone")
# the late label for each share of keys that it touches
LATE = {0.001: 2, 0.01: 3, 0.1: 4}


@dataclass
class Big:
    """A MERGE table with labels 0 (all keys), 1, 5 and 6. The labels between arrive late, repeatedly."""

    spark: SparkSession
    lake: Lake
    rows: int
    table: Table = field(init=False)
    records: list[DataCommit] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table = Table(
            name="raw.accounts",
            kind=Kind.COLLECT,
            type=TableType.REGULAR,
            mode=Mode.MERGE,
            cadence=Cadence(parse_period("DAY"), timedelta(0), "UTC"),
            place=Place("bench/restate.py", 1, 1),
            fold=MERGE,
        )
        schema = self.changes(0, 1.0, 0).schema
        create_table(self.folder, schema, is_partitioned=False, project="bench")
        for number, share in ((0, 1.0), (1, 0.01), (5, 0.01), (6, 0.01)):
            self.put(number, share)

    @property
    def folder(self) -> str:
        return self.lake.folder(self.table.name)

    def changes(self, number: int, share: float, salt: int) -> DataFrame:
        """Build the rows of a label: an evenly spread share of the keys. After label 0, one in a hundred is a delete.

        Newer labels have other keys, so that the rows of a late label take effect.
        """
        step = round(1 / share)
        ids = self.spark.range(number % step, self.rows, step, 2)
        return ids.selectExpr(
            "id",
            f"{number} * 10L + id % 7 AS changed",
            f"{number} > 0 AND hash(id, {salt}) % 100 = 0 AS is_gone",
            f"cast(hash(id, {salt}) % 1000000 AS double) / 100 AS amount",
            f"concat('name-', hash(id, {salt}) % 5000) AS name",
        )

    def put(self, number: int, share: float) -> int:
        """Seal a label's slice and commit it, as the engine does."""
        claim, label = len(self.records) + 1, START + number * DAY
        manifest = write_slices(
            self.changes(number, share, claim * 7919),
            folder=self.folder,
            claim=claim,
            labels=[label],
            lake=self.lake,
            code="c",
            merge=MERGE,
            name=self.table.name,
        ).manifests[0]
        steps = resolve(self.table, START + 99 * DAY, self.records).steps
        newest = max([label, *(step.label for step in steps)])
        texts = (label_of(label),), label_of(newest)
        told = Identity("bench", self.table.name, "collect", *texts, claim, "c", (), (manifest.slice_path,))
        if newest == label:
            paths = [step.slice_path for step in steps]
            version = merge_slice(self.spark, self.folder, manifest, MERGE, told, paths)
        else:
            version = restate_slices(self.spark, self.lake, [manifest], MERGE, told, steps)
        self.records.append(DataCommit(version, datetime.now(UTC), {label: manifest.slice_path}))
        return version

    def rebuild(self) -> None:
        """Fold all slices again, and write the whole table to another folder."""
        schema = table_schema(self.folder).json()
        steps = resolve(self.table, START + 99 * DAY, self.records).steps
        manifests = [read_manifest(self.folder, step.slice_path) for step in steps]
        beside = Path(self.lake.root, "rebuilt")
        fold(self.spark, self.folder, manifests, MERGE, schema).write.mode("overwrite").parquet(str(beside))

    def copy(self) -> None:
        """Write a copy of the current table for Delta's MERGE."""
        self.spark.read.format("delta").load(self.folder).write.format("delta").save(self.by_hand)

    @property
    def by_hand(self) -> str:
        return str(Path(self.lake.root, "by_hand"))

    def merge(self, number: int, share: float, salt: int) -> None:
        """Merge the rows of a label into the copy with Delta's MERGE, as one does by hand."""
        label = label_of(START + number * DAY)
        rows = self.changes(number, share, salt).selectExpr("*", f"'{label}' AS timelabel")
        rows.createOrReplaceTempView("changes")
        self.spark.sql(
            f"MERGE INTO delta.`{self.by_hand}` t USING changes s ON t.id = s.id "
            "WHEN MATCHED AND s.changed >= t.changed AND s.is_gone THEN DELETE "
            "WHEN MATCHED AND s.changed >= t.changed THEN UPDATE SET * "
            "WHEN NOT MATCHED AND NOT s.is_gone THEN INSERT *"
        ).collect()

    def require_right(self) -> None:
        """Stop if the table differs from the fold of all its slices."""
        self.rebuild()
        wanted = self.spark.read.parquet(str(Path(self.lake.root, "rebuilt")))
        found = self.spark.read.format("delta").load(self.folder)
        told = [
            frame.selectExpr("count(*)", "sum(id)", "sum(hash(id, changed, amount, name, timelabel))").first()
            for frame in (wanted, found)
        ]
        if told[0] != told[1]:
            sys.exit(f"the table holds {told[1]}, the fold {told[0]}")

    def read(self, frame: Callable[[], DataFrame]) -> None:
        frame().selectExpr("sum(amount)", "max(name)").collect()

    def as_of(self, days: int) -> DataFrame:
        found = resolve(self.table, START + days * DAY, self.records)
        return frame_of_resolved(self.spark, self.lake, self.table, found)


def late_labels(big: Big, rounds: int, minutes: float) -> str:
    spark = big.spark
    sides: dict[str, Callable[[int], Cost]] = {
        f"late label, {share:.1%} of keys": partial(_late, big, share) for share in LATE
    }
    big.copy()
    sides |= {f"{share:.1%} by Delta's MERGE": partial(_merged, big, share) for share in LATE}
    sides["full rebuild"] = lambda _: cost_of(big.rebuild, spark)
    middles = {name: middle(costs) for name, costs in interleaved(sides, rounds, warm=1, minutes=minutes).items()}
    return _table(middles, "full rebuild")


def _late(big: Big, share: float, _: int) -> Cost:
    return cost_of(lambda: big.put(LATE[share], share), big.spark)


def _merged(big: Big, share: float, index: int) -> Cost:
    return cost_of(lambda: big.merge(LATE[share], share, index * 7919), big.spark)


def as_of_reads(big: Big, rounds: int) -> str:
    spark = big.spark
    # a state that no version has after the late labels is made again once, and cached
    begun = cost_of(lambda: big.read(lambda: big.as_of(3)), spark)
    sides: Mapping[str, Callable[[], DataFrame]] = {
        "head": lambda: frame_at(spark, big.folder, head(big.folder), is_partitioned=False),
        "tick of a stored version": lambda: big.as_of(2),
        "tick made again": lambda: big.as_of(3),
    }
    measured = {name: partial(_read, big, side) for name, side in sides.items()}
    middles = {name: middle(costs) for name, costs in interleaved(measured, rounds, warm=1).items()}
    return f"{_table(middles, 'head')}\n\nMaking the state again, at its first read: {begun.wall:.1f} s."


def _read(big: Big, side: Callable[[], DataFrame], _: int) -> Cost:
    return cost_of(lambda: big.read(side), big.spark)


def ripple(spark: SparkSession, folder: Path, rounds: int) -> str:
    shop = folder / "shop.sqlite"
    warm = 2
    put_sales(shop, rounds + warm)
    project = Project(spark, declare(folder / "waterclock", partitioned=True), 1)
    hand = by_hand(spark, shop, folder / "a", partitioned=True, idempotent=True)
    for index in range(rounds + warm):
        project.run(START + (index + 1) * DAY, START + (index + 1) * DAY)
        hand(index)
    now = START + (rounds + warm) * DAY

    def changed(index: int) -> None:
        with closing(sqlite3.connect(shop)) as database, database:
            database.execute("UPDATE sales SET amount = amount + 1 WHERE id = ?", [index * 100])

    def ours(index: int) -> Cost:
        changed(index)
        project.work.ledger.decisions.request_restate("chain.t0", [START + index * DAY], "recollect", who="bench")
        before = len(project.clock.batches)
        cost = cost_of(lambda: project.run(now, now), spark)
        if len(project.clock.batches) - before != LENGTH:
            sys.exit(f"the ripple ran {len(project.clock.batches) - before} batches, not {LENGTH}")
        return cost

    found = interleaved({"ours": ours, "by hand": hand}, rounds, warm=warm)
    project.close()
    return _table({name: middle(costs) for name, costs in found.items()}, "by hand")


def _table(middles: Mapping[str, Cost], base: str) -> str:
    other = middles[base]
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
    return grid(["", "CPU s", "wall s", f"CPU of {base}", f"wall of {base}", "jobs"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the MERGE table (10 million)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of late labels and of reads (3)")
    parser.add_argument("--ripples", type=int, default=6, help="ripples measured (6)")
    parser.add_argument("--minutes", type=float, default=10, help="begin no round of late labels after these (10)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, warm_spark(Path(name)) as spark:
        big = Big(spark, Lake(str(Path(name, "lake"))), asked.rows)
        print(
            f"A late label in a MERGE table of {asked.rows:,} rows:\n\n{late_labels(big, asked.rounds, asked.minutes)}"
        )
        big.require_right()
        print(f"\nA sum over the table as of an old tick:\n\n{as_of_reads(big, asked.rounds)}")
        shutil.rmtree(Path(name, "lake"))
        folder = Path(name, "ripple")
        (folder / "waterclock").mkdir(parents=True)
        print(f"\nA changed row below a chain of {LENGTH} tables:\n\n{ripple(spark, folder, asked.ripples)}")


if __name__ == "__main__":
    main()
