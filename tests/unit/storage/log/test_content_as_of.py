"""For any order of commits, the version or slices of a state equal those of a replay."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from tests.data_commits import records_in_log
from tests.model import flows
from tests.slices import hour, identity, new_table, rows_of, sealed
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Mode
from waterclock.storage.commit.pointers import commit_nothing, commit_slices, kill_claim
from waterclock.storage.log.content_as_of import NO_VERSION, DataCommit, resolve
from waterclock.storage.log.identity import Identity
from waterclock.timelabel.duration import parse_duration

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
HOURS = 6


@dataclass
class Replayed:
    """A table replayed commit by commit: the content of each version, and the current slices at each time."""

    table: Table
    records: list[DataCommit] = field(default_factory=list)
    held: list[dict[datetime, str]] = field(default_factory=list)
    current: list[dict[datetime, str]] = field(default_factory=list)
    stands: dict[str, datetime] = field(default_factory=dict)

    def commit(self, label: datetime, stands_from: datetime | None = None) -> None:
        version = len(self.records)
        path = f"l={label.hour}/c={version}"
        self.stands[path] = stands_from or label
        self.records.append(DataCommit(version, BEGAN + timedelta(hours=version), {label: path}, stands_from))
        now = {**(self.current[-1] if self.current else {}), label: path}
        self.current.append(now)
        # the head only moves forward: a REPLACE state older than it does not change the visible rows
        self.held.append({max(now): now[max(now)]} if self.table.mode is Mode.REPLACE else now)

    def expected(self, tick: datetime, version: int) -> dict[datetime, str]:
        now = self.current[version]
        if self.table.mode is Mode.REPLACE:
            first = tick - timedelta(hours=1)
            standing = sorted(label for label in now if label >= first and self.stands[now[label]] <= first)
            return {label: now[label] for label in standing[:1]}
        low = tick - timedelta(hours=3) if self.table.retain else BEGAN - timedelta(days=9999)
        return {label: path for label, path in now.items() if low <= label and self.stands[path] < tick}


def table(mode: Mode, **more: object) -> Table:
    return flows.collect("raw.a", "HOUR", mode=mode, is_partitioned=False, **more)  # type: ignore[arg-type]


TABLES = {
    "append": table(Mode.APPEND),
    "append kept for three hours": table(Mode.APPEND, retain=parse_duration("3 hours")),
    "merge": table(Mode.MERGE),
    "replace": table(Mode.REPLACE),
    "snapshot": flows.snapshot("raw.a", "HOUR"),
    "versions of snapshots": replace(flows.snapshot("raw.a", "HOUR"), mode=Mode.TEMPORAL),
}


@pytest.mark.parametrize("kind", TABLES)
def test_the_resolved_content_equals_that_of_a_replay_for_any_order_of_commits(kind: str) -> None:
    dice = random.Random(kind)
    by_version = 0
    for _ in range(300):
        lake = Replayed(TABLES[kind])
        taken = sorted(dice.sample(range(HOURS), dice.randrange(1, HOURS)))
        since = {now: hour(before + 1) for before, now in pairwise((-3, *taken))}
        for _ in range(dice.randrange(1, 9)):
            label, stands = hour(dice.randrange(HOURS)), None
            if kind == "snapshot":
                stands = label - timedelta(hours=dice.randrange(4))
            elif kind == "versions of snapshots":
                number = dice.choice(taken)
                label, stands = hour(number), since[number]
            lake.commit(label, stands)
        for number in range(len(lake.records)):
            for tick in (hour(n) for n in range(HOURS + 1)):
                known_at = BEGAN + timedelta(hours=number, minutes=5)
                found = resolve(lake.table, tick, lake.records, known_at=known_at)
                expected = lake.expected(tick, number)
                assert {step.label: step.slice_path for step in found.steps} == expected
                if found.version != NO_VERSION:
                    by_version += 1
                    held = lake.held[found.version]
                    if lake.table.mode is Mode.APPEND:
                        held = {label: path for label, path in held.items() if label in expected}
                    assert held == expected
    assert by_version > 1000


def test_a_tick_within_a_window_is_the_boundary_before_it() -> None:
    lake = Replayed(TABLES["merge"])
    lake.commit(hour(0))
    lake.commit(hour(1))
    found = resolve(lake.table, hour(1) + timedelta(minutes=59), lake.records)
    assert (found.high, len(found.steps), found.version) == (hour(1), 1, 0)


def test_a_restated_merge_label_drops_the_states_from_there_on_and_keeps_the_head() -> None:
    lake = Replayed(TABLES["merge"])
    for number in (0, 1, 2, 3, 1):
        lake.commit(hour(number))
    found = resolve(lake.table, hour(4), lake.records)
    assert [step.version for step in found.steps] == [0, NO_VERSION, NO_VERSION, 4]
    before = resolve(lake.table, hour(4), lake.records, known_at=lake.records[3].at)
    assert [step.version for step in before.steps] == [0, 1, 2, 3]


def test_labels_that_are_recorded_in_another_order_than_committed_are_each_known_since_their_record() -> None:
    at = {version: BEGAN + timedelta(minutes=minute) for version, minute in ((0, 0), (1, 9), (2, 2), (3, 3))}
    slices = ({hour(0): "a", hour(1): "b"}, {hour(0): "c"}, {hour(0): "d", hour(2): "e"}, {hour(3): "f"})
    records = [DataCommit(version, at[version], each) for version, each in enumerate(slices)]
    found = resolve(TABLES["append"], hour(6), records, known_at=BEGAN + timedelta(minutes=5))
    assert [step.slice_path for step in found.steps] == ["a", "b", "e", "f"], (
        "d replaced c, and was unknown at that time"
    )
    assert found.version == NO_VERSION, "each version with e or f also has c"
    found = resolve(TABLES["append"], hour(6), records, known_at=at[1])
    assert ([step.slice_path for step in found.steps], found.version) == (["d", "b", "e", "f"], 3)


def test_before_the_first_commit_there_is_nothing() -> None:
    lake = Replayed(TABLES["append"])
    lake.commit(hour(3))
    for found in (
        resolve(lake.table, hour(3), lake.records),
        resolve(lake.table, hour(9), []),
        resolve(lake.table, hour(9), lake.records, known_at=BEGAN - timedelta(seconds=1)),
    ):
        assert found.steps == ()
        assert found.version == NO_VERSION


def test_the_records_of_a_log_are_its_data_commits(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    first = sealed(folder, hour(0), 1, rows_of(1))
    commit_slices(folder, _told(1, hour(0), first.slice_path), [first], mode="append")
    kill_claim(folder, 2)
    older = sealed(folder, hour(1), 3, rows_of(2))
    commit_nothing(folder, _told(3, hour(1), older.slice_path, stands_from=hour(0).isoformat()))
    found = records_in_log(folder, project="shop")
    assert [(record.version, record.slices, record.stands_from) for record in found] == [
        (1, {hour(0): first.slice_path}, None),
        (3, {hour(1): older.slice_path}, hour(0)),
    ]
    assert found[0].at <= found[1].at <= datetime.now(UTC) + timedelta(seconds=1)
    assert records_in_log(folder, project="another") == []


def _told(claim: int, label: datetime, path: str, **more: str) -> Identity:
    told = identity(claim, label)
    return Identity(**{name: getattr(told, name) for name in told.__slots__} | {"slices": (path,)} | more)
