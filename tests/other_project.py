"""Another project, made without Spark: its ledger, and a table of hourly slices that a linked project reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zlib import crc32

import pyarrow as pa

from tests.ledgers import flow, table
from tests.slices import schema_json, sealed
from tests.systems import setting_of, unit_of
from waterclock.batches.records import BatchResult, ClaimRequest
from waterclock.connectors.interface import Connector
from waterclock.connectors.waterclock.connector import CONNECTOR
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind, Mode
from waterclock.ledger.ledger import Ledger
from waterclock.storage.commit.creation import create_table
from waterclock.storage.commit.pointers import commit_slices
from waterclock.storage.lake import Lake
from waterclock.storage.log.identity import Identity
from waterclock.timelabel.label import label_of

NAME = "shop.orders"
SCHEMA = pa.schema([("timelabel", pa.string()), ("id", pa.string()), ("note", pa.string())])
TOML = '[project]\nname = "other"\n[env.dev]\nstorage = ".waterclock"\n'
STATE = "shop.newest"


class OtherProject:
    """A project in the folder `other`, to which a connection `upstream` points."""

    secrets: Sequence[str] = ()

    def __init__(self, folder: Path) -> None:
        self.root = folder / "other"
        self.storage = self.root / ".waterclock"
        self.storage.mkdir(parents=True)
        (self.root / "waterclock.toml").write_text(TOML)
        self.connector: Connector = CONNECTOR
        self.setting = setting_of("upstream", folder, path="other")
        self.unit = unit_of("upstream", NAME)
        self.slices = table(NAME, partitioned=True, every="HOUR", kind=Kind.COLLECT)
        self.flow = flow(self.slices, table(STATE, mode=Mode.REPLACE, reads=[NAME]))

    @property
    def url(self) -> str:
        return f"sqlite:///{self.storage / 'ledger.db'}"

    def open(self) -> Ledger:
        ledger = Ledger.open(self.url)
        ledger.declared.apply(self.flow, who="ann", now=datetime(2013, 1, 2, tzinfo=UTC), runner="there")
        return ledger

    def claim(self, ledger: Ledger, of: Table, label: datetime) -> int:
        """Take a claim, which stays open."""
        request = ClaimRequest(
            table=of.name, labels=(label,), code="c", flow=self.flow.fingerprint, runner="there", who="ann", now=label,
            lease_seconds=600, target_version=-1, restates="again",
        )  # fmt: skip
        return ledger.claims.take(request).number

    def land(self, label: datetime, rows: Sequence[Mapping[str, str]]) -> None:
        folder = Lake(str(self.storage)).folder(NAME)
        with self.open() as ledger:
            if not Path(folder).is_dir():
                create_table(folder, schema_json(SCHEMA), is_partitioned=True, project="other")
            number = self.claim(ledger, self.slices, label)
            [claim] = [each for each in ledger.claims.open() if each.number == number]
            manifest = sealed(folder, label, number, [dict(row) for row in rows], schema=SCHEMA)
            text = label_of(label)
            identity = Identity("other", NAME, "collect", (text,), text, number, "c")
            version = commit_slices(folder, identity, [manifest], mode="append")
            digest = f"{len(rows)}:{crc32(repr(sorted(map(str, rows))).encode())}:0"
            end = label + timedelta(hours=1)
            ledger.claims.record_done(
                claim, [BatchResult(label, end, version, len(rows), 1, digest, manifest.slice_path)]
            )

    def ask_again(self, label: datetime) -> None:
        with self.open() as ledger:
            ledger.decisions.request_restate(NAME, [label], "recompute", who="ann")

    @contextmanager
    def failing_midway(self) -> Iterator[None]:
        """Remove the files of its tables for the duration of the block."""
        kept = {path: path.read_bytes() for path in self.storage.rglob("*.parquet")}
        for path in kept:
            path.unlink()
        try:
            yield
        finally:
            for path, content in kept.items():
                path.write_bytes(content)

    def files(self) -> Mapping[str, bytes]:
        return {str(path): path.read_bytes() for path in sorted(self.root.rglob("*")) if path.is_file()}
