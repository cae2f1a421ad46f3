"""A run that waits for batches of other runners: for how long, and when it does not wait. No Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tiny import CONNECTIONS, Heard, day
from waterclock.batches.records import Claim, ClaimRequest
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.engine import runner as module
from waterclock.engine.batch.takeover import TakeoverResult
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.engine.runner import Runner
from waterclock.errors import WaterclockError

FLOW = "COLLECT shop.orders PARTITIONED (id BIGINT, at TIMESTAMP) FROM shop.orders EVERY DAY BY DATA TIME at;"
TOML = """
[project]
name = "tiny"
[defaults]
start = "2020-01-01"
[env.dev]
storage = ".waterclock"
connections.shop = { path = "shop.sqlite" }
connections.out = { path = "out.sqlite", create = true }
connections.land = { path = "landing/new" }
connections.files = { path = "files" }
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunContext]:
    monkeypatch.setattr(module, "_POLL_SECONDS", 0.01)
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(TOML)
    (tmp_path / "flows" / "flow.dpl").write_text(CONNECTIONS + FLOW)
    with open_workplace(load_project(tmp_path, capabilities=capabilities()), listener=Heard()) as work:
        apply_flow(work, day(3))
        yield work


def claim(
    work: RunContext, *, runner: str = "elsewhere:1:abc", lease: float = 600, table: str = "shop.orders"
) -> Claim:
    request = ClaimRequest(
        table=table,
        labels=(day(1),),
        code="c",
        flow=work.flow.fingerprint,
        runner=runner,
        who="ann",
        now=day(3),
        lease_seconds=lease,
        target_version=-1,
    )
    return work.ledger.claims.take(request)


def waiting(work: RunContext, *, refused: bool = False) -> Runner:
    found = Runner(work, waits=True)
    found._elsewhere = {(batch.table, batch.label) for batch in found.plan(day(3)).batches}
    found._refused = {("shop.orders", day(2))} if refused else set()
    return found


def test_a_run_does_not_wait_if_no_other_runner_works(work: RunContext) -> None:
    assert not waiting(work)._wait_for_progress()


def test_a_refused_batch_whose_reason_has_ended_is_planned_again_once(work: RunContext) -> None:
    runner = waiting(work, refused=True)
    assert [runner._wait_for_progress() for _ in range(3)] == [True, False, False]


def test_a_run_waits_for_the_runner_that_makes_a_due_batch_until_its_next_write(work: RunContext) -> None:
    held = claim(work)
    others = threading.Timer(0.2, lambda: work.ledger.claims.renew(held))
    others.start()
    begun = time.monotonic()
    assert waiting(work)._wait_for_progress()
    assert time.monotonic() - begun > 0.1
    assert work.listener.said_ == ["waiting for elsewhere:1:abc, which makes shop.orders"]  # type: ignore[attr-defined]
    others.join()


def test_a_run_that_is_stopped_waits_no_longer(work: RunContext) -> None:
    claim(work)
    runner = waiting(work)
    threading.Timer(0.1, runner.stop).start()
    assert not runner._wait_for_progress()


def test_a_lease_that_runs_out_meanwhile_ends_the_waiting_and_its_claim_is_settled(work: RunContext) -> None:
    # planned before the claim, because planning on a busy machine takes longer than a short lease
    runner = waiting(work)
    claim(work, lease=1)
    assert runner._wait_for_progress()
    assert runner._wait_for_progress()
    assert work.ledger.claims.open() == []


def test_an_expired_claim_that_cannot_be_taken_over_is_not_waited_for(
    work: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: for a table that was removed from the flow, a refused run looked again without end."""
    claim(work, lease=0.01)
    time.sleep(0.05)
    monkeypatch.setattr("waterclock.engine.batch.takeover.take_over", lambda *_: TakeoverResult())
    runner = waiting(work, refused=True)
    assert [runner._wait_for_progress() for _ in range(2)] == [True, False]


def test_a_claim_that_cannot_be_settled_is_no_good_end_of_a_run_until_it_is(
    work: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = claim(work, lease=0.01)
    time.sleep(0.05)

    def fails(*_: object) -> bool:
        raise WaterclockError("E821", "the folder cannot be written", why="/outbox: it is gone", fix="make it")

    with monkeypatch.context() as patched:
        patched.setattr("waterclock.engine.batch.takeover.record_if_committed", fails)
        for _ in range(2):
            outcome = Runner(work).run_once(day(1))
            (error,) = outcome.unsettled
            assert outcome.has_failed
            assert (
                error.what
                == f"claim {taken.number} of shop.orders cannot be resolved yet: the folder cannot be written"
            )
            assert (error.where, error.why) == ("shop.orders@20200101000000", "/outbox: it is gone")
    assert not Runner(work).run_once(day(1)).has_failed


def test_a_run_that_need_not_wait_does_not(work: RunContext) -> None:
    claim(work)
    assert not Runner(work)._wait_for_progress()
