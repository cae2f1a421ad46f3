"""Random histories of claims and a sink that comes and goes: what was told, against what the ledger says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ledgers import Desk, desk, result, table
from tests.openlineage_types import problems
from waterclock.batches.ledger_snapshot import BatchStatus
from waterclock.dpl.project import Project
from waterclock.errors import WaterclockError
from waterclock.flow.openlineage import LineageSink
from waterclock.http.posting import NotDelivered
from waterclock.ledger.store.schema import claim_labels, claims, revisions
from waterclock.openlineage import sending
from waterclock.openlineage.events import batch_id
from waterclock.secrets.reader import SecretPlaces

TABLES = (table("raw.a", partitioned=True), table("mart.b", partitioned=True, reads=["raw.a"]))
ENDS = {"done": "COMPLETE", "failed": "FAIL", "held": "FAIL", "lost": "ABORT"}

steps = st.one_of(
    st.tuples(
        st.just("claim"),
        st.sampled_from(["raw.a", "mart.b"]),
        st.sets(st.integers(0, 6), min_size=1, max_size=3),
        st.sampled_from(["done", "some", "failed", "held", "lost", "open"]),
    ),
    st.tuples(st.just("send"), st.integers(0, 12)),
    st.tuples(st.just("run")),
)


def project_of(at: Desk, folder: Path) -> Project:
    return Project(
        root=folder, name="demo", env="dev", storage=str(folder), ledger="", publish=False, flow=at.flow,
        pools={}, variables={}, secrets=SecretPlaces(folder),
        openlineage=LineageSink(file="x", namespace="demo", is_on=True),
    )  # fmt: skip


class World:
    def __init__(self) -> None:
        self.desk = desk()
        self.desk.apply(*TABLES)
        self.project = project_of(self.desk, Path("/nowhere"))
        self.heard: list[dict[str, Any]] = []
        self.stays_up_for = 0
        self.run: str | None = None

    def deliver(self, *given: Any) -> None:
        if self.stays_up_for == 0:
            raise NotDelivered("it answered 503")
        self.stays_up_for -= 1
        self.heard.append(given[-1])

    def send(self, up_for: int) -> None:
        self.stays_up_for = up_for
        sending.send(self.project, self.desk.ledger, at_once=True)

    def do(self, step: tuple[Any, ...]) -> None:
        self.desk.clock.pass_by(seconds=5)
        if step[0] == "send":
            self.send(step[1])
        elif step[0] == "run":
            if self.run is not None:
                self.desk.ledger.past.end_run(self.run, "done", who="ann")
            self.run = self.desk.ledger.past.begin_run(who="ann", command="run", now=self.desk.clock.at)
        else:
            self.attempt(*step[1:])

    def attempt(self, name: str, labels: set[int], outcome: str) -> None:
        ledger = self.desk.ledger
        try:
            held = self.desk.claim(name, *sorted(labels), restates="late rows", run=self.run)
        except WaterclockError:
            return
        if outcome in {"done", "some"}:
            made = sorted(labels)[: 1 if outcome == "some" else None]
            ledger.claims.record_done(held, [result(label, rows=label) for label in made])
        elif outcome == "failed":
            ledger.claims.record_failed(held, error="E731 no number", is_transient=False)
        elif outcome == "held":
            ledger.claims.record_failed(held, error="E747 held", is_transient=False, status=BatchStatus.HELD)
        elif outcome == "lost":
            ledger.claims.close_lost(held, "its runner is gone")

    def wanted(self) -> Counter[tuple[str, str]]:
        """What the claims themselves say, whatever the events do: a start for each label, and its end."""
        found: Counter[tuple[str, str]] = Counter()
        with self.desk.ledger._database.read() as connection:
            rows = connection.execute(
                sa.select(claim_labels, claims.c.status).join(claims, claims.c.number == claim_labels.c.claim)
            ).all()
            made = {tuple(row) for row in connection.execute(sa.select(revisions.c.claim, revisions.c.label))}
        for row in rows:
            run = str(batch_id(self.project, row.table_name, row.label, row.claim))
            found[run, "START"] += 1
            is_left = row.status == "done" and (row.claim, row.label) not in made
            if row.status != "open":
                found[run, "ABORT" if is_left else ENDS[row.status]] += 1
        return found


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, max_size=25))
def test_each_attempt_is_sent_once_and_in_order_despite_outages_of_the_sink(history: list[tuple[Any, ...]]) -> None:
    world = World()
    with patch.object(sending, "deliver", world.deliver):
        for step in history:
            world.do(step)
        world.send(10_000)
    wanted = world.wanted()
    world.desk.ledger.close()
    told = [(each["run"]["runId"], each["eventType"]) for each in world.heard if each["job"]["name"] != "demo"]
    assert set(told) == set(wanted)
    assert set(wanted.values()) <= {1}
    # the events of one change of the ledger arrive together or are sent again: of one that ended beside labels left
    assert all(state in {"ABORT", "COMPLETE"} for (_, state), count in Counter(told).items() if count > 1)
    began = {run: at for at, (run, state) in enumerate(told) if state == "START"}
    assert all(began[run] <= at for at, (run, _) in enumerate(told))
    assert [problem for each in world.heard for problem in problems(each)] == []
