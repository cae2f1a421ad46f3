"""Decides whether a batch that is to be made again may adopt an earlier revision instead. Pure.

It may if the revision has the same code, the same window, and inputs with the same content. Tables whose rows or rules
depend on anything else are excluded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from waterclock.batches.earlier_revisions import EarlierRevision, input_identities
from waterclock.batches.ledger_snapshot import FOLLOW, RECOMPUTE
from waterclock.batches.records import MISSING, Input, warnings_of
from waterclock.flow.checks import every_rule
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind, Scope
from waterclock.flow.measures import GIVEN_UP
from waterclock.planner.plan import Batch

_RELEASED = "released"


def has_repeatable_rows(table: Table) -> bool:
    """Return whether rows and rules of a table's batches depend only on its code, the window and the inputs.

    Excluded are collects, whose sources are no recorded inputs, tables that depend on when windows were closed, and
    rules that compare a batch with earlier ones or with the whole table.
    """
    if table.kind is not Kind.TRANSFORM or table.closes or table.late_rows is not None or table.open_of is not None:
        return False
    if table.function is not None and table.function.step is not None:
        return False
    return not any(rule.comparison is not None or rule.scope is Scope.TABLE for rule in every_rule(table))


def is_repeated(batch: Batch) -> bool:
    """Return whether a batch is made again only because its inputs have changed, and has all of its inputs."""
    return batch.is_revision and batch.verb in {None, FOLLOW} and _has_only_recorded_inputs(batch)


def is_promotable(batch: Batch) -> bool:
    """Return whether a batch may adopt a slice of a branch: it has all of its inputs, and its rows are not skipped."""
    return batch.verb in {None, FOLLOW, RECOMPUTE} and _has_only_recorded_inputs(batch)


def _has_only_recorded_inputs(batch: Batch) -> bool:
    return not batch.missing and not batch.opened and batch.closing is None and batch.stands_from is None


def find_equal_revisions(
    made: Sequence[EarlierRevision], reads: Sequence[Input], is_same_code: Callable[[str], bool]
) -> tuple[EarlierRevision, ...]:
    """Return the replaced revisions of a label that were made by the same code from the same inputs, newest first.

    Revisions without their rows, without an input, or that a user released despite a rule are left out.
    """
    wanted = input_identities(reads)
    return tuple(
        each
        for each in reversed(made)
        if not each.is_current
        and each.digest is not None
        and each.stands_from is None
        and is_same_code(each.code)
        and input_identities(each.inputs) == wanted
        and MISSING not in each.source
        and _RELEASED not in each.measures
        and GIVEN_UP not in warnings_of(each.measures)
    )
