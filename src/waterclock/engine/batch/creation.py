"""Creates the table of a group before its first claim, and checks an existing table or destination."""

from __future__ import annotations

from waterclock.engine.batch.attempt import GroupAttempt
from waterclock.engine.batch.bound_inputs import Bound
from waterclock.engine.batch.commit import refuse_foreign
from waterclock.engine.batch.destinations import refuse_lost
from waterclock.engine.batch.results import MadeSlices
from waterclock.engine.damage import require_log
from waterclock.flow.choices import Kind
from waterclock.storage.commit.creation import create_table
from waterclock.storage.log.open_tables import has_columns


def create_if_missing(attempt: GroupAttempt, bound: Bound) -> MadeSlices | None:
    """Create the table before any claim, so that a takeover has a table in which to kill the claim.

    Returns the rows that were made to find its columns, or None if the table already exists.
    """
    work, table = attempt.work, attempt.table
    if table.kind is Kind.PUBLISH:
        refuse_lost(work, table, attempt.group)
        return None
    if has_columns(attempt.folder):
        refuse_foreign(work, table)
        return None
    require_log(work, table.name)
    made, is_partitioned = attempt.make(bound), table.is_partitioned
    with attempt.step("create"):
        create_table(attempt.folder, made.schema, is_partitioned=is_partitioned, project=work.flow.project)
    # late rows are separated again under the claim: from then on no window can be closed before its slice
    return made if table.late_rows is None else None
