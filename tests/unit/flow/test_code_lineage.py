from __future__ import annotations

import json

import hypothesis.strategies as st
from hypothesis import given

from waterclock.flow.code_lineage import (
    AGGREGATED,
    COMPUTED,
    COPIED,
    HOW,
    MAY_READ,
    CodeLineage,
    Origin,
    unknown_lineage,
)

INPUTS = st.frozensets(st.tuples(st.sampled_from(["raw.a", "raw.b"]), st.sampled_from(["x", "y", "*"])), max_size=4)
ORIGINS = st.builds(
    lambda inputs, maybe, how, why: Origin(inputs, maybe - inputs, how, why),
    INPUTS,
    INPUTS,
    st.sampled_from(HOW),
    st.frozensets(st.sampled_from(["mapInPandas", "an RDD"])),
)
USES = st.dictionaries(st.sampled_from(["filter", "join", MAY_READ]), INPUTS.filter(bool), max_size=3)
LINEAGES = st.builds(CodeLineage, st.dictionaries(st.sampled_from(["p", "q", "r"]), ORIGINS, max_size=3), USES)


@given(LINEAGES, LINEAGES)
def test_the_union_of_two_lineages_contains_both(one: CodeLineage, other: CodeLineage) -> None:
    both = one | other
    for each in (one, other):
        for name, made in each.columns.items():
            assert made.inputs <= both.columns[name].inputs
            assert made.maybe <= both.columns[name].inputs | both.columns[name].maybe
            assert HOW.index(made.how) <= HOW.index(both.columns[name].how)
        for use, of in each.uses.items():
            assert of <= both.uses[use]
    assert both | one == both | other == both


@given(LINEAGES)
def test_a_lineage_survives_the_round_trip_through_json(one: CodeLineage) -> None:
    assert CodeLineage.of_json(json.loads(json.dumps(one.to_json()))) == one


def test_a_sure_input_is_no_maybe_and_names_are_one_in_any_case() -> None:
    sure = CodeLineage({"Late": Origin(frozenset({("raw.a", "x")}))})
    both = sure | unknown_lineage(["late"], ["raw.a"], ["toPandas"])
    assert both.columns == {
        "Late": Origin(frozenset({("raw.a", "x")}), frozenset({("raw.a", "*")}), COMPUTED, frozenset({"toPandas"}))
    }
    assert both.uses == {MAY_READ: frozenset({("raw.a", "*")})}


def test_the_least_direct_way_counts() -> None:
    assert Origin().derive(COMPUTED).how == COMPUTED
    assert Origin(how=AGGREGATED).derive(COMPUTED).how == AGGREGATED
    assert (Origin(how=COPIED) | Origin(how=AGGREGATED)).how == AGGREGATED
