"""`ON RESTATE AT MOST n LABELS ELSE HOLD` and `run --at-most n`: more labels are made again only after a decision."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from tests.model.flows import at, collect, flow, merge_transform, previous, publish, transform
from tests.unit.planner.pasts import done, failed, past, reason, running, states
from waterclock.batches.ledger_snapshot import BatchStatus, InputFact, LedgerSnapshot
from waterclock.flow.declarations import Flow, Table
from waterclock.planner.label_states import label_states
from waterclock.planner.plan import Plan, Status
from waterclock.planner.planning import Planner, plan
from waterclock.planner.request import PlanRequest

NOW = at("2013-01-11 03:00")
ALL_DONE = ("2013-01-01", "2013-01-11")
A = collect("a")
B = transform("b", ["a"])
C = transform("c", ["b"])


def limited(table: Table, most: int) -> Table:
    return replace(table, restate_at_most=most)


def read(table: str, label: int, *, is_changed: bool) -> InputFact:
    low = at("2013-01-01") + timedelta(days=label - 1)
    return InputFact(table, low, low + timedelta(days=1), "1", "2" if is_changed else "1")


def reads(table: str, changed: Iterable[int], same: Iterable[int] = ()) -> dict:  # type: ignore[type-arg]
    facts = {label: read(table, label, is_changed=True) for label in changed}
    facts |= {label: read(table, label, is_changed=False) for label in same}
    return {fact.low: (fact,) for fact in facts.values()}


def planned(tables: Flow, ledger: LedgerSnapshot, request: PlanRequest | None = None) -> Plan:
    """Return the plan; assert that the shortcut to the groups gives the same groups."""
    asked = request or PlanRequest()
    found = plan(tables, ledger, NOW, asked)
    assert Planner(tables).ready(ledger, NOW, asked) == found.groups
    held = {(name, label) for name, it in found.held_restatements.items() for label in it.labels}
    assert not held & {(group.table, batch.label) for group in found.groups for batch in group.batches}
    return found


def restated(changed: int, most: int, **more: object) -> Plan:
    """Return a plan in which inputs of the first labels of `b` changed, which has a limit; `c` reads `b`."""
    of_b = reads("a", range(1, changed + 1))
    ledger = past(
        a=done(ALL_DONE),
        b=done(ALL_DONE, suspects=of_b, **more),
        c=done(ALL_DONE, suspects=reads("b", (), range(1, changed + 1))),
    )
    return planned(flow(A, limited(B, most), C), ledger)


class TestLimitOfATable:
    def test_as_many_labels_as_the_limit_are_made_again(self) -> None:
        found = restated(3, most=3)
        assert found.held_restatements == {}
        assert set(states(found, "b").values()) == {"ready"}

    def test_one_more_holds_all_of_them(self) -> None:
        found = restated(4, most=3)
        assert states(found, "b") == dict.fromkeys(("01-01", "01-02", "01-03", "01-04"), "held")
        assert all(batch.is_over_limit for batch in found.batches if batch.table == "b")
        assert found.groups == ()
        held = found.held_restatements["b"]
        assert (held.labels, held.limit, held.total) == (held.changed, 3, 4)
        assert reason(found, "b", "2013-01-02") == (
            "its inputs were restated; up to 4 labels would be made again, more than ON RESTATE ... AT MOST 3 LABELS"
        )

    def test_a_limit_of_no_labels_holds_each_restatement(self) -> None:
        assert states(restated(1, most=0), "b") == {"01-01": "held"}

    def test_labels_that_may_change_count_before_their_inputs_are_made(self) -> None:
        asked = dict.fromkeys((at("2013-01-01"), at("2013-01-02"), at("2013-01-03")), "recompute")
        ledger = past(a=done(ALL_DONE, requested=asked), b=done(ALL_DONE, suspects=reads("a", (), (1, 2, 3))))
        found = planned(flow(A, limited(B, 2)), ledger)
        assert set(states(found, "a").values()) == {"ready"}
        assert (len(found.held_restatements["b"].labels), len(found.held_restatements["b"].changed)) == (3, 0)
        assert planned(flow(A, limited(B, 3)), ledger).held_restatements == {}

    def test_several_restatements_count_together(self) -> None:
        two = flow(A, collect("x"), limited(transform("b", ["a", "x"]), 3))
        of_b = {**reads("a", (1, 2)), **reads("x", (8, 9))}
        assert len(planned(two, past(a=done(ALL_DONE), x=done(ALL_DONE), b=done(ALL_DONE, suspects=of_b)))
                   .held_restatements["b"].labels) == 4  # fmt: skip

    def test_the_readers_of_held_labels_wait_and_new_windows_of_the_table_are_made(self) -> None:
        spans = ("2013-01-01", "2013-01-10")
        ledger = past(
            a=done(ALL_DONE), b=done(spans, suspects=reads("a", (1, 2))), c=done(("2013-01-02", "2013-01-10"))
        )
        found = planned(flow(A, limited(B, 1), C), ledger)
        assert states(found, "b") == {"01-01": "held", "01-02": "held", "01-10": "ready"}
        assert states(found, "c") == {"01-01": "blocked", "01-10": "waiting"}
        assert "b@20130101000000, held" in reason(found, "c", "2013-01-01")

    def test_another_limit_downstream_is_counted_by_itself(self) -> None:
        ledger = past(
            a=done(ALL_DONE),
            b=done(ALL_DONE, suspects=reads("a", (1, 2, 3))),
            c=done(ALL_DONE, suspects=reads("b", (), (1, 2, 3))),
        )
        assert set(planned(flow(A, limited(B, 3), limited(C, 2)), ledger).held_restatements) == {"c"}
        assert set(planned(flow(A, limited(B, 2), limited(C, 2)), ledger).held_restatements) == {"b", "c"}

    def test_the_labels_after_a_restated_one_count_in_a_table_that_reads_its_own_past(self) -> None:
        own = transform("b", ["a", previous("b")])
        chain = {
            at("2013-01-01") + timedelta(days=label - 1): (
                read("a", label, is_changed=label == 5),
                read("b", label - 1, is_changed=False),
            )
            for label in range(5, 11)
        }
        ledger = past(a=done(ALL_DONE), b=done(ALL_DONE, suspects=chain))
        assert len(planned(flow(A, limited(own, 5)), ledger).held_restatements["b"].labels) == 6
        assert planned(flow(A, limited(own, 6)), ledger).held_restatements == {}

    def test_folds_and_publishes_have_limits_too(self) -> None:
        fold = limited(merge_transform("b", ["a"]), 1)
        sent = limited(publish("p", fold), 0)
        ledger = past(a=done(ALL_DONE), b=done(ALL_DONE, suspects=reads("a", (2, 3))), p=done(ALL_DONE))
        found = planned(flow(A, fold, sent), ledger)
        assert set(states(found, "b").values()) == {"held"}


class TestDecisions:
    def test_requested_labels_do_not_count(self) -> None:
        asked = {at("2013-01-01"): "recompute"}
        found = restated(4, most=3, requested=asked)
        assert found.held_restatements == {}
        assert set(states(found, "b").values()) == {"ready"}

    def test_released_labels_follow_their_inputs(self) -> None:
        labels = frozenset(at(f"2013-01-0{label}") for label in (1, 2, 3, 4))
        assert set(states(restated(4, most=3, following=labels), "b").values()) == {"ready"}

    def test_labels_restated_after_a_release_are_counted_against_the_limit_again(self) -> None:
        labels = frozenset(at(f"2013-01-0{label}") for label in (1, 2, 3, 4))
        found = restated(9, most=3, following=labels)
        assert [label for label, status in states(found, "b").items() if status == "ready"] == [
            "01-01", "01-02", "01-03", "01-04"
        ]  # fmt: skip
        assert len(found.held_restatements["b"].labels) == 5

    def test_labels_that_a_runner_makes_do_not_count(self) -> None:
        found = restated(4, most=3, open_claims=(running("2013-01-01"),))
        assert states(found, "b") == {"01-01": "running", "01-02": "ready", "01-03": "ready", "01-04": "ready"}

    def test_forced_labels_do_not_count(self) -> None:
        ledger = past(a=done(ALL_DONE), b=done(ALL_DONE, suspects=reads("a", (1, 2))))
        request = PlanRequest(force={"b": frozenset({at("2013-01-01")})})
        assert set(states(planned(flow(A, limited(B, 1)), ledger, request), "b").values()) == {"ready"}

    def test_a_batch_that_a_rule_holds_keeps_its_own_reason(self) -> None:
        trouble = {at("2013-01-01"): failed("E755 no", status=BatchStatus.HELD)}
        found = restated(4, most=3, troubles=trouble)
        first, second = found.batches[:2]
        assert (first.status, first.reason, first.is_over_limit) == (Status.HELD, "E755 no", False)
        assert second.is_over_limit

    def test_a_dropped_limit_frees_them(self) -> None:
        ledger = past(a=done(ALL_DONE), b=done(ALL_DONE, suspects=reads("a", (1, 2))))
        assert set(states(planned(flow(A, B), ledger), "b").values()) == {"ready"}


class TestLimitOfARun:
    LEDGER = past(
        a=done(ALL_DONE),
        b=done(("2013-01-01", "2013-01-10"), suspects=reads("a", (1, 2, 3))),
        c=done(("2013-01-01", "2013-01-10"), suspects=reads("b", (), (1, 2, 3))),
    )

    def test_all_labels_downstream_count(self) -> None:
        assert planned(flow(A, B, C), self.LEDGER, PlanRequest(at_most=6)).held_restatements == {}
        found = planned(flow(A, B, C), self.LEDGER, PlanRequest(at_most=5))
        assert {name: (len(it.labels), it.total) for name, it in found.held_restatements.items()} == {
            "b": (3, 6), "c": (3, 6)
        }  # fmt: skip
        assert states(found, "b") == {"01-01": "held", "01-02": "held", "01-03": "held", "01-10": "ready"}
        assert reason(found, "b", "2013-01-01") == (
            "its inputs were restated; up to 6 labels of all tables would be made again, more than --at-most 5"
        )

    def test_only_the_chosen_tables_count(self) -> None:
        request = PlanRequest(at_most=3, only=["a", "b"])
        assert set(states(planned(flow(A, B, C), self.LEDGER, request), "b").values()) == {"ready"}

    def test_labels_that_wait_for_the_limit_of_their_table_do_not_count(self) -> None:
        tables = flow(A, limited(B, 2), C, collect("x"), transform("y", ["x"]))
        more = {"x": done(ALL_DONE), "y": done(ALL_DONE, suspects=reads("x", (1,)))}
        ledger = replace(self.LEDGER, tables={**self.LEDGER.tables, **more})
        found = planned(tables, ledger, PlanRequest(at_most=1))
        assert set(found.held_restatements) == {"b"}
        assert states(found, "y") == {"01-01": "ready"}
        assert not found.held_restatements["b"].is_of_run


def test_held_labels_are_shown_as_held_among_all_labels() -> None:
    ledger = past(a=done(ALL_DONE), b=done(ALL_DONE, suspects=reads("a", (1, 2))))
    tables = Planner(flow(A, limited(B, 1)))
    found = label_states(tables, ledger, NOW, [], (at("2013-01-01"), at("2013-01-03")), only=["b"])["b"]
    assert [(one.status, one.is_over_limit) for one in found] == [(Status.HELD, True)] * 2


def test_the_json_of_a_plan_counts_them() -> None:
    assert restated(4, most=3).to_dict()["held_restatements"] == {
        "b": {
            "labels": ["20130101000000", "20130102000000", "20130103000000", "20130104000000"],
            "changed": 4,
            "limit": 3,
            "total": 4,
            "is_of_run": False,
        }
    }
