"""A rebuild of all tables waits for running batches of its tables. No Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from tests.ledgers import desk, flow, table
from waterclock.engine.maintenance import rebuild_lock
from waterclock.engine.run_context import RunContext


def test_a_claim_of_a_table_that_is_no_longer_declared_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """No runner can settle it: its table is in no flow."""
    at_desk = desk()
    with at_desk.ledger as ledger:
        at_desk.apply(table("a.rows"), table("a.gone"))
        at_desk.claim("a.gone", 1, runner="elsewhere:1:abc")
        now = flow(table("a.rows"), fingerprint="flow 2")
        ledger.declared.apply(now, who="ann", now=at_desk.clock.at, runner="here")
        at_desk.clock.pass_by(seconds=61)

        def wait(*_: object) -> None:
            raise AssertionError("it waits")

        monkeypatch.setattr(rebuild_lock, "threading", SimpleNamespace(Event=lambda: SimpleNamespace(wait=wait)))
        work = SimpleNamespace(
            ledger=ledger,
            flow=now,
            real_now=at_desk.clock,
            abandoned_claims=frozenset,
            report_once=lambda _: None,
            listener=None,
        )
        rebuild_lock.wait_for_running_batches(cast("RunContext", work))
        assert len(ledger.claims.open()) == 1
