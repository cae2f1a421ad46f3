"""The tables of a lineage drawing, their inputs and their states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from waterclock.operations.display_states import State
from waterclock.operations.freshness import Freshness, freshness
from waterclock.operations.lineage import Arrows, map_inputs
from waterclock.operations.project_opening import OpenedProject
from waterclock.operations.timeline_bars import causes_of
from waterclock.planner.plan import Plan
from waterclock.planner.request import PlanRequest
from waterclock.selection import Labels
from waterclock.ui.page_query import PageQuery

_FAR_FROM = 60  # tables, above which a box has only a name and a state
_ROOTS = frozenset({State.FAILED, State.HELD})


@dataclass(frozen=True, slots=True)
class Scene:
    """The tables of a lineage drawing, upstream first, with their states.

    `reads` has the inputs of each table of the flow. `roots` maps each table to the tables that block it.
    """

    at: OpenedProject
    names: Sequence[str]
    reads: Arrows
    plan: Plan
    found: Mapping[str, Freshness]
    roots: Mapping[str, set[str]]
    labels: Mapping[str, Labels] = field(default_factory=dict)
    here: str | None = None
    has_stubs: bool = True

    @classmethod
    def build(
        cls,
        at: OpenedProject,
        parameters: PageQuery,
        names: set[str],
        labels: Mapping[str, Labels] | None = None,
        here: str | None = None,
        *,
        has_stubs: bool = True,
    ) -> Scene:
        """Build the scene of some tables. Cost: a plan."""
        shown = [name for name in at.flow.order if name in names]
        if labels is None:
            _, every = PageQuery(labels=parameters.labels).tables(at)
            labels = {name: each for name, each in every.items() if name in names}
        plan = at.planner.plan(at.snapshot, at.now, PlanRequest(only=shown))
        found = freshness(at.flow, shown, at.snapshot, plan)
        roots: dict[str, set[str]] = {}
        for (table, _), (root, _) in causes_of(plan.batches).items():
            roots.setdefault(table, set()).add(root)
        return cls(at, shown, map_inputs(at.flow), plan, found, roots, labels, here, has_stubs)

    @property
    def is_far(self) -> bool:
        """Whether there are so many tables that a box has only room for a name and a state."""
        return len(self.names) > _FAR_FROM

    def is_bad(self, source: str, target: str) -> bool:
        """Return whether `target` is blocked by its input `source`, or by a table that blocks `source`, too."""
        own = {source} if self.found[source].state in _ROOTS else set()
        return bool(self.roots.get(target, set()) & (own | self.roots.get(source, set())))

    def is_hidden_bad(self, name: str) -> bool:
        """Return whether a table is blocked by a table that is not a shown input and blocks no shown input."""
        seen = {source for source in self.reads[name] if source in self.found}
        led = seen.union(*(self.roots.get(source, set()) for source in seen))
        return bool(self.roots.get(name, set()) - led)

    def edges(self) -> list[tuple[str, str]]:
        """Return the edges from inputs to readers among the shown tables."""
        shown = set(self.names)
        return [(source, target) for target in self.names for source in self.reads[target] if source in shown]
