"""A conformance suite for sources that report that all rows of a window have arrived (AWAIT); see `connectors`."""

from __future__ import annotations

from typing import Protocol

from waterclock.connectors.interface import CompletenessCollector, Setting
from waterclock.flow.awaits import Awaits
from waterclock.flow.enums import WindowSignal
from waterclock.testing.connectors import hours
from waterclock.testing.requirements import KeepsSecrets, System, refused
from waterclock.timelabel.window import Window


class Signing(System, Protocol):
    """A system under test that signals complete windows."""

    def awaits(self, sign: WindowSignal) -> Awaits:
        """Return the AWAIT declaration of a flow for this kind of sign."""
        ...

    def give(self, sign: WindowSignal, window: Window) -> None:
        """Signal that a window is complete, and no later window."""
        ...


class CompletenessConformance(KeepsSecrets):
    """Tests of the signals for AWAIT: a signal is found only after it was given, and belongs to one window."""

    def test_a_completion_mark_is_found_after_it_is_set(self, system: Signing) -> None:
        window = hours(3, 1)[0]
        for sign in _signs(system):
            assert not _has(system, sign, window), f"{sign.value}: nothing was given"
            system.give(sign, window)
            assert _has(system, sign, window), f"{sign.value}: it was given"

    def test_a_completion_mark_does_not_count_for_a_later_window(self, system: Signing) -> None:
        first, second = hours(3, 2)
        for sign in _signs(system):
            system.give(sign, first)
            assert not _has(system, sign, second), f"{sign.value}: the sign of a window before"

    def test_checking_for_completion_marks_changes_nothing(self, system: Signing) -> None:
        window = hours(3, 1)[0]
        for sign in _signs(system):
            system.give(sign, window)
            assert [_has(system, sign, window) for _ in range(3)] == [True] * 3

    def test_a_wrong_secret_is_not_taken_for_a_missing_completion_mark(self, system: Signing) -> None:
        window = hours(3, 1)[0]
        for sign in _signs(system):
            system.give(sign, window)
        sign = _signs(system)[0]
        refused(system, lambda wrong: _has(system, sign, window, wrong))


def _signs(system: System) -> list[WindowSignal]:
    signs = sorted(system.connector.capabilities.awaits)
    assert signs, "its capabilities must list the signals of AWAIT"
    return signs


def _has(system: Signing, sign: WindowSignal, window: Window, setting: Setting | None = None) -> bool:
    collector = system.connector.collector(setting or system.setting)
    assert isinstance(collector, CompletenessCollector)
    return collector.has_sign(system.unit, system.awaits(sign), window, "UTC")
