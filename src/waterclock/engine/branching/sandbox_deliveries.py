"""Makes the publishes of a branch that deliver to a sandbox start over: it has nothing that the base delivered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from waterclock.engine.branching.branch_state import BranchState, write_branch_state
from waterclock.engine.run_context import RunContext
from waterclock.faults import fault
from waterclock.ledger.write.resetting import EmptyingCommit


def forget_base_deliveries(work: RunContext, state: BranchState, publishes: Iterable[str]) -> BranchState:
    """Forget in the branch's ledger what its base delivered by publishes, once for each. Return the new state.

    If it is interrupted after a publish was reset and before that was recorded, it is reset again: it has delivered
    nothing since.
    """
    for name in publishes:
        if name in state.sandboxed:
            continue
        maintenance, who = work.ledger.maintenance, work.settings.who
        if maintenance.is_resettable(name):
            record = work.ledger.reads.table(name)
            claim, _ = maintenance.begin_reset(name, who=who)
            emptied = EmptyingCommit(record.head_version, claim)
            maintenance.end_reset(
                work.flow.tables[name], emptied, start=record.start, who=who, why=f"sandbox of {state.name}"
            )
        fault("branch publish reset")
        state = replace(state, sandboxed=(*state.sandboxed, name))
        write_branch_state(work.project, state)
    return state
