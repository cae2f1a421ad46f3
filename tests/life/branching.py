"""A branch in a life: it changes the code of one table, and production continues until it is promoted or deleted.

The branch has its own oracle, a copy of that of production from the time of its creation. Until the promotion,
production has the same results as without a branch: its oracle does not know about it. The events of the branch are
drawn from a separate generator, so that until then the life equals the one that its seed has without a branch.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.life.books import Seen, Unexpected
from tests.life.branch_rules import (
    Difference,
    branch_options,
    differences,
    is_known,
    newest_labels,
    own_tables,
    request_newest,
    start_branch,
    try_again,
    unchanged,
)
from tests.life.branch_world import BranchWorld
from tests.life.declarations import Declared
from tests.life.drawing import Flow
from tests.life.erasing import Erasing
from tests.life.oracle import Oracle
from tests.life.part import FOLDS, Part
from tests.life.parts import Drop
from waterclock.errors import WaterclockError
from waterclock.operations.promotion import Promotion
from waterclock.timelabel.label import label_of

LOSSES = ("reset", "renamed", "maintain", "rebuild", "older log put back", "erased")
"""Events of the base that may remove or replace borrowed data: the branch then shows the same rows, or raises E475."""
DAMAGES = ("given up", "damaged")


def has_branch(seed: int) -> bool:
    """Return whether the life of a seed has a branch: 115 of 240 have one, and of two neighbours in a day at most one.

    A day runs two lives of the first soak that are neighbours in the order of their names.
    """
    return seed % 2 == 0 and seed >= 10


@dataclass
class Branch:
    """A branch of a life: the table whose code is `changed`, with its new `parts`, and the tables that are its `own`.

    `since`: the number of events in the story before the branch.
    """

    changed: str
    flow: Flow
    oracle: Oracle
    since: int
    parts: list[Part]
    world: BranchWorld | None
    own: tuple[str, ...] = ()
    is_made: bool = False


@dataclass
class Branching(Erasing):
    """A life that may have a branch. `chance` draws the events of the branch; None if the life has none."""

    chance: Random | None = None
    branch: Branch | None = None
    is_branch_over: bool = False
    had_branch: list[str] = field(default_factory=list)
    """The outcome of the branch, for tests."""

    def run(self, *, is_last: bool = False) -> None:
        """Make the due batches and check them, as a whole life does."""
        raise NotImplementedError

    def attend_branch(self, *, is_last: bool = False) -> None:
        """Create, make or end the branch after a run, by chance; the last time perform all remaining steps."""
        for _ in range(3 if is_last else 1):
            if self.chance is not None and not self.is_branch_over and (is_last or self.chance.random() < 0.4):
                self._go_on()

    def _go_on(self) -> None:
        if self.branch is None:
            self._create()
        elif self._is_damaged(self.branch):
            self._forget(self.branch, "deleted")
        elif not self.branch.is_made:
            self._make(self.branch)
        else:
            self._end(self.branch)

    def _create(self) -> None:
        assert self.chance is not None
        of_code = [name for name, table in self.flow.items() if table.kind == "TRANSFORM" and not table.answers]
        names = [name for name in of_code if self.oracle.books[name].shown]
        if not names:  # a branch without tables makes no batch
            return
        changed = self.chance.choice(names)
        flow, oracle = deepcopy((self.flow, self.oracle))
        flow[changed].code += self.chance.randint(1, 900)
        if self.chance.random() < 0.3:
            flow[changed].parts = _with_other_rules(flow[changed])
        world = None if self.world is None else BranchWorld(self.world, deepcopy(flow))
        parts = flow[changed].parts
        start_branch(oracle)
        self.branch = Branch(changed, flow, oracle, len(self.story), parts, world)
        self._say(changed, "changed in a branch")
        self.branch.own = tuple(own_tables(flow, changed))
        for name, table in self.flow.items():
            if table.kind != "PUBLISH":
                self._meet("made in a branch" if name in self.branch.own else "borrowed by a branch", table.words)
        if world is None:
            return
        files = world.production_files()
        world.create(self.moment(self.oracle.today))
        self._hold_files(world, files)
        self._look(self.branch)

    def _make(self, branch: Branch) -> None:
        """Make the newest labels of the branch, and compare its tables with the rules and with production."""
        branch.is_made = True
        self.story.append(f"the branch is made: {', '.join(branch.own)}")
        oracle = branch.oracle
        newest = {name: newest_labels(oracle, name, branch.own) for name in branch.own}
        for name, labels in newest.items():
            request_newest(oracle, name, labels)
        seen = None
        if branch.world is not None:
            files = branch.world.production_files()
            try:
                outcome = branch.world.make()
                self.story.append(f"the branch: {outcome.done} done, {len(outcome.failed)} failed")
                self._hold_files(branch.world, files)
                if self._is_lost(branch) and any(_is_base_changed(it.error) for it in outcome.failed):
                    self._forget(branch, "lost while it was made")
                    return
                seen = self._seen(branch)
            except WaterclockError as error:
                self._hold_loss(branch, error)
                return
        oracle.begin()
        for name, table in branch.flow.items():
            if table.kind == "PUBLISH":
                continue
            if seen is not None and name in branch.own:
                oracle.pick(name, seen[name].ticks)
            if name in branch.own:
                oracle.close(name, seen[name].closed if seen else None)
            is_own = name in branch.own
            options = branch_options(oracle, name, newest[name]) if is_own else unchanged(oracle, name)
            self._take(branch, name, options, seen)
        self._compare(branch)

    def _look(self, branch: Branch) -> None:
        """Verify that all tables of the branch are unchanged."""
        if branch.world is None:
            return
        try:
            seen = self._seen(branch)
        except WaterclockError as error:
            self._hold_loss(branch, error)
            return
        for name, table in branch.flow.items():
            if table.kind != "PUBLISH":
                self._take(branch, name, unchanged(branch.oracle, name), seen)

    def _take(self, branch: Branch, name: str, options: Any, seen: dict[str, Seen] | None) -> None:
        try:
            branch.oracle.take(name, options, seen[name] if seen else None)
        except Unexpected as error:
            raise Unexpected(f"in the branch: {error}") from error

    def _compare(self, branch: Branch) -> None:
        """Compare the branch with production as `diff` does, and by brute force."""
        if branch.world is None or self._is_lost(branch):
            return
        found = branch.world.compare()
        for each in found.tables:
            if each.error is not None:
                raise Unexpected(f"diff of {each.name}: {each.error}")
        actual = {each.name: each.found for each in found.tables}
        for name, table in branch.flow.items():
            if table.kind == "PUBLISH":
                continue
            expected = differences(self.oracle, branch.oracle, name)
            of_table = actual.get(name)
            shown: dict[int, Difference] = {}
            for it in of_table.differing if of_table else ():
                label, rows = branch.world.base.number(it.label), it.counts
                if is_known(self.oracle, branch.oracle, name, label):
                    shown[label] = Difference(it.before, it.after, rows.added, rows.removed, rows.changed)
            if shown != expected:
                raise Unexpected(f"diff of {name} is {shown}, not {expected}")

    def _end(self, branch: Branch) -> None:
        """Promote or delete the branch."""
        assert self.chance is not None
        self._look(branch)
        if self.is_branch_over:
            return
        self._compare(branch)
        is_possible = not self.paused and not self._is_lost(branch)
        if is_possible and self.chance.random() < 0.8:
            self._promote(branch)
        else:
            self._forget(branch, "deleted")

    def _promote(self, branch: Branch) -> None:
        """Promote the branch: production gets its code. Adopted labels have the same rows as computed ones."""
        for name in branch.own:
            self._say(name, "promoted")
        table = self.flow[branch.changed]
        table.code, table.parts = branch.flow[branch.changed].code, branch.parts
        if branch.world is None:
            self._ask_for_made(branch)
            self._forget(branch, "promoted")
            self.run()
            return
        is_calm = not self.oracle.troubles()
        adopted_before = branch.world.adopted()
        plan, outcome, jobs = branch.world.promote(self.moment(self.oracle.today))
        self._ask_for_planned(branch.world, plan)
        adopted = branch.world.adopted() - adopted_before
        predicted = {(name, label_of(label)) for name, labels in plan.adopted.items() for label in labels}
        self.story.append(
            f"adopted {sorted(adopted)}, equal {plan.equal}, computed {dict(plan.computed)}: {dict(plan.reasons)}"
        )
        if outcome is not None and is_calm:
            if adopted != predicted:
                raise Unexpected(f"a promotion adopted {sorted(adopted)}, not {sorted(predicted)}")
            is_folded = any(self.flow[name].mode in FOLDS for name in plan.tables)  # Spark computes their states
            if not plan.computed and not is_folded and jobs:
                raise Unexpected(f"a promotion that adopts all labels ran {jobs} jobs")
        digests = branch.world.base.tiny.digests()
        wrong = [at for at in adopted if digests.get(at) != branch.world.promoted.get(at)]
        if wrong:
            raise Unexpected(f"adopted labels have other digests than in the branch: {wrong}")
        self._forget(branch, "promoted")
        self.run()

    def _ask_for_made(self, branch: Branch) -> None:
        """Request in production the labels that the branch has made, as a promotion does."""
        for name in branch.own:
            for label, made in branch.oracle.books[name].shown.items():
                try_again(self.oracle, name, label)
                shown = self.oracle.books[name].shown.get(label)
                if shown is not None and shown != made and made.code == self.flow[name].code:
                    self.oracle.ask(name, label, "recompute")

    def _ask_for_planned(self, world: BranchWorld, plan: Promotion) -> None:
        """Request in production the labels that a promotion of the engine requests."""
        for name, stopped in plan.stopped.items():
            for at in stopped:
                try_again(self.oracle, name, world.base.number(at))
        for name, older in plan.older.items():
            for at in older:
                self.oracle.ask(name, world.base.number(at), "recompute")

    def _forget(self, branch: Branch, what: str) -> None:
        """Delete the branch; verify that no part of it remains."""
        self.story.append(f"the branch was {what}, and is gone")
        self.had_branch.append(what)
        for name in branch.own:
            if name in self.flow:
                self._meet(f"branch {what}", self.flow[name].words)
        self.branch, self.is_branch_over = None, True
        if branch.world is not None:
            files = branch.world.production_files()
            if left := branch.world.delete():
                raise Unexpected(f"after deletion of the branch {left} remains")
            self._hold_files(branch.world, files)

    # events of the base

    def _events(self, branch: Branch, kinds: tuple[str, ...]) -> bool:
        return any(line.startswith(kinds) for line in self.story[branch.since :])

    def _is_damaged(self, branch: Branch) -> bool:
        return self._events(branch, DAMAGES)

    def _is_lost(self, branch: Branch) -> bool:
        """Return whether the base may have removed or replaced data that the branch borrows."""
        return self._events(branch, LOSSES) or self._is_damaged(branch)

    def _hold_loss(self, branch: Branch, error: WaterclockError) -> None:
        """Delete a branch that is no longer usable. Raise the error if no event of its base explains it."""
        if not self._is_lost(branch) or not (_is_base_changed(error) or self._is_damaged(branch)):
            raise error
        self._forget(branch, "lost")

    def _seen(self, branch: Branch) -> dict[str, Seen]:
        assert branch.world is not None
        with branch.world.declared():
            return branch.world.world.seen()

    @staticmethod
    def _hold_files(world: BranchWorld, before: dict[str, str]) -> None:
        """Verify that no file of production has changed."""
        after = world.production_files()
        changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
        if changed:
            raise Unexpected(f"a branch changed files of production: {changed}")


def _with_other_rules(table: Declared) -> list[Part]:
    """Return the parts of a table without its rule ELSE DROP, or with one if it has none."""
    if table.has(Drop):
        return [part for part in table.parts if not isinstance(part, Drop)]
    return [*table.parts, Drop()]


def _is_base_changed(error: BaseException | None) -> bool:
    return isinstance(error, WaterclockError) and error.code == "E475"
