"""A project with CONTINUOUS whose ticks a test commits itself, without Spark and without a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql.types import LongType, StringType, StructField, StructType

from tests.slices import Rows, rows_of, sealed
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import Project, load_project
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.flow.open_windows import continuous_tables, open_table_of
from waterclock.storage.commit.speed_tables import commit_state, new_slice_number, read_slices, read_state, record_check

CLICKS, PAGES = "web.clicks", "web.pages"
FLOW = """
CREATE CONNECTION land TYPE files;
COLLECT web.clicks PARTITIONED (id BIGINT NOT NULL, name STRING) FROM land.clicks EVERY DAY BY ARRIVAL TIME
  CONTINUOUS 1 SECOND;
TRANSFORM web.pages PARTITIONED (id BIGINT, name STRING) CONTINUOUS AS SELECT id, name FROM web.clicks;
TRANSFORM web.other PARTITIONED (id BIGINT) AS SELECT id FROM web.clicks;
"""
COLUMNS = StructType(
    [StructField("timelabel", StringType()), StructField("id", LongType()), StructField("name", StringType())]
)


def today() -> datetime:
    """Return the start of the current day."""
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


@dataclass
class Ticking:
    """A project of clicks in a folder. `tick` commits rows of open windows as a run does."""

    folder: Path
    flow: str = FLOW
    start: datetime = field(default_factory=today)
    number: int = 0
    is_applied: bool = True

    def __post_init__(self) -> None:
        (self.folder / "flows").mkdir(parents=True)
        (self.folder / "landing").mkdir()
        (self.folder / "waterclock.toml").write_text(
            f'[project]\nname = "clicks"\n[defaults]\nstart = "{self.start:%Y-%m-%d}"\n'
            '[env.dev]\nconnections.land = { path = "landing" }\n'
        )
        (self.folder / "flows" / "clicks.dpl").write_text(self.flow)
        if self.is_applied:
            with self.opened() as work:
                apply_flow(work, datetime.now(UTC))

    @property
    def project(self) -> Project:
        return load_project(self.folder, capabilities=capabilities())

    @contextmanager
    def opened(self) -> Iterator[RunContext]:
        with open_workplace(self.project) as work:
            yield work

    def tick(self, rows: Mapping[datetime, Rows] | Sequence[int], at: datetime | None = None) -> None:
        """Commit a tick of all tables with these rows of open labels, or of today; other labels are removed."""
        labels = rows if isinstance(rows, Mapping) else {today(): rows_of(*rows)}
        self.number += 1
        with self.opened() as work:
            for table in continuous_tables(work.flow):
                folder = work.lake.folder(open_table_of(table.name))
                made = {label: sealed(folder, label, new_slice_number(), each) for label, each in labels.items()}
                committed = commit_state(
                    folder, read_state(folder), {}, made, tick=self.number, table=open_table_of(table.name),
                    project="clicks", code=table.fingerprint, schema=COLUMNS,
                )  # fmt: skip
                assert committed is not None
                assert read_slices(folder, committed).keys() == labels.keys()
                record_check(folder, at or datetime.now(UTC))

    def spd_folder(self, table: str = CLICKS) -> str:
        with self.opened() as work:
            return work.lake.folder(open_table_of(table))


def yesterday() -> datetime:
    """Return the start of the day before."""
    return today() - timedelta(days=1)
