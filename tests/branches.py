"""A tiny project with production and a branch of it, and runs of both in this process."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.tiny import Tiny, described
from waterclock.cli.actions.branch_run import BranchRun, prepare_branch_run
from waterclock.cli.actions.promote import request_promotion
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import Project, load_project
from waterclock.engine.branching.branch_state import BranchState, require_branch
from waterclock.engine.branching.creation import create_branch
from waterclock.engine.branching.promotion import read_offered_revisions
from waterclock.engine.query.query import query
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.engine.run_outcome import RunOutcome
from waterclock.engine.runner import Runner
from waterclock.engine.spark.session import Sessions
from waterclock.operations.branches import for_branch
from waterclock.operations.promotion import Promotion, plan_promotion
from waterclock.selection import Labels

if TYPE_CHECKING:
    from waterclock.engine.run_context import RunContext

_CONNECTIONS = """
connections.shop = {{ path = "shop.sqlite" }}
connections.out = {{ path = "out.sqlite", create = true }}
connections.land = {{ path = "landing/new" }}
connections.files = {{ path = "files" }}
"""
ENVS = f"""
[project]
name = "{{name}}"
env = "prod"
[defaults]
start = "2020-01-01"
[env.prod]
storage = "{{storage}}"{_CONNECTIONS}
[env.clean]
storage = ".clean"{_CONNECTIONS}
[env.try]
from = "prod"
"""


@dataclass
class Branched(Tiny):
    """A project with the environments `prod`, `try` (a branch of it) and `clean` (with no data of either)."""

    toml: str | None = ENVS
    storage: str = ".prod"
    env: str = field(default="prod")

    def load(self) -> Project:
        return load_project(self.root, env=self.env, capabilities=capabilities())

    def of(self, env: str) -> Branched:
        """Return the same project in another environment."""
        return Branched(self.root, self.spark, self.name, self.storage, None, env=env)

    def copied(self, root: Path) -> Branched:
        made = super().copied(root)
        return Branched(made.root, self.spark, self.name, self.storage, None)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Query the storage of the environment."""
        sessions = Sessions.from_session(self.spark)
        with open_workplace(self.load(), settings=self.settings, sessions=sessions, is_question=True) as work:
            return list(query(work, sql, limit=10_000).rows)

    def create(self, tick: datetime, **options: Any) -> BranchState:
        """Create the branch."""
        values: dict[str, Any] = {"now": datetime.now(UTC), "days": 7, "who": "a test"} | options
        return create_branch(self.load(), tick=tick, **values)

    def make(self, *selection: str, labels: str | None = None) -> RunOutcome:
        """Make the own tables of the branch."""
        project = for_branch(self.load())
        sessions = Sessions.from_session(self.spark)
        with open_workplace(
            project, settings=self.settings, listener=self.heard, sessions=sessions, is_branch_run=True
        ) as work:
            return self.make_in(work, *selection, labels=labels)

    def make_in(self, work: RunContext, *selection: str, labels: str | None = None) -> RunOutcome:
        """Make the own tables of the branch with an open workplace."""
        state = require_branch(work.project)
        _, found = prepare_branch_run(work, state, BranchRun(selection, labels))
        outcome = Runner(work, only=tuple(found.spans), labels=found.spans).run_once(state.tick)
        assert not outcome.failed, described(outcome)
        return outcome

    def promote(self, branch: Branched, now: datetime) -> tuple[Promotion, RunOutcome]:
        """Promote a branch to this environment."""
        sessions = Sessions.from_session(self.spark)
        with open_workplace(self.load(), settings=self.settings, listener=self.heard, sessions=sessions) as work:
            work.offered = read_offered_revisions(branch.load(), work.flow)
            plan = plan_promotion(work.flow, work.ledger, work.offered)
            request_promotion(work.ledger, plan)
            apply_flow(work, now)
            spans = {it: Labels.from_range(plan.labels_of(it)[0], plan.labels_of(it)[-1]) for it in plan.tables}
            outcome = Runner(work, only=tuple(spans), labels=spans).run_once(now)
        assert not outcome.failed, described(outcome)
        return plan, outcome


def contents(folder: Path) -> dict[str, str]:
    """Return a digest of each file in a folder, and of the names of its folders."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
    }
