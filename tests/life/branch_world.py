"""The engine's side of a branch in a life: creates, makes, compares, promotes and deletes it, as the commands do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from tests.branches import contents
from tests.life.drawing import Flow, statements
from tests.life.world import World
from tests.tiny import Tiny
from waterclock.batches.earlier_revisions import PROMOTED
from waterclock.cli.actions.branch_creation import open_new_branch
from waterclock.cli.actions.branch_run import BranchRun, prepare_branch_run
from waterclock.cli.actions.promote import request_promotion
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import Project, load_project
from waterclock.engine.branching.branch_state import require_branch
from waterclock.engine.branching.creation import create_branch
from waterclock.engine.branching.deletion import delete_branch
from waterclock.engine.branching.known_branches import find_branch, find_branches
from waterclock.engine.branching.promotion import read_offered_revisions
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.engine.run_outcome import RunOutcome
from waterclock.engine.runner import Runner
from waterclock.engine.spark.session import Sessions
from waterclock.operations.branches import for_branch
from waterclock.operations.comparing import Comparison, ComparisonRequest, compare_tables
from waterclock.operations.promotion import Promotion, plan_promotion
from waterclock.selection import Labels

if TYPE_CHECKING:
    from waterclock.engine.run_context import RunContext

BASE, NAME = "dev", "try"
Place = tuple[str, str]
"""A table and a timelabel."""


@dataclass
class BranchTiny(Tiny):
    """The project of a life in the environment of its branch, which is only queried."""

    def load(self) -> Project:
        return load_project(self.root, env=NAME, capabilities=capabilities())

    @contextmanager
    def opened(self) -> Iterator[RunContext]:
        sessions = Sessions.from_session(self.spark)
        with open_workplace(self.load(), settings=self.settings, sessions=sessions, is_question=True) as work:
            yield work


@dataclass
class BranchWorld:
    """A branch of a life's world. Its own `flow` is declared by each method, followed by the flow of production."""

    base: World
    flow: Flow
    promoted: Mapping[Place, str] = field(default_factory=dict)
    """The digests that the branch had at its promotion, by table and timelabel."""

    @cached_property
    def tiny(self) -> BranchTiny:
        """The project in the environment of the branch."""
        tiny = self.base.tiny
        return BranchTiny(tiny.root, tiny.spark, tiny.name, tiny.storage, None, settings=tiny.settings)

    @cached_property
    def world(self) -> World:
        """The tables of the branch, for reading."""
        return World(self.tiny, self.flow, self.base.hours)

    @contextmanager
    def declared(self) -> Iterator[None]:
        """Declare the flow of the branch for the project, as in a separate checkout."""
        self.tiny.declare(statements(self.flow))
        try:
            yield
        finally:
            self.base.declare()

    def production_files(self) -> dict[str, str]:
        """Return the digests of all files of production, which a branch only reads."""
        return contents(self.base.tiny.root / self.base.tiny.storage)

    def create(self, tick: datetime) -> None:
        """Create the branch. `tick`: labels that end later are not made."""
        with self.declared():
            project = open_new_branch(self.tiny.root, NAME, BASE)
            create_branch(project, tick=tick, now=datetime.now(UTC), days=7, who="a life")

    def make(self) -> RunOutcome:
        """Make the newest labels of the changed tables and of those that depend on them."""
        sessions = Sessions.from_session(self.tiny.spark)
        with (
            self.declared(),
            open_workplace(
                for_branch(self.tiny.load()), settings=self.tiny.settings, sessions=sessions, is_branch_run=True
            ) as work,
        ):
            state = require_branch(work.project)
            _, found = prepare_branch_run(work, state, BranchRun())
            return Runner(work, only=tuple(found.spans), labels=found.spans).run_once(state.tick)

    def compare(self) -> Comparison:
        """Compare all tables of the branch with production, as `diff --all --against` does."""
        sessions = Sessions.from_session(self.tiny.spark)
        with self.declared():
            return compare_tables(self.tiny.load(), ComparisonRequest(against=self.base.tiny.load()), sessions)

    def promote(self, now: datetime) -> tuple[Promotion, RunOutcome | None, int]:
        """Promote the branch; return the plan, the run and the number of Spark jobs."""
        self.base.declare()
        self.promoted = self.tiny.digests()
        began = self._jobs()
        with self.base.tiny.opened() as work:
            work.offered = read_offered_revisions(self.tiny.load(), work.flow)
            plan = plan_promotion(work.flow, work.ledger, work.offered)
            if not plan.tables:
                return plan, None, 0
            request_promotion(work.ledger, plan)
            apply_flow(work, now)
            spans = {it: Labels.from_range(plan.labels_of(it)[0], plan.labels_of(it)[-1]) for it in plan.tables}
            outcome = Runner(work, only=tuple(spans), labels=spans).run_once(now)
        return plan, outcome, self._jobs() - began

    def adopted(self) -> set[Place]:
        """Return the labels of production that were adopted from a branch."""
        with self.base.tiny.ledger() as ledger:
            events = [row for row in ledger.past.rows("events") if row["kind"] == PROMOTED]
        return {(row["table"], row["timelabel"]) for row in events}

    def delete(self) -> list[str]:
        """Delete the branch; return its remaining branches and files."""
        root = self.tiny.root
        delete_branch(find_branch(root, NAME))
        left = [each.name for each in find_branches(root)]
        return left + [str(path) for path in root.rglob("*") if path.name in {NAME, ".branches"}]

    def _jobs(self) -> int:
        return int(self.tiny.spark._jsc.sc().dagScheduler().numTotalJobs())
