"""Random histories of two ledgers: the first differences of two revisions equal those of a brute-force walk.

The oracle keeps every commit in a list. The inputs of a batch are the newest commits of each label before its claim.
The oracle compares them one by one, without the contents that the ledger records.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from tests.ledgers import ZERO, Desk, day, desk, result, table
from waterclock.flow.enums import Kind, Mode
from waterclock.operations import difference_causes
from waterclock.operations.difference_causes import CauseKind, Causes, Trail, find_causes

DAYS, STEPS, ASKED, SEEDS = 4, 20, 14, 12
COLLECTS, REPLACES = {"raw.a", "dim.x"}, {"dim.x"}
READS = {
    "raw.a": (),
    "dim.x": (),
    "core.b": ("raw.a",),
    "core.p": ("core.b", "core.p"),
    "mart.m": ("core.b", "dim.x"),
    "mart.c": ("mart.m", "core.p"),
}
DIGESTS = ("0:0:0", "1:1:1", "2:2:2", "3:3:3", None)
Span = tuple[int, int]
Found = set[tuple[CauseKind, str, int]]


@dataclass(frozen=True)
class Commit:
    """One revision: the result of a claim, and the commits of its ledger before the claim."""

    table: str
    label: int
    claim: int
    digest: str | None
    since: int
    code: str
    reads: dict[str, Span]
    before: tuple[Commit, ...] = field(repr=False)

    def seen(self, name: str) -> dict[int, Commit]:
        """Return the commits of an input that were the newest of their labels, and that its read contains."""
        low, high = self.reads.get(name, (0, 0))
        newest = {each.label: each for each in self.before if each.table == name}
        if low >= high:
            return {}
        if name in REPLACES:
            standing = [label for label in sorted(newest) if label >= low and newest[label].since <= low]
            return {label: newest[label] for label in standing[:1]}
        return {label: each for label, each in newest.items() if low <= label < high}


@dataclass
class Life:
    """A ledger and all its commits."""

    desk: Desk
    commits: list[Commit] = field(default_factory=list)

    def step(self, dice: random.Random) -> None:
        self.make(dice, dice.choice(list(READS)), dice.randrange(DAYS))

    def make(self, dice: random.Random, name: str, label: int) -> None:
        back = dice.choice((0, 0, 0, 1, 2))
        spans = {
            of: (label - 1, label) if of == name
            else (label, label + 1) if of in REPLACES
            else (0, label + 1) if name in {"mart.m", "mart.c"}
            else (label - back, label + 1)
            for of in READS[name]
        }  # fmt: skip
        code = dice.choice(("code of " + name,) * 4 + ("new code of " + name,))
        digest = dice.choice(DIGESTS) if dice.random() < 0.4 else DIGESTS[1]
        since = dice.randint(0, label) if name in REPLACES else label
        self.desk.clock.pass_by(seconds=1)
        pins = [self.desk.read(of, *span) for of, span in spans.items()]
        claim = self.desk.claim(name, label, reads={label: pins}, restates="a test", code=code)
        stands = day(since) if name in REPLACES else None
        made = result(label, digest=digest, version=len(self.commits) + 1, stands_from=stands)
        self.desk.ledger.claims.record_done(claim, [made])
        before = tuple(self.commits)
        self.commits.append(Commit(name, label, claim.number, digest, since, code, spans, before))

    def fork(self, folder: Path, path: Path) -> Life:
        with closing(sqlite3.connect(folder / "ledger.db")) as database:
            database.execute("VACUUM INTO ?", [str(path / "ledger.db")])
        other = desk(path)
        other.clock.at = self.desk.clock.at
        other.clock.pass_by(milliseconds=500)
        return Life(replace(other, flow=self.desk.flow), list(self.commits))


def brute_force(old: Commit, new: Commit) -> Found:
    """Walk both histories by comparing each commit that was an input."""
    found: Found = set()
    known: set[tuple[int, int]] = set()
    waiting: list[tuple[Commit, Commit]] = [(old, new)]
    while waiting:
        mine, theirs = waiting.pop()
        if (id(mine), id(theirs)) in known:
            continue
        known.add((id(mine), id(theirs)))
        at = (mine.table, mine.label)
        is_other_code = mine.code != theirs.code
        differs = False
        for name in {**mine.reads, **theirs.reads}:
            left, right = mine.seen(name), theirs.seen(name)
            spans = mine.reads.get(name), theirs.reads.get(name)
            has_child = has_outside = False
            for label in {*left, *right}:
                one, other = left.get(label), right.get(label)
                if one is not None and other is not None:
                    if one is not other and (one.digest is None or one.digest != other.digest):
                        waiting.append((one, other))
                        has_child = True
                    continue
                [alone] = [each for each in (one, other) if each is not None]
                if alone.digest == "0:0:0":
                    continue
                if spans[0] == spans[1] or all(low <= label < high for low, high in filter(None, spans)):
                    found.add((CauseKind.MISSING, name, label))
                    has_child = True
                else:
                    has_outside = True
            if has_outside and not has_child and not is_other_code:
                found.add((CauseKind.RANGE, *at))
                differs = True
            differs |= has_child
        if is_other_code:
            found.add((CauseKind.CODE, *at))
        elif not differs:
            kind = CauseKind.DIGEST if None in (mine.digest, theirs.digest) else CauseKind.ROWS
            found.add((CauseKind.SOURCE if mine.table in COLLECTS else kind, *at))
    return found


def flat(causes: Causes) -> Found:
    return {(each.kind, each.table, (label - ZERO).days) for each in causes.found for label in each.labels}


def walk(before: Life, after: Life, old: Commit, new: Commit) -> Causes:
    sides = Trail(before.desk.ledger), Trail(after.desk.ledger)
    return find_causes(*sides, (new.table, day(new.label)), (old.claim, new.claim), str.__eq__)


def require_paths(found: Causes, root: tuple[str, datetime]) -> None:
    """Verify each path against the declared reads: each batch of it reads the one before."""
    for cause in found.found:
        steps = [cause.table, *(name for name, _ in cause.path)]
        assert all(of in READS[reader] for of, reader in pairwise(steps))
        assert (cause.path[-1] if cause.path else (cause.table, cause.labels[0])) == root


def test_the_first_differences_are_those_of_a_brute_force_walk(tmp_path: Path) -> None:
    kinds = Counter[CauseKind]()
    for seed in range(SEEDS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        compare_random_histories(folder, seed, kinds)
    assert set(kinds) == set(CauseKind) - {CauseKind.REVERT, CauseKind.UNKNOWN}, kinds


def compare_random_histories(tmp_path: Path, seed: int, kinds: Counter[CauseKind]) -> None:
    dice = random.Random(seed)
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    here = Life(desk(one))
    here.desk.apply(
        *(
            table(
                name,
                kind=Kind.COLLECT if name in COLLECTS else Kind.TRANSFORM,
                partitioned=name in {"raw.a", "core.b"},
                mode=Mode.REPLACE if name in REPLACES else Mode.MERGE if name == "mart.m" else Mode.APPEND,
                keys=("id",) if name == "mart.m" else (),
                reads=reads,
            )
            for name, reads in READS.items()
        )
    )
    made = [(name, label) for name in READS for label in range(DAYS) if dice.random() < 0.9]
    for name, label in made:
        here.make(dice, name, label)
    for _ in range(STEPS):
        here.step(dice)
    there = here.fork(one, two)
    for _ in range(STEPS):
        dice.choice((here, there)).step(dice)
    asked = [
        (before, after, old, new)
        for before, after in ((here, here), (here, there), (there, here))
        for new in after.commits
        for old in before.commits
        if new.table not in COLLECTS and (old.table, old.label) == (new.table, new.label) and old is not new
        if old.digest is None or old.digest != new.digest
    ]
    assert asked
    for before, after, old, new in dice.sample(asked, min(ASKED, len(asked))):
        found = walk(before, after, old, new)
        assert found.is_complete
        assert flat(found) == brute_force(old, new)
        require_paths(found, (new.table, day(new.label)))
        kinds.update(each.kind for each in found.found)


def test_a_walk_stops_at_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(difference_causes, "MOST_BATCHES", 2)
    life = Life(desk(tmp_path))
    life.desk.apply(table("raw.a", kind=Kind.COLLECT, partitioned=True), table("core.b", reads=("raw.a",)))
    claims = []
    for digest in ("1:1:1", "2:2:2"):
        for label in range(5):
            life.desk.done("raw.a", label, digest=digest, restates="a test")
        claim = life.desk.claim("core.b", 4, reads={4: [life.desk.read("raw.a", 0, 5)]}, restates="a test")
        life.desk.done("core.b", 4, digest=digest, claim=claim)
        claims.append(claim.number)
    trail = Trail(life.desk.ledger)
    found = find_causes(trail, trail, ("core.b", day(4)), (claims[0], claims[1]), str.__eq__)
    assert not found.is_complete
    assert found.compared == 2
    assert flat(found) == {(CauseKind.SOURCE, "raw.a", 0)}  # the oldest label
