"""Older states of a REPLACE transform whose inputs were restated: reported, and made again only on request."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from tests.model.flows import at, collect, flow, history, publish, transform
from tests.unit.planner.pasts import covered, done, past, read_then, states
from waterclock.batches.ledger_snapshot import InputFact, LedgerSnapshot
from waterclock.flow.declarations import Flow
from waterclock.flow.enums import Mode
from waterclock.planner.planning import Planner

NOW = at("2013-01-05 12:00")
ALL = ("2013-01-01", "2013-01-05")
Suspects = Mapping[datetime, tuple[InputFact, ...]]

A = collect("a")
STATE = transform("state", [history("a")], mode=Mode.REPLACE, is_partitioned=False)
ABOVE = transform("above", ["state"], mode=Mode.REPLACE, is_partitioned=False)
FLOW = flow(A, STATE, ABOVE)


def states_of_all_days(table: str, *, changed_from: str, last: str = "2013-01-04") -> Suspects:
    """Return the inputs of each day's state, changed from one day on."""
    found = {}
    for day in range(1, int(last[-2:]) + 1):
        label, end = f"2013-01-{day:02d}", f"2013-01-{day + 1:02d}"
        low = "2013-01-01" if table == "a" else label
        found[at(label)] = (read_then(table, low, end, is_changed=label >= changed_from),)
    return found


def restated(changed_from: str = "2013-01-02", **of_state: object) -> LedgerSnapshot:
    """Return a ledger snapshot in which a day of `a` was restated after all labels were made."""
    suspects = states_of_all_days("a", changed_from=changed_from)
    above = states_of_all_days("state", changed_from="never")
    return past(
        a=done(ALL),
        state=done(ALL, suspects=suspects, **of_state),
        above=done(ALL, suspects=above),
    )


def labels(found: Mapping[str, object]) -> dict[str, list[str]]:
    return {name: sorted(f"{label:%m-%d}" for label in of) for name, of in found.items()}  # type: ignore[attr-defined]


def plan_behind(of: Flow, snapshot: LedgerSnapshot) -> dict[str, list[str]]:
    return labels(Planner(of).plan(snapshot, NOW).behind)


def test_the_newest_state_follows_a_restatement_and_older_states_are_behind() -> None:
    plan = Planner(FLOW).plan(restated(), NOW)
    assert states(plan, "state") == {"01-04": "ready"}
    assert labels(plan.behind) == {"state": ["01-02", "01-03"], "above": ["01-02", "01-03"]}
    assert plan.to_dict()["behind"]["state"] == ["20130102000000", "20130103000000"]


def test_a_state_that_a_batch_needs_is_not_behind() -> None:
    daily = transform("daily", ["state"])
    reads = {at("2013-01-02"): (read_then("state", "2013-01-02", "2013-01-03", is_changed=False),)}
    facts = dict(restated().tables) | {"daily": done(ALL, suspects=reads)}
    found = plan_behind(flow(A, STATE, ABOVE, daily), LedgerSnapshot(facts))
    assert found == {"state": ["01-03"], "above": ["01-02", "01-03"]}


def test_publishes_and_states_with_unchanged_inputs_are_never_behind() -> None:
    sent = publish("sent", STATE)
    facts = dict(restated().tables) | {"sent": done(ALL, suspects=states_of_all_days("state", changed_from="never"))}
    assert set(plan_behind(flow(A, STATE, ABOVE, sent), LedgerSnapshot(facts))) == {"state", "above"}
    assert plan_behind(FLOW, restated("never")) == {}


def test_a_following_state_is_made_again_only_if_its_inputs_changed() -> None:
    snapshot = restated("2013-01-03", following=frozenset({at("2013-01-02"), at("2013-01-03")}))
    plan = Planner(FLOW).plan(snapshot, NOW)
    assert states(plan, "state") == {"01-03": "ready", "01-04": "ready"}
    assert labels(plan.behind) == {"above": ["01-03"]}
    assert labels(Planner(FLOW).find_labels_to_follow(snapshot, NOW)) == {"state": ["01-02"]}


def test_a_following_state_waits_for_its_inputs_and_makes_them_follow_too() -> None:
    facts = dict(restated().tables)
    above = states_of_all_days("state", changed_from="never")
    facts["above"] = done(ALL, suspects=above, following=frozenset({at("2013-01-03")}))
    plan = Planner(FLOW).plan(LedgerSnapshot(facts), NOW)
    assert states(plan, "state") == {"01-03": "ready", "01-04": "ready"}
    assert labels(plan.behind) == {"state": ["01-02"], "above": ["01-02"]}


def test_only_states_that_depend_on_the_requested_labels_follow_them() -> None:
    """A state that is behind for another reason is not made again with them."""
    asked = {"a": [at("2013-01-03")]}
    facts = dict(restated("2013-01-01").tables)
    facts["a"] = done(ALL, requested={at("2013-01-03"): "recompute"})
    found = Planner(FLOW).find_dependent_labels(LedgerSnapshot(facts), NOW, asked)
    assert labels(found) == {"state": ["01-03"], "above": ["01-03"]}


def test_the_ripple_of_a_state_contains_its_followers() -> None:
    facts = dict(restated("never").tables)
    facts["state"] = done(ALL, requested={at("2013-01-02"): "recompute"})
    asked = {"state": [at("2013-01-02")]}
    resting = Planner(FLOW).find_dependent_labels(LedgerSnapshot(facts), NOW, asked)
    assert labels(resting) == {"above": ["01-02"]}
    facts["above"] = done(ALL, suspects=facts["above"].suspects, following=resting["above"])
    ripple = Planner(FLOW).ripple(LedgerSnapshot(facts), NOW, asked)
    assert {name: [window.label for window in windows] for name, windows in ripple.following.items()} == {
        "above": ["20130102000000"]
    }


def test_states_before_a_later_start_are_not_behind() -> None:
    later = transform("state", [history("a")], mode=Mode.REPLACE, is_partitioned=False, start=at("2013-01-03"))
    assert plan_behind(flow(A, later), restated("2013-01-01")) == {"state": ["01-03"]}
    assert covered(ALL).covers_instant(at("2013-01-02"))
