"""Revisions of a branch that are offered to its base environment."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.ledgers import day, table
from waterclock.batches.earlier_revisions import EarlierRevision
from waterclock.batches.records import TableRecord
from waterclock.engine.branching import promotion
from waterclock.engine.branching.branch_state import BranchState
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.read.signatures import signature_of

MADE = table("marts.sums", partitioned=True)
REVISION = EarlierRevision(day(1), 5, 1, MADE.fingerprint, 1, "1:1:1", "s", None, day(2), day(9), is_current=True)


class BranchLedger:
    """The ledger of a branch that has made one label of one table."""

    def __init__(self) -> None:
        record = TableRecord(
            MADE.name, **signature_of(MADE), start=None, location="own", head_version=1, head_label=None
        )
        former = SimpleNamespace(folders={})
        self.declared = SimpleNamespace(former=lambda: former, apply_pending_renames=lambda _: None)
        self.reads = SimpleNamespace(
            tables=lambda: [record], earlier_revisions=lambda _, labels: {label: [REVISION] for label in labels}
        )
        self.past = SimpleNamespace(made_labels=lambda *_, **__: [(day(1), MADE.fingerprint)])


@pytest.mark.parametrize(
    ("declared", "offered"),
    [
        (MADE, [day(1)]),
        (replace(MADE, fingerprint="other"), []),
        (table("marts.sums", partitioned=True, every="6 HOURS"), []),  # with the same labels, and the same code
        (table("marts.sums", partitioned=True, zone="Europe/Berlin"), []),
    ],
    ids=["same", "code", "cadence", "zone"],
)
def test_only_windows_of_the_same_declaration_are_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, declared: Any, offered: list[datetime]
) -> None:
    state = BranchState("trial", "dev", day(8), day(8), day(20))
    branch = cast("Any", SimpleNamespace(env="trial", storage=str(tmp_path)))
    monkeypatch.setattr(promotion, "require_branch", lambda _: state)
    monkeypatch.setattr(promotion, "reach_storage", lambda _: None)
    monkeypatch.setattr(promotion, "ledger_url", lambda _: "")
    monkeypatch.setattr(Ledger, "query", staticmethod(lambda _, ask: ask(BranchLedger())))
    flow = cast("Any", SimpleNamespace(tables={declared.name: declared}))
    found = promotion.read_offered_revisions(branch, flow)
    assert [*found.revisions.get("marts.sums", {})] == offered
