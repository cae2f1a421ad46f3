"""Sealed slices and tables made without Spark, for tests of later operations on them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema

from waterclock.storage.commit.creation import create_table
from waterclock.storage.commit.pointers import commit_slices, kill_claim
from waterclock.storage.lake import Lake
from waterclock.storage.log.identity import ClaimKilledError, Identity
from waterclock.storage.slices.manifest import Manifest, read_manifest, seal
from waterclock.storage.slices.statistics import read_file
from waterclock.timelabel.label import label_of

START = datetime(2018, 3, 5, 8, tzinfo=UTC)
PROJECT = "shop"
TABLE = "web.clicks"
SCHEMA = pa.schema([("timelabel", pa.string()), ("id", pa.int64()), ("name", pa.string())])

Rows = Sequence[Mapping[str, Any]]


def hour(number: int) -> datetime:
    """Return the label `number` hours after the first."""
    return START + timedelta(hours=number)


def rows_of(*ids: int) -> list[dict[str, Any]]:
    """Return rows with these ids."""
    return [{"id": number, "name": f"n{number}"} for number in ids]


def new_table(root: Path, *, is_partitioned: bool = False, schema: pa.Schema = SCHEMA) -> str:
    """Create an empty table, and return its folder."""
    folder = Lake(str(root)).folder(TABLE)
    create_table(folder, schema_json(schema), is_partitioned=is_partitioned, project=PROJECT)
    return folder


def schema_json(schema: pa.Schema) -> str:
    """Return an Arrow schema as Delta writes it."""
    return DeltaSchema.from_arrow(schema).to_json()


def sealed(
    folder: str, label: datetime, claim: int, rows: Rows, *, schema: pa.Schema = SCHEMA, files: int = 1
) -> Manifest:
    """Seal a slice of these rows in `files` files; without rows there is no file."""
    path = Lake("").slice_path(label, claim)
    leaf = Path(folder, path)
    leaf.mkdir(parents=True)
    found = []
    for number in range(min(files, len(rows))):
        part = [{**row, "timelabel": label_of(label)} for row in rows[number::files]]
        name = f"part-{number:05d}.parquet"
        pq.write_table(pa.Table.from_pylist(part, schema=schema), leaf / name)
        found.append(read_file(Path(folder), f"{path}/{name}"))
    manifest = Manifest(
        table=TABLE,
        label=label,
        claim=claim,
        slice_path=path,
        files=tuple(found),
        rows=len(rows),
        bytes=sum(file.size for file in found),
        digest=None,
        schema=schema_json(schema),
        code="c0",
        source={},
        sealed_at=START,
    )
    seal(folder, manifest)
    return manifest


def identity(claim: int, *labels: datetime, project: str = PROJECT) -> Identity:
    """Return the identity of a claim's commit."""
    texts = tuple(label_of(label) for label in labels)
    return Identity(project, TABLE, "collect", texts, max(texts, default=""), claim, "c0")


def commit(folder: str, claim: int, batches: Mapping[datetime, Rows], *, mode: str = "append", files: int = 1) -> int:
    """Seal and commit the rows of some labels under one claim, and return the version."""
    manifests = [sealed(folder, label, claim, rows, files=files) for label, rows in batches.items()]
    return commit_slices(folder, identity(claim, *batches), manifests, mode=mode)


def ids(folder: str) -> list[int]:
    """Read the table's ids through delta-rs, in order."""
    return sorted(pa.table(DeltaTable(folder).to_pyarrow_table(columns=["id"])).column("id").to_pylist())


def rows_in(folder: str) -> list[dict[str, Any]]:
    """Read the table's rows through delta-rs; times are aware. Spark takes a hundred times as long for a few rows."""
    found: list[dict[str, Any]] = pa.table(DeltaTable(folder).to_pyarrow_table()).to_pylist()
    return found


def version(folder: str) -> int:
    """Return the table's newest version, by delta-rs."""
    return DeltaTable(folder).version()


def actions(folder: str, number: int) -> list[dict[str, Any]]:
    """Return the actions of one commit."""
    text = Path(folder, "_delta_log", f"{number:020d}.json").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def race(folder: str, jobs: Sequence[tuple[str, int]], start: float) -> list[tuple[int, str]]:
    """Commit ('data') or kill claims in order, from `start` (clock seconds) on; return the results of the commits.

    For threads and separate processes: each claim's slice is sealed already.
    """
    time.sleep(max(0.0, start - time.time()))
    said = []
    for side, claim in jobs:
        if side == "kill":
            kill_claim(folder, claim)
            continue
        manifest = read_manifest(folder, Lake("").slice_path(hour(claim), claim))
        try:
            commit_slices(folder, identity(claim, hour(claim)), [manifest], mode="append")
            said.append((claim, "data"))
        except ClaimKilledError:
            said.append((claim, "killed"))
    return said
