"""Resources that a source keeps open for a batch are closed with the batch, whatever its result."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.ledgers import day, table
from tests.unit.engine.fakes import group, work_of
from waterclock.connectors.interface import Collected
from waterclock.engine.batch import make
from waterclock.engine.batch.attempt import GroupAttempt
from waterclock.engine.batch.bound_inputs import BoundInputs
from waterclock.engine.batch.results import MadeSlices, Notes
from waterclock.engine.collect.collect_result import CollectResult
from waterclock.flow.enums import Kind


def test_source_resources_are_closed_with_the_attempt() -> None:
    closed: list[bool] = []
    attempt = GroupAttempt(work_of([table("a.b")]), table("a.b"), group("a.b", 1), day(9))
    schema: Any = None
    attempt.made = MadeSlices([], schema, Notes(close=lambda: closed.append(True)))
    attempt.close()
    assert closed == [True]


def test_source_resources_are_closed_if_the_columns_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []
    frame: Any = SimpleNamespace(columns=[])
    gathered = CollectResult(Collected(frame, close=lambda: closed.append(True)), {})
    monkeypatch.setattr(make, "read_source_windows", lambda *_: gathered)
    monkeypatch.setattr(make, "find_known_columns", lambda *_: None)
    monkeypatch.setattr(make, "conform", _refuse)
    with pytest.raises(LookupError):
        make.make(*_made_of())
    assert closed == [True]


def _refuse(*_: object, **__: object) -> None:
    raise LookupError


def _made_of() -> tuple[Any, ...]:

    one = table("a.b", kind=Kind.COLLECT)
    return work_of([one]), None, one, group("a.b", 1), BoundInputs({}), day(9)
