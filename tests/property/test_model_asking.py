"""Queries random flows as of ticks, several tables at once, during unfinished restatements."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

import pytest

from tests.model.asking import Past, Shown
from tests.model.driving import Driver
from tests.model.oracle import ERA, floor, windows_of
from tests.model.random_flow import random_flow
from waterclock.engine.query.ticks import MomentFinder, RequestedTick, ResolvedTick
from waterclock.engine.reads.as_of import commit_records
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Kind, Mode
from waterclock.storage.log.content_as_of import resolve
from waterclock.timelabel.label import label_of

FLOWS = int(os.environ.get("WATERCLOCK_MODEL_FLOWS", "40"))
FIRST = int(os.environ.get("WATERCLOCK_MODEL_SEED", "0"))
CHUNK = 10
QUESTIONS = 8


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", range(FIRST, FIRST + FLOWS, CHUNK))
def test_all_tables_of_a_question_answer_from_the_newest_world_that_agrees(first: int) -> None:
    for seed in range(first, min(first + CHUNK, FIRST + FLOWS)):
        live_and_ask(seed)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", range(FIRST, FIRST + FLOWS, CHUNK))
def test_versions_of_snapshots_answer_from_the_newest_world_that_agrees(first: int) -> None:
    for seed in range(first, min(first + CHUNK, FIRST + FLOWS)):
        live_and_ask(seed, keeps_versions=True)


def live_and_ask(seed: int, *, keeps_versions: bool = False) -> Asker:
    random = Random(seed)
    made = random_flow(random, keeps_versions=keeps_versions)
    driver = Driver.of(made, random)
    asker = Asker(driver, random)
    try:
        asker.live()
    except Exception as error:
        error.add_note(f"seed {seed}: {[str(t.name) for t in made.flow.tables.values()]}")
        raise
    finally:
        driver.ledger.close()
    return asker


@dataclass(slots=True)
class Asker:
    """One life of one flow, interrupted by queries; counts their outcomes."""

    driver: Driver
    random: Random
    dropped: dict[str, datetime] = field(default_factory=dict)
    answered: int = 0
    stepped_back: int = 0
    refused: int = 0
    latest: int = 0

    def live(self) -> None:
        """Run through outages, unfinished restatements and drops, with queries after each."""
        driver = self.driver
        driver.rest()
        for _ in range(self.random.choice((2, 3, 4))):
            driver.pass_time()
            driver.restate()
            driver.trouble_rate = self.random.choice((0.0, 0.3, 0.6))
            driver.rest(most=self.random.choice((1, 2, 4, 8, 30)))
            if self.random.random() < 0.3:
                driver.clear_troubles()
            if self.random.random() < 0.2:
                self.drop()
            self.ask()
        driver.trouble_rate = 0.0
        driver.clear_troubles()
        driver.rest()
        self.ask()

    def drop(self) -> None:
        """Drop windows that RETAIN no longer keeps, as maintenance does."""
        driver = self.driver
        needed = driver.planner.oldest_needed(driver.snapshot(), driver.now)
        for name, table in driver.flow.tables.items():
            labels = driver.lake.tables[name].slices
            if table.retain is None or table.mode is not Mode.APPEND or not labels:
                continue
            kept = table.retain.subtract_from(table.cadence.next(max(labels)), table.cadence.zone)
            before = table.cadence.floor(min(kept, needed.get(name, kept)))
            if before > self.dropped.get(name, min(labels)):
                driver.ledger.maintenance.drop_windows(name, before, 0, who="test")
                self.dropped[name] = before

    def ask(self) -> None:
        """Run some queries as of this moment, and compare each with all past worlds."""
        driver = self.driver
        tables = [name for name, table in driver.flow.tables.items() if table.kind is not Kind.PUBLISH]
        past = Past(
            driver.flow,
            driver.planner.starts(driver.snapshot(), driver.now),
            driver.log,
            frozenset(driver.skipped),
            self.dropped,
        )
        for _ in range(QUESTIONS):
            asked = self.random.sample(tables, self.random.randint(1, min(3, len(tables))))
            is_partial = self.random.random() < 0.2
            known_at = self.random.choice(driver.log).at if driver.log and self.random.random() < 0.3 else None
            if self.random.random() < 0.15:
                self.ask_latest(past, asked, known_at, is_partial=is_partial)
            else:
                self.compare(past, asked, self._tick(past, asked), known_at, is_partial=is_partial)

    def ask_latest(self, past: Past, tables: Collection[str], known_at: datetime | None, *, is_partial: bool) -> None:
        """Query as of the newest tick; the answer equals that as of the same tick."""
        asked = RequestedTick("latest", known_at, is_partial=is_partial)
        with suppress(WaterclockError):
            tick = self.questions().moment(tables, asked).tick
            self.compare(past, tables, tick, known_at, is_partial=is_partial)
            self.latest += 1

    def questions(self) -> MomentFinder:
        """Return the object under test."""
        return MomentFinder(self.driver.planner, self.driver.ledger, self.driver.clock.at)

    def compare(
        self, past: Past, tables: Collection[str], tick: datetime, known_at: datetime | None, *, is_partial: bool
    ) -> None:
        """Run one query in the code under test and by a search through all worlds."""
        flow = self.driver.flow
        is_before = any(floor(flow.tables[name], tick) <= past.starts[name] for name in tables)
        wanted = None if is_before else past.answer(tables, tick, known_at, is_partial=is_partial)
        asked = RequestedTick(label_of(tick), known_at, is_partial=is_partial)
        said = f"{sorted(tables)} as of {label_of(tick)}, known at {known_at}, partial {is_partial}"
        found = self._moment(tables, asked)
        if isinstance(found, WaterclockError):
            assert wanted is None, f"{said}: refused ({found}), although all tables were consistent at {wanted[0]}"
            assert found.code in {"E518", "E521", "E522", "E523"}, found
            assert found.fix, found
            self.refused += 1
            return
        assert wanted is not None, f"{said}: answered as known at {found.known_at}, although no world is consistent"
        assert self.shown(tables, found) == wanted[1], f"{said}: other rows at {found.known_at} than at {wanted[0]}"
        self._check_instant(found, wanted[0], known_at, said)
        self.answered += 1
        self.stepped_back += found.has_pending_restatements

    def _moment(self, tables: Collection[str], asked: RequestedTick) -> ResolvedTick | WaterclockError:
        try:
            return self.questions().moment(tables, asked)
        except WaterclockError as error:
            return error

    def shown(self, tables: Collection[str], moment: ResolvedTick) -> Shown:
        """Return the visible rows of the tables at a moment, by the ledger's commit records."""
        rows = {(str(at), commit.table, commit.label): commit.rows for at, commit in enumerate(self.driver.log)}
        found: Shown = {}
        for name in tables:
            table, records = self.driver.flow.tables[name], commit_records(self.driver.ledger, name)
            resolved = resolve(table, moment.tick, records, known_at=moment.known_at)
            dropped = self.dropped.get(name)
            steps = [step for step in resolved.steps if dropped is None or step.label >= dropped]
            parts = ((step.label, rows[step.slice_path, name, step.label]) for step in steps)
            found[name] = tuple((label, made) for label, made in parts if made)
        return found

    def _check_instant(self, found: ResolvedTick, at: datetime | None, known_at: datetime | None, said: str) -> None:
        """Verify that no newer world would be consistent: the known time lies between that commit and the next."""
        later = [commit.at for commit in self.driver.log if at is None or commit.at > at]
        if found.known_at is None:
            assert not later, f"{said}: as known now, although only {at} is consistent"
            return
        assert at is None or found.known_at >= at, f"{said}: {found.known_at} is older than {at}"
        assert not later or found.known_at < later[0], f"{said}: {found.known_at} is newer than {at}"
        assert known_at is None or found.known_at <= known_at

    def _tick(self, past: Past, tables: Collection[str]) -> datetime:
        return min(self._boundary(past, tables), ERA[1] - timedelta(days=2))  # windows are not cut beyond it

    def _boundary(self, past: Past, tables: Collection[str]) -> datetime:
        """Pick a boundary of one of the tables, near a done label or somewhat later."""
        table = past.flow.tables[self.random.choice(sorted(tables))]
        labels = [commit.label for commit in past.log if commit.table == table.name]
        windows = windows_of(table.cadence)
        if not labels or self.random.random() < 0.1:
            near = [window for window in windows if abs((window.end - self.driver.now).total_seconds()) < 90_000]
            return self.random.choice(near).end
        label = self.random.choice(labels[-12:] if self.random.random() < 0.7 else labels)
        place = next(place for place, window in enumerate(windows) if window.start == label)
        return windows[place + self.random.choice((0, 0, 0, 0, 1))].end
