"""Random rebuilds of all tables with concurrent runs, kills and readers: no reader ever sees a mix of two sets."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from waterclock.batches.rebuilding import Rebuilding, is_moving, is_of_one_set
from waterclock.batches.records import BatchResult, ClaimRequest
from waterclock.errors import WaterclockError
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.store.schema import ledger as the_ledger
from waterclock.ledger.store.schema import tables
from waterclock.ledger.write.rebuilt_tables import MovedTable

NAMES = ("raw.a", "mart.b", "mart.c")
LEASE = 10.0
START = datetime(2024, 1, 1, tzinfo=UTC)
SIGNATURE = {"kind": "transform", "type": "regular", "mode": "append", "cadence": "1 DAY", "zone": "UTC", "keys": ""}


@dataclass
class Toy:
    """Tables with a list of the sets that committed to them, and a real ledger."""

    ledger: Ledger
    clock: list[datetime]
    heads: dict[str, list[int]] = field(default_factory=lambda: {name: [0] for name in NAMES})
    of_token: dict[str, int] = field(default_factory=dict)
    day: int = 0

    def begin(self) -> str | None:
        """Begin as `rebuild_all` does: refused during an active rebuild, allowed in place of a dead one."""
        token = str(len(self.of_token) + 1)
        try:
            self.ledger.maintenance.begin_rebuilding(token, runner="r", who="w", lease_seconds=LEASE)
        except WaterclockError as error:
            assert error.code == "E644"  # noqa: PT017
            return None
        self.of_token[token] = len(self.of_token) + 1
        return token

    def move(self, token: str, stops_after: int) -> bool:
        """Commit the tables of a set up to the step of a kill, and record them if all are committed."""
        for name in NAMES[:stops_after]:
            if self.of_token[token] not in self.heads[name]:
                self.heads[name].append(self.of_token[token])
        if stops_after < len(NAMES):
            return False
        moved = [
            MovedTable(
                name,
                SIGNATURE,
                name,
                None,
                self.ledger.maintenance.take_claim_number(),
                len(self.heads[name]) - 1,
                None,
            )
            for name in NAMES
        ]
        self.ledger.maintenance.record_set(token, moved, who="w")
        return True

    def land(self) -> bool:
        """Claim and record the next batch of the first table, as any runner does; return False if it is refused."""
        label = START + timedelta(days=self.day)
        request = ClaimRequest("raw.a", (label,), "c", "f", "other", "w", self.clock[0], LEASE, -1)
        try:
            claim = self.ledger.claims.take(request)
        except WaterclockError as error:
            assert error.code == "E644"  # noqa: PT017
            return False
        end = label + timedelta(days=1)
        head = len(self.heads["raw.a"]) - 1
        self.ledger.claims.record_done(claim, [BatchResult(label, end, head, 1, 1, f"1:{self.day}:0", "")])
        self.day += 1
        return True

    def looks(self, chance: random.Random, act: object) -> set[int]:
        """Bind all tables as `query` does, with other events in between, and return the sets that they belong to."""
        while True:
            before = self.ledger.maintenance.current_rebuilding()
            known = {record.name: record.head_version for record in self.ledger.reads.tables()}
            found = set()
            for name in NAMES:
                found.add(self._of(name, before, known))
                if chance.random() < 0.5 and callable(act):
                    act()
            if is_of_one_set(before, self.ledger.maintenance.current_rebuilding()):
                return found

    def _of(self, name: str, seen: Rebuilding | None, known: dict[str, int]) -> int:
        return self.heads[name][max(known[name], 0)] if is_moving(seen) else self.heads[name][-1]


@pytest.mark.parametrize("seed", range(25))
def test_no_reader_ever_sees_a_mixed_set(seed: int) -> None:
    chance, clock = random.Random(seed), [START]
    with Ledger.open("sqlite://", clock=lambda: clock[0]) as ledger:
        toy = Toy(ledger, clock)
        with ledger.maintenance.database.write() as write:
            for name in NAMES:
                row = {"location": name, "head_version": 0, "changes": 0, "is_declared": True, "name": name}
                write.execute(tables.insert(), SIGNATURE | row)
        with ledger.maintenance.database.write() as write:
            write.execute(the_ledger.update().values(flow="f"))
        token: str | None = None
        was_held = landed = moved = 0

        def act() -> None:
            nonlocal token, was_held, landed, moved
            clock[0] += timedelta(seconds=chance.choice((0, 1, 3, 15)))
            known = ledger.maintenance.current_rebuilding()
            holds = known is not None and known.is_blocking(clock[0])
            step = chance.choice(("land", "begin", "renew", "move", "kill", "carry on"))
            if step == "land":
                done = toy.land()
                assert done != holds
                landed, was_held = landed + done, was_held + (not done)
            elif step == "begin" and token is None:
                token = toy.begin()
            elif step == "carry on" and known is not None and known.is_moving:
                moved += toy.move(known.token, len(NAMES))
                token = None
            elif token is None:
                return
            elif step == "kill":
                token = None
            else:
                try:
                    if step == "renew":
                        ledger.maintenance.renew_rebuilding(token, lease_seconds=LEASE)
                    else:
                        ledger.maintenance.begin_moving(token)
                        moved += toy.move(token, chance.randrange(len(NAMES) + 1))
                        token = None
                except WaterclockError as error:
                    assert error.code == "E644"  # noqa: PT017 - its lease expired, and another runner has claimed since
                    token = None

        for _ in range(60):
            act()
            assert len(toy.looks(chance, act)) == 1
        for label in range(toy.day):  # no label is lost: recorded batches exist after any number of sets
            assert ledger.reads.covered_windows("raw.a").covers_instant(START + timedelta(days=label))
