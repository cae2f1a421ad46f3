"""Updates what other engines read of a table after each commit: its symlink manifest, its entry in a metastore."""

from __future__ import annotations

from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.errors import to_error
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind
from waterclock.storage import symlink_manifests


def update_for_other_engines(work: RunContext, table: Table) -> None:
    """Update the symlink manifest of a table that declares one, and its entry in the environment's metastore.

    A failure is only reported, as the rows are committed: the next commit and `waterclock maintain` try again.
    """
    if table.manifest is not None:
        try:
            symlink_manifests.write_newest_manifests(work.folder(table))
        except Exception as raised:  # noqa: BLE001 - the rows are committed; the manifest is updated later
            cause = to_error(raised, where=table.name).what
            work.listener.on_message(
                f"{table.name}: its symlink manifest is out of date until the next commit or `waterclock maintain`: "
                f"{cause}"
            )
    if problem := enter_in_catalog(work, table):
        work.report_once(problem)


def enter_in_catalog(work: RunContext, table: Table) -> str | None:
    """Enter a table in the environment's metastore, if there is one. Return a sentence if that is not possible."""
    if work.catalog is None or table.kind is Kind.PUBLISH:
        return None
    why = work.catalog.enter(table.name, work.folder(table))
    again = "the next commit and `waterclock maintain` try again"
    return None if why is None else f"{table.name} is not in the catalog {work.catalog.metastore}: {why}; {again}"
