"""Ladders and the row filter against brute force: each row that came is in the table, set aside or dropped, once."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from waterclock.flow.enums import Action
from waterclock.flow.rule_actions import ROW_ACTIONS, RuleAction, RuleActions, find_outcome
from waterclock.storage.slices.row_filter import (
    ROW_DROPPED,
    ROW_KEPT,
    ROW_QUARANTINED,
    RowFilter,
    RowRule,
    count_broken_rules,
)

OUTCOMES = st.sampled_from([ROW_KEPT, ROW_QUARANTINED, ROW_DROPPED])


@given(st.lists(OUTCOMES, min_size=1, max_size=6), st.data())
def test_each_row_is_kept_quarantined_or_dropped_exactly_once(outcomes: list[int], data: st.DataObject) -> None:
    row_rules = tuple(RowRule(f"r{at}", "TRUE", outcome) for at, outcome in enumerate(outcomes))
    row_filter = RowFilter(row_rules)
    rows = data.draw(st.lists(st.lists(st.booleans(), min_size=len(outcomes), max_size=len(outcomes)), max_size=30))
    stayed, aside, dropped = 0, 0, 0
    first: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    masks: Counter[int] = Counter()
    for breaks in rows:
        taken = next(
            (at for at, (bad, outcome) in enumerate(zip(breaks, outcomes, strict=True)) if bad and outcome), None
        )
        stayed += taken is None
        aside += taken is not None and outcomes[taken] == ROW_QUARANTINED
        dropped += taken is not None and outcomes[taken] == ROW_DROPPED
        first.update([] if taken is None else [f"r{taken}"])
        names = [f"r{at}" for at, bad in enumerate(breaks) if bad]
        broken.update(names)
        mask = sum(1 << at for at, bad in enumerate(breaks) if bad)
        if mask:
            masks[mask] += 1
    found = count_broken_rules(row_filter, masks, stayed)
    assert found.rows == len(rows) == stayed + found.quarantined + found.dropped
    assert (found.quarantined, found.dropped) == (aside, dropped)
    assert Counter(found.broken) == broken
    assert Counter(found.first) == first
    assert sum(found.first.values()) == found.quarantined + found.dropped


LIMITS = st.one_of(
    st.none(),
    st.tuples(st.integers(0, 20).map(Decimal), st.just(False)),
    st.tuples(st.decimals(0, 100, places=1), st.just(True)),
)


@st.composite
def ladders(draw: st.DrawFn) -> RuleActions:
    """A ladder as the language takes it: each step but the last has a limit, and does more than the one before."""
    of_rows = draw(st.sampled_from([None, Action.QUARANTINE, Action.DROP]))
    actions = [of_rows] if of_rows else draw(st.sampled_from([[], [Action.WARN]]))
    actions = [*actions, *draw(st.sampled_from([[], [Action.HOLD], [Action.FAIL], [Action.HOLD, Action.FAIL]]))]
    rungs = []
    for action in actions or [Action.FAIL]:
        limit = draw(LIMITS.filter(bool)) if action is not Action.FAIL else None
        rungs.append(RuleAction(action, *limit) if limit else RuleAction(action))
    return tuple(rungs)


@given(ladders(), st.integers(0, 40), st.integers(0, 40))
def test_an_action_applies_while_the_broken_rows_are_within_its_limit(
    ladder: RuleActions, broken: int, others: int
) -> None:
    of = broken + others
    wanted: Action | None = Action.FAIL
    for rung in reversed(ladder):
        share = Fraction(broken * 100, of) if of else Fraction(0)
        within = rung.most is None or (share if rung.is_percent else broken) <= Fraction(rung.most)
        wanted = rung.action if within else wanted
    assert find_outcome(ladder, broken, of) == (wanted if broken else None)


@given(ladders(), st.integers(1, 40), st.integers(0, 40))
def test_more_broken_rows_never_come_to_less(ladder: RuleActions, broken: int, others: int) -> None:
    strength = [Action.WARN, *ROW_ACTIONS, Action.HOLD, Action.FAIL]
    less, more = find_outcome(ladder, broken, broken + others), find_outcome(ladder, broken + 1, broken + 1 + others)
    assert less is not None
    assert more is not None
    assert strength.index(less) <= strength.index(more)
