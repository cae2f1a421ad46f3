"""The ledger's suspects are exactly the batches whose recorded inputs differ from the current ones.

A model keeps every slice and the inputs of every batch, as sets of (label, digest), and compares them by brute force
after each step: claims that stay open while others record, restatements, snapshots that stand, gaps left and filled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.ledgers import Desk, day, desk, require_sums, result, table
from waterclock.batches.records import Claim
from waterclock.flow.enums import Mode
from waterclock.timelabel.window import Window

DAYS = 7
READS = {
    "raw.a": (),
    "dim.x": (),
    "core.b": ("raw.a", "dim.x"),
    "core.s": ("core.b", "core.s"),
    "mart.m": ("core.b", "core.s"),
    "mart.c": ("mart.m", "raw.a"),
}
REPLACES = {"dim.x", "mart.c"}
Seen = frozenset[tuple[int, str]]
Key = tuple[str, int]
Read = tuple[str, int, int]

LABELS = st.integers(0, DAYS - 1)
DIGESTS = st.sampled_from(["0:0:0", "1:1:1", "2:2:2"])
SPANS = st.tuples(st.integers(0, DAYS), st.integers(0, 3))


@dataclass
class Slice:
    digest: str
    since: int
    reads: dict[Read, Seen] = field(default_factory=dict)


@dataclass
class Open:
    claim: Claim
    table: str
    label: int
    reads: dict[Read, Seen]


class Suspects(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.desk: Desk = desk()
        self.desk.apply(
            *(
                table(
                    name,
                    partitioned=name in {"raw.a", "core.b"},
                    mode=Mode.REPLACE if name in REPLACES else Mode.MERGE if name == "mart.m" else Mode.APPEND,
                    keys=("id",) if name == "mart.m" else (),
                    reads=reads,
                )
                for name, reads in READS.items()
            )
        )
        self.slices: dict[Key, Slice] = {}
        self.open: list[Open] = []
        self.skipped: set[Key] = set()
        self.asked: set[Key] = set()

    def teardown(self) -> None:
        self.desk.ledger.close()

    def seen(self, read: Read) -> Seen:
        name, low, high = read
        if low >= high:
            return frozenset()
        held = {label: made for (of, label), made in self.slices.items() if of == name}
        if name in REPLACES:
            standing = [label for label in sorted(held) if label >= low and held[label].since <= low][:1]
            return frozenset((label, held[label].digest) for label in standing if held[label].digest != "0:0:0")
        return frozenset(
            (label, made.digest) for label, made in held.items() if low <= label < high and made.digest != "0:0:0"
        )

    def stale(self) -> set[Key]:
        return {
            key
            for key, made in self.slices.items()
            if any(self.seen(read) != then for read, then in made.reads.items())
        }

    def resting(self) -> set[Key]:
        """Return by brute force the batches that depend on suspect, requested or running ones."""
        found = self.stale() | self.asked | {(held.table, held.label) for held in self.open}
        found &= set(self.slices)
        while True:
            more = {
                key
                for key, made in self.slices.items()
                for name, low, high in made.reads
                if any(
                    of == name and low < label + 1 and high > min(label, self.slices[of, label].since)
                    for of, label in found
                )
            }
            if more <= found:
                return found
            found |= more

    def free(self, name: str, label: int) -> bool:
        regular = name not in {"raw.a", "core.b"}
        busy = any(held.table == name and (regular or held.label == label) for held in self.open)
        return not busy and (name, label) not in self.skipped

    def take(self, name: str, label: int, spans: list[tuple[int, int]]) -> Open:
        reads: list[Read] = []
        for source, (low, length) in zip(READS[name], spans, strict=False):
            reads.append((source, low, low + (min(length, 1) if source in REPLACES else length)))
        pinned = [self.desk.read(*read) for read in reads]
        seen = {read: self.seen(read) for read in reads}
        claim = self.desk.claim(name, label, reads={label: pinned}, restates="the test says so")
        return Open(claim, name, label, seen)

    def record(self, held: Open, digest: str, since: int) -> None:
        stands = day(since) if held.table in REPLACES else None
        made = result(held.label, digest=digest, stands_from=stands)
        self.desk.ledger.claims.record_done(held.claim, [made])
        since = since if held.table in REPLACES else held.label
        self.slices[held.table, held.label] = Slice(digest, since, held.reads)
        self.asked.discard((held.table, held.label))

    @rule(name=st.sampled_from(sorted(READS)), label=LABELS, digest=DIGESTS, back=st.integers(0, 2),
          spans=st.lists(SPANS, min_size=2, max_size=2))  # fmt: skip
    def make(self, name: str, label: int, digest: str, back: int, spans: list[tuple[int, int]]) -> None:
        if self.free(name, label):
            self.record(self.take(name, label, spans), digest, label - back)

    @rule(name=st.sampled_from(sorted(READS)), label=LABELS, spans=st.lists(SPANS, min_size=2, max_size=2))
    def begin(self, name: str, label: int, spans: list[tuple[int, int]]) -> None:
        if self.free(name, label):
            self.open.append(self.take(name, label, spans))

    @precondition(lambda self: self.open)
    @rule(data=st.data(), digest=DIGESTS, ending=st.sampled_from(["done", "done", "failed", "lost"]))
    def end(self, data: Any, digest: str, ending: str) -> None:
        held = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        if ending == "done":
            self.record(held, digest, held.label)
        elif ending == "failed":
            self.desk.ledger.claims.record_failed(held.claim, error="no", is_transient=False)
        else:
            self.desk.ledger.claims.close_lost(held.claim, "gone")

    @rule(name=st.sampled_from(sorted(READS)), label=LABELS)
    def skip_or_retry(self, name: str, label: int) -> None:
        if (name, label) in self.skipped:
            self.desk.ledger.decisions.retry(name, [day(label)], who="ann")
            self.skipped.discard((name, label))
        elif self.free(name, label) and (name, label) not in self.slices:
            self.desk.ledger.decisions.skip(name, [Window(day(label), day(label + 1))], who="ann", why="x")
            self.skipped.add((name, label))

    @precondition(lambda self: self.slices)
    @rule(data=st.data())
    def ask(self, data: Any) -> None:
        name, label = data.draw(st.sampled_from(sorted(self.slices)))
        if self.free(name, label):
            self.desk.ledger.decisions.request_restate(name, [day(label)], "recompute", who="ann")
            self.asked.add((name, label))

    @invariant()
    def flags_are_exact(self) -> None:
        cells = self.desk.ledger.past.grid(list(READS))
        marked = {(cell.table, (cell.label - day(0)).days) for cell in cells if cell.is_suspect}
        assert marked == self.stale()

    @invariant()
    def the_snapshot_tells_all_that_rest_on_changes(self) -> None:
        snapshot = self.desk.ledger.reads.snapshot(self.desk.flow)
        told = {(name, (label - day(0)).days) for name in READS for label in snapshot.of(name).suspects}
        with_reads = {key for key in self.resting() if self.slices[key].reads}
        assert with_reads <= told
        for name in READS:
            for label, facts in snapshot.of(name).suspects.items():
                for fact in facts:
                    read = (fact.table, (fact.low - day(0)).days, (fact.high - day(0)).days)
                    then = self.slices[name, (label - day(0)).days].reads[read]
                    assert (fact.recorded == fact.current) == (then == self.seen(read))

    @invariant()
    def sums_are_those_of_the_slices(self) -> None:
        require_sums(self.desk.ledger)

    @invariant()
    def slices_are_those_that_were_made(self) -> None:
        for name in READS:
            found = {
                (name, (piece.label - day(0)).days): piece.digest
                for piece in self.desk.ledger.reads.slices(name, day(-9), day(99))
            }
            assert found == {key: made.digest for key, made in self.slices.items() if key[0] == name}


TestSuspects = Suspects.TestCase
TestSuspects.settings = settings(max_examples=10, stateful_step_count=40, phases=[Phase.generate])


@pytest.mark.soak
class TestManySuspects(Suspects.TestCase):  # type: ignore[valid-type,misc]  # made by hypothesis
    """The same with twenty times as many histories."""

    settings = settings(max_examples=200, stateful_step_count=40, phases=[Phase.generate])
