"""Errors of writes from a notebook do not promise that a run sends the remaining rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.systems import unit_of
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Mode
from waterclock.notebook import read_and_write


@pytest.mark.parametrize("code", ["E847", "E848"])
def test_no_run_is_promised_that_would_send_the_rest(code: str) -> None:
    def deliver(*_: object) -> None:
        raise WaterclockError(code, "it accepted some", fix="the next run sends the rest", transient=True)

    deliverer = SimpleNamespace(deliver=deliver, last=lambda *_: None)
    connections: Any = SimpleNamespace(deliverer=lambda _: deliverer, resolve_unit=lambda unit: unit)
    project, frame = SimpleNamespace(name="shop"), SimpleNamespace(schema=SimpleNamespace(fields=[]))
    with pytest.raises(WaterclockError) as caught:
        read_and_write._deliver_frame(project, connections, unit_of("api", "take"), frame, (Mode.APPEND, ()), ())  # type: ignore[arg-type]
    assert "write again only" in str(caught.value.fix)
