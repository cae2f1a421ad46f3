"""Checks SHUFFLE NONE against what is known of a table's query without Spark."""

from __future__ import annotations

from collections.abc import Iterator

from waterclock.dpl.query.shuffles import find_shuffles
from waterclock.dpl.query.storable_columns import span_of
from waterclock.dpl.resolve.unresolved_flow import UnresolvedFlow
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.statements import ParsedQuery
from waterclock.errors import WaterclockError
from waterclock.flow.checked_references import checked_references
from waterclock.flow.enums import FOLDS

_WORD = "SHUFFLE NONE"
_TOGETHER = "let one task read the rows, as in FROM (SELECT /*+ COALESCE(1) */ * FROM ...)"


def check_shuffles(flow: UnresolvedFlow) -> Iterator[WaterclockError]:
    """Yield an error for each table with SHUFFLE NONE whose batches Spark certainly makes with a shuffle."""
    for draft in flow.drafts.values():
        if draft.declared.is_unshuffled:
            yield from _check_table(draft)
            yield from _check_queries(flow, draft)


def _check_table(draft: UnresolvedTable) -> Iterator[WaterclockError]:
    whole = draft.at("SHUFFLE")
    mode = draft.declared.mode
    if mode in FOLDS:
        yield whole.refuse(
            "E385",
            f"a {mode.name} table cannot have {_WORD}",
            why="each batch moves the rows of a key into one task, which needs a shuffle",
            fix=f"make the rows in a PARTITIONED table with {_WORD}, and read it here",
        )
    if checked_references(draft.declared.columns):
        yield whole.refuse(
            "E385",
            f"a table with REFERENCES ... ELSE cannot have {_WORD}",
            why="each batch compares its rows with the keys of the other table, which needs a shuffle",
            fix=f"leave ELSE out of REFERENCES, or leave {_WORD} out",
        )


def _check_queries(flow: UnresolvedFlow, draft: UnresolvedTable) -> Iterator[WaterclockError]:
    views = {name: found for name, found in flow.queries.found.items() if name in flow.queries.views}
    in_buckets = [name for name, each in flow.drafts.items() if each.declared.bucket_by is not None]
    for name in (draft.name, *flow.queries.views_of(draft.name, draft.statement)):
        statement = draft.statement if name == draft.name else flow.queries.views[name]
        whole, found = statement.value("AS", ParsedQuery), flow.queries.found.get(name)
        if whole is None or found is None:
            continue
        for query, inside in found.branches or [(whole, found)]:
            for node, words in find_shuffles(inside, views, in_buckets):
                yield span_of(node, query.span).refuse(
                    "E385",
                    f"{words} needs a shuffle, and {draft.name} has {_WORD}",
                    why="Spark reads the rows with several tasks, and does not know which of them has which values",
                    fix=f"{_TOGETHER}; or leave {_WORD} out",
                )
