"""Measures a commit of one batch by the number of live files of the table, against delta-rs's own commit.

    python bench/commits.py [--files 0 1000 8760 26280] [--commits 200]

Milliseconds of CPU per commit, as the mean of many commits, so that occasional checkpoints are included.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from deltalake import DeltaTable
from deltalake.transaction import AddAction, CommitProperties, Transaction
from measure import grid, ratio

from tests.slices import hour, identity, new_table, rows_of, sealed
from waterclock.storage.commit.pointers import commit_slices
from waterclock.storage.log.open_tables import open_table
from waterclock.storage.slices.manifest import Manifest
from waterclock.timelabel.label import label_of

NEW = 1_000_000  # claims of the measured commits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="+", default=[0, 1_000, 8_760, 26_280])
    parser.add_argument("--commits", type=int, default=200)
    asked = parser.parse_args()
    rows = []
    for files in asked.files:
        costs = [measure(files, asked.commits) for measure in (ours, by_delta_rs)]
        (first, mean), (_, peer) = costs
        rows.append([f"{files:,}", f"{first:.0f}", f"{mean:.1f}", f"{peer:.1f}", ratio(mean, peer)])
    print(f"One label's slice of one file, into a partitioned table. Means over {asked.commits} commits.\n")
    print(grid(["live files", "first access ms", "commit ms", "delta-rs ms", "ours/delta-rs"], rows))


def ours(files: int, commits: int) -> tuple[float, float]:
    """Commit slices with Waterclock. Return the cost of opening the table, and the mean cost of a commit."""
    with tempfile.TemporaryDirectory() as root:
        folder = grown(Path(root), files)
        slices = new_slices(folder, files, commits)
        begun = time.process_time()
        with open_table(folder) as table:
            table.has_claim(NEW)
            assert len(table.files) == files
        looked = time.process_time()
        for at, manifest in enumerate(slices):
            commit_slices(folder, identity(NEW + at, manifest.label), [manifest], mode="append")
        return 1000 * (looked - begun), 1000 * (time.process_time() - looked) / commits


def by_delta_rs(files: int, commits: int) -> tuple[float, float]:
    """Commit the same slices with delta-rs alone, on an open table, each replacing the files of its label."""
    with tempfile.TemporaryDirectory() as root:
        folder = grown(Path(root), files)
        slices = new_slices(folder, files, commits)
        begun = time.process_time()
        table = DeltaTable(folder)
        looked = time.process_time()
        for at, manifest in enumerate(slices):
            table.update_incremental()
            label, claim = label_of(manifest.label), f"waterclock:{NEW + at}"
            assert table.transaction_version(claim) is None
            table.create_write_transaction(
                [AddAction(each.path, each.size, {"timelabel": label}, 0, True, each.stats) for each in manifest.files],  # noqa: FBT003
                "overwrite",
                table.schema(),
                partition_by=["timelabel"],
                partition_filters=[("timelabel", "in", [label])],
                commit_properties=CommitProperties(
                    custom_metadata={"userMetadata": identity(NEW + at, manifest.label).to_json()},
                    app_transactions=[Transaction(claim, 1, 0)],
                ),
            )
        return 1000 * (looked - begun), 1000 * (time.process_time() - looked) / commits


def grown(root: Path, files: int) -> str:
    """Create a table log with this many files, each with its own label and claim. The files themselves do not exist."""
    folder = new_table(root, is_partitioned=True)
    now = int(time.time() * 1000)
    said: list[dict[str, object]] = [{"commitInfo": {"timestamp": now, "operation": "WRITE"}}]
    for number in range(files):
        label = label_of(hour(number))
        said.append({"txn": {"appId": f"waterclock:{number + 1}", "version": 1, "lastUpdated": now}})
        bounds = {"id": number, "name": f"n{number}"}
        add = {
            "path": f"_stage/{number}/c={number + 1}/part-00000.parquet",
            "partitionValues": {"timelabel": label},
            "size": 1000,
            "modificationTime": now,
            "dataChange": True,
            "stats": json.dumps({"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": {"id": 0}}),
        }
        said.append({"add": add})
    if files:
        path = Path(folder, "_delta_log", f"{1:020d}.json")
        path.write_text("\n".join(map(json.dumps, said)), encoding="utf-8")
        DeltaTable(folder).create_checkpoint()
    return folder


def new_slices(folder: str, files: int, count: int) -> list[Manifest]:
    return [sealed(folder, hour(files + at), NEW + at, rows_of(at)) for at in range(count)]


if __name__ == "__main__":
    main()
