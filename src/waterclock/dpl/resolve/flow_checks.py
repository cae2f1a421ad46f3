"""Runs the checks that involve several tables of a flow: first those that need no cadences, then the others."""

from __future__ import annotations

from collections.abc import Iterator

from waterclock.dpl.config.environment import SparkSection
from waterclock.dpl.resolve.called_functions import (
    check_called_functions,
    check_calls_in_functions,
    check_calls_in_queries,
    check_cast_types,
)
from waterclock.dpl.resolve.close_when import resolve_closings
from waterclock.dpl.resolve.continuous import resolve_continuous
from waterclock.dpl.resolve.cycles import check_cycles
from waterclock.dpl.resolve.deadlines import check_deadlines
from waterclock.dpl.resolve.destination_names import check_destination_names
from waterclock.dpl.resolve.entities import check_entities
from waterclock.dpl.resolve.hidden import exclude_hidden_from_input_rules
from waterclock.dpl.resolve.input_rules import check_input_rules
from waterclock.dpl.resolve.keyed_calls import check_keyed_calls, check_token_calls
from waterclock.dpl.resolve.offline import check_offline
from waterclock.dpl.resolve.open_windows import check_open_windows
from waterclock.dpl.resolve.partial_after import check_partial
from waterclock.dpl.resolve.past_reach import check_reach
from waterclock.dpl.resolve.raw_file_copies import check_copies
from waterclock.dpl.resolve.read_checks import check_reads
from waterclock.dpl.resolve.renames import check_renames
from waterclock.dpl.resolve.rule_actions import check_rule_actions
from waterclock.dpl.resolve.shuffle_clause import check_shuffles
from waterclock.dpl.resolve.subjects import check_subjects, subjects_with_tokens
from waterclock.dpl.resolve.unresolved_flow import UnresolvedFlow
from waterclock.dpl.resolve.variables import check_variables
from waterclock.dpl.resolve.watermarks import check_marks
from waterclock.errors import WaterclockError


def check_names_and_circles(flow: UnresolvedFlow) -> Iterator[WaterclockError]:
    """Yield the errors of all checks that need no cadences. Tables in invalid cycles are marked as incomplete."""
    yield from check_variables(flow.statements, flow.queries, flow.config.variables)
    yield from check_called_functions(flow.drafts.values(), flow.functions)
    if not _has_more_functions(flow.config.environment.spark):
        yield from check_calls_in_queries(flow.queries.trees(), flow.functions)
        yield from check_calls_in_functions(flow.statements, flow.functions)
    queries = [declared for declared, _ in flow.queries.trees()]
    yield from check_cast_types(queries)
    yield from check_keyed_calls(queries, flow.statements, flow.systems)
    yield from check_token_calls(queries, flow.statements, subjects_with_tokens(flow.drafts.values()))
    yield from check_copies(flow.drafts, flow.systems)
    yield from check_entities(flow.drafts, flow.systems)
    yield from check_destination_names(flow.drafts, flow.systems)
    yield from check_renames(flow.drafts, flow.queries.views)
    yield from check_subjects(flow.drafts.values())
    yield from check_marks(flow.drafts, flow.spans)
    yield from check_cycles(flow.drafts, flow.spans)


def check_clauses(flow: UnresolvedFlow) -> Iterator[WaterclockError]:
    """Yield the errors of all checks that need cadences.

    Also resolve CLOSE WHEN, CONTINUOUS, and HIDDEN columns in input rules.
    """
    drafts = flow.drafts
    yield from check_reads(drafts, flow.spans)
    yield from check_partial(drafts, flow.queries.found)
    yield from check_deadlines(drafts)
    yield from resolve_closings(drafts, flow.config.variables, flow.functions)
    yield from check_open_windows(drafts, flow.statements)
    yield from resolve_continuous(flow)
    yield from check_rule_actions(drafts.values())
    yield from check_input_rules(drafts, flow.queries.views)
    exclude_hidden_from_input_rules(drafts)
    yield from check_offline(drafts.values())
    yield from check_shuffles(flow)
    for draft in drafts.values():
        names = (draft.name, *flow.queries.views_of(draft.name, draft.statement))
        known = [flow.queries.found.get(name) for name in names]
        yield from check_reach(draft, [found for found in known if found is not None], drafts)


def _has_more_functions(spark: SparkSection) -> bool:
    """Return whether a Spark Connect server, package or extension may add functions that Waterclock does not know."""
    return bool(spark.connect or spark.packages or any("extensions" in key for key in spark.confs))
