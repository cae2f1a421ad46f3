"""A conformance suite for destinations: each claim is delivered all or nothing, and once; see `connectors`.

It needs no Spark, as sealed slices are written with Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import pytest

from waterclock.connectors.delivering import Delivered, Deliverer, Delivery, DeliveryOutcome
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.flow.enums import Mode
from waterclock.testing.requirements import KeepsSecrets, System, refused
from waterclock.timelabel.label import instant_of

PROJECT = "conformance"
COLUMNS = (("id", "STRING"), ("amount", "INT"))

_FIRST, _SECOND, _THIRD = "20130101000000", "20130102000000", "20130103000000"


class Receiving(System, Protocol):
    """A new and empty destination under test."""

    def rows(self) -> list[dict[str, Any]]:
        """Return all current rows, in any order: `amount` as int, and `timelabel` if the destination has it."""
        ...


class Slices:
    """Builds deliveries of sealed slices in a folder. Claims are numbered from 1."""

    def __init__(self, folder: Path, publish: str) -> None:
        self.folder = folder
        self.publish = publish
        self.claim = 0

    def seal(self, rows: Sequence[Mapping[str, Any]]) -> Path:
        """Write rows to a sealed file, which has more columns than are published."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.folder / f"part-{len(list(self.folder.iterdir()))}.parquet"
        fields = [("id", pa.string()), ("gone", pa.bool_()), ("timelabel", pa.string()), ("amount", pa.int32())]
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema=pa.schema(fields)), path)
        return path

    def of(
        self,
        label: str,
        rows: Sequence[Mapping[str, Any]],
        mode: Mode,
        *,
        is_from_partitioned: bool = False,
        deleted: Sequence[str] = (),
        is_whole: bool = False,
    ) -> Delivery:
        """Build a delivery of some rows under the next claim."""
        self.claim += 1
        instant: datetime = instant_of(label).astimezone(UTC)
        return Delivery(
            project=PROJECT,
            publish=self.publish,
            claim=self.claim,
            label=instant,
            label_text=label,
            mode=mode,
            is_from_partitioned=is_from_partitioned,
            columns=COLUMNS,
            files=(self.seal([*rows, *({"id": key, "gone": True} for key in deleted)]),),
            keys=("id",) if mode is Mode.MERGE else (),
            deleted_column="gone" if mode is Mode.MERGE and not is_from_partitioned else "",
            is_whole=is_whole,
            note=f"note {self.claim}",
        )

    def claim_of(self, rows: Mapping[str, Sequence[Mapping[str, Any]]], mode: Mode) -> list[Delivery]:
        """Build the deliveries of one claim for several labels of a partitioned table."""
        made = [self.of(label, of_label, mode, is_from_partitioned=True) for label, of_label in rows.items()]
        return [replace(delivery, claim=made[0].claim) for delivery in made]


def row(key: str, amount: int) -> dict[str, Any]:
    """Build a row with `id` and `amount`."""
    return {"id": key, "amount": amount}


class DeliveryConformance(KeepsSecrets):
    """Tests of every destination in mode APPEND, and in REPLACE and MERGE if it supports them."""

    @pytest.fixture
    def slices(self, tmp_path: Path, system: Receiving) -> Slices:
        folder = tmp_path / "sealed"
        folder.mkdir()
        return Slices(folder, str(system.unit))

    def test_a_slice_is_delivered_with_its_label(self, system: Receiving, slices: Slices) -> None:
        delivery = slices.of(_FIRST, [row("a", 1), row("b", 2)], Mode.APPEND, is_from_partitioned=True)
        delivered = _deliver(system, delivery)
        assert (delivered.outcome, delivered.rows, delivered.is_repeat) == (DeliveryOutcome.DELIVERED, 2, False)
        assert _read_sorted_rows(system) == [("a", 1, _FIRST), ("b", 2, _FIRST)]

    def test_a_claim_is_delivered_once(self, system: Receiving, slices: Slices) -> None:
        delivery = slices.of(_FIRST, [row("a", 1)], Mode.APPEND, is_from_partitioned=True)
        first = _deliver(system, delivery)
        again = _deliver(system, delivery)
        assert again.is_repeat
        assert (again.outcome, again.rows, again.note) == (first.outcome, first.rows, first.note)
        assert _read_sorted_rows(system) == [("a", 1, _FIRST)]

    def test_a_restated_label_replaces_its_own_rows(self, system: Receiving, slices: Slices) -> None:
        for label, amount in ((_FIRST, 1), (_SECOND, 2)):
            rows = [row("a", amount), row("b", amount)]
            _deliver(system, slices.of(label, rows, Mode.APPEND, is_from_partitioned=True))
        _deliver(system, slices.of(_FIRST, [row("a", 9)], Mode.APPEND, is_from_partitioned=True))
        assert _read_sorted_rows(system) == [("a", 2, _SECOND), ("a", 9, _FIRST), ("b", 2, _SECOND)]

    def test_a_restated_label_without_rows_removes_its_rows(self, system: Receiving, slices: Slices) -> None:
        _deliver(system, slices.of(_FIRST, [row("a", 1)], Mode.APPEND, is_from_partitioned=True))
        _deliver(system, slices.of(_FIRST, [], Mode.APPEND, is_from_partitioned=True))
        assert _read_sorted_rows(system) == []

    def test_a_killed_claim_delivers_nothing(self, system: Receiving, slices: Slices) -> None:
        delivery = slices.of(_FIRST, [row("a", 1)], Mode.APPEND, is_from_partitioned=True)
        deliverer = _deliverer(system)
        killed = deliverer.kill(system.unit, PROJECT, delivery.publish, delivery.claim)
        assert (killed.outcome, killed.is_repeat) == (DeliveryOutcome.KILLED, False)
        assert _deliver(system, delivery).outcome is DeliveryOutcome.KILLED
        assert _read_sorted_rows(system) == []

    def test_killing_a_delivered_claim_reports_its_delivery(self, system: Receiving, slices: Slices) -> None:
        delivery = slices.of(_FIRST, [row("a", 1)], Mode.APPEND, is_from_partitioned=True)
        deliverer = _deliverer(system)
        _deliver(system, delivery)
        stands = deliverer.kill(system.unit, PROJECT, delivery.publish, delivery.claim)
        assert (stands.outcome, stands.rows, stands.is_repeat) == (DeliveryOutcome.DELIVERED, 1, True)
        assert _read_sorted_rows(system) == [("a", 1, _FIRST)]

    def test_the_current_delivery_can_be_queried(self, system: Receiving, slices: Slices) -> None:
        deliverer = _deliverer(system)
        assert deliverer.find(system.unit, PROJECT, slices.publish, 1) is None
        assert deliverer.last(system.unit, PROJECT, slices.publish) is None
        for label in (_FIRST, _SECOND):
            _deliver(system, slices.of(label, [row("a", 1)], Mode.APPEND, is_from_partitioned=True))
        deliverer.kill(system.unit, PROJECT, slices.publish, 3)
        found = deliverer.find(system.unit, PROJECT, slices.publish, 1)
        last = deliverer.last(system.unit, PROJECT, slices.publish)
        assert found is not None
        assert last is not None
        assert (found.label_text, found.note) == (_FIRST, "note 1")
        assert (last.claim, last.label_text, last.note) == (2, _SECOND, "note 2")

    def test_a_present_delivery_is_not_reported_as_lost(self, system: Receiving, slices: Slices) -> None:
        deliverer = _deliverer(system)
        for rows in ([row("a", 1), row("b", 2)], []):
            delivery = slices.of(_FIRST, rows, Mode.APPEND, is_from_partitioned=True)
            _deliver(system, delivery)
            assert deliverer.find_loss(system.unit, PROJECT, slices.publish, delivery.claim) is None

    def test_a_newer_delivery_of_the_label_is_not_a_loss(self, system: Receiving, slices: Slices) -> None:
        first = slices.of(_FIRST, [row("a", 1)], Mode.APPEND, is_from_partitioned=True)
        _deliver(system, first)
        _deliver(system, slices.of(_FIRST, [row("a", 1), row("b", 2)], Mode.APPEND, is_from_partitioned=True))
        assert _deliverer(system).find_loss(system.unit, PROJECT, slices.publish, first.claim) is None

    def test_a_newer_delivery_of_another_label_of_the_claim_is_not_a_loss(
        self, system: Receiving, slices: Slices
    ) -> None:
        deliverer = _deliverer(system)
        together = slices.claim_of({_FIRST: [row("a", 1)], _SECOND: [row("b", 1)]}, Mode.APPEND)
        deliverer.deliver(system.unit, together)
        _deliver(system, slices.of(_FIRST, [row("a", 1), row("c", 2)], Mode.APPEND, is_from_partitioned=True))
        assert deliverer.find_loss(system.unit, PROJECT, slices.publish, together[0].claim) is None

    def test_a_missing_delivery_is_reported_as_lost(self, system: Receiving, slices: Slices) -> None:
        deliverer = _deliverer(system)
        assert deliverer.find_loss(system.unit, PROJECT, slices.publish, 7)
        _deliver(system, slices.of(_FIRST, [row("a", 1)], Mode.APPEND, is_from_partitioned=True))
        deliverer.kill(system.unit, PROJECT, slices.publish, 8)
        for claim in (7, 8):
            lost = deliverer.find_loss(system.unit, PROJECT, slices.publish, claim)
            assert lost is not None
            assert str(claim) in lost

    def test_a_missing_slice_file_leaves_the_destination_unchanged(self, system: Receiving, slices: Slices) -> None:
        deliverer = _deliverer(system)
        _deliver(system, slices.of(_FIRST, [row("a", 1)], Mode.APPEND, is_from_partitioned=True))
        lost = slices.of(_FIRST, [row("a", 9)], Mode.APPEND, is_from_partitioned=True)
        lost.files[0].unlink()
        with pytest.raises(WaterclockError):
            _deliver(system, lost)
        assert _read_sorted_rows(system) == [("a", 1, _FIRST)]
        assert deliverer.find(system.unit, PROJECT, slices.publish, lost.claim) is None

    def test_labels_of_one_claim_are_delivered_together_or_not_at_all(self, system: Receiving, slices: Slices) -> None:
        rows = {_FIRST: [row("a", 1)], _SECOND: [row("a", 2), row("b", 2)]}
        together = slices.claim_of(rows, Mode.APPEND)
        lost = slices.claim_of({_FIRST: [row("a", 9)], _THIRD: [row("a", 9)]}, Mode.APPEND)
        lost[-1].files[0].unlink()
        deliverer = _deliverer(system)
        delivered = deliverer.deliver(system.unit, together)
        assert [(one.label_text, one.rows) for one in delivered] == [(_FIRST, 1), (_SECOND, 2)]
        with pytest.raises(WaterclockError):
            deliverer.deliver(system.unit, lost)
        assert deliverer.find(system.unit, PROJECT, slices.publish, lost[0].claim) is None
        again = deliverer.deliver(system.unit, together)
        assert [one.label_text for one in again if one.is_repeat] == [_FIRST, _SECOND]
        assert _read_sorted_rows(system) == [("a", 1, _FIRST), ("a", 2, _SECOND), ("b", 2, _SECOND)]

    def test_a_wrong_secret_is_reported_and_nothing_is_delivered(self, system: Receiving, slices: Slices) -> None:
        delivery = slices.of(_FIRST, [row("a", 1)], Mode.APPEND, is_from_partitioned=True)
        refused(system, lambda wrong: system.connector.deliverer(wrong).deliver(system.unit, [delivery]))
        assert _read_sorted_rows(system) == []
        stands = _deliverer(system).find(system.unit, PROJECT, slices.publish, delivery.claim)
        assert stands is None or stands.outcome is DeliveryOutcome.KILLED, "what was refused was not delivered"
        _deliver(system, slices.of(_FIRST, [row("a", 2)], Mode.APPEND, is_from_partitioned=True))
        assert _read_sorted_rows(system) == [("a", 2, _FIRST)]

    def test_delivering_again_repairs_a_fault_at_any_step(self, system: Receiving, slices: Slices) -> None:
        _deliver(system, slices.of(_FIRST, [row("a", 1)], Mode.APPEND, is_from_partitioned=True))
        points = _points_of(system, slices)
        assert points, "a deliverer passes fault points, so that its steps can be tested"
        for number, point in enumerate(points):
            delivery = slices.of(_SECOND, [row("a", number)], Mode.APPEND, is_from_partitioned=True)
            with pytest.raises(_StruckError), inject_faults(_strike_at(point)):
                _deliver(system, delivery)
            assert ("a", 1, _FIRST) in _read_sorted_rows(system)
            assert _deliver(system, delivery).outcome is DeliveryOutcome.DELIVERED
            assert _read_sorted_rows(system) == sorted([("a", 1, _FIRST), ("a", number, _SECOND)])

    def test_a_claim_with_a_fault_before_its_commit_can_be_killed(self, system: Receiving, slices: Slices) -> None:
        delivery = slices.of(_FIRST, [row("a", 1)], Mode.APPEND, is_from_partitioned=True)
        with pytest.raises(_StruckError), inject_faults(_strike_at("deliver.rows")):
            _deliver(system, delivery)
        killed = _deliverer(system).kill(system.unit, PROJECT, delivery.publish, delivery.claim)
        assert killed.outcome is DeliveryOutcome.KILLED
        assert _read_sorted_rows(system) == []

    def test_replace_delivers_the_whole_state(self, system: Receiving, slices: Slices) -> None:
        _skip_unless_supported(system, Mode.REPLACE)
        _deliver(system, slices.of(_FIRST, [row("a", 1), row("b", 1)], Mode.REPLACE))
        _deliver(system, slices.of(_SECOND, [row("b", 2)], Mode.REPLACE))
        assert _read_sorted_rows(system) == [("b", 2, None)]

    def test_an_older_state_never_replaces_a_newer_one(self, system: Receiving, slices: Slices) -> None:
        _skip_unless_supported(system, Mode.REPLACE)
        deliverer = _deliverer(system)
        _deliver(system, slices.of(_THIRD, [row("a", 3)], Mode.REPLACE))
        older = slices.of(_FIRST, [row("a", 1)], Mode.REPLACE)
        assert _deliver(system, older).outcome is DeliveryOutcome.OLDER
        assert _deliver(system, older).outcome is DeliveryOutcome.OLDER
        assert _read_sorted_rows(system) == [("a", 3, None)]
        last = deliverer.last(system.unit, PROJECT, slices.publish)
        assert last is not None
        assert last.label_text == _THIRD

    def test_the_newest_state_may_be_restated(self, system: Receiving, slices: Slices) -> None:
        _skip_unless_supported(system, Mode.REPLACE)
        _deliver(system, slices.of(_FIRST, [row("a", 1)], Mode.REPLACE))
        _deliver(system, slices.of(_FIRST, [row("a", 2)], Mode.REPLACE))
        assert _read_sorted_rows(system) == [("a", 2, None)]

    def test_merge_replaces_rows_by_key(self, system: Receiving, slices: Slices) -> None:
        _skip_unless_supported(system, Mode.MERGE)
        _deliver(system, slices.of(_FIRST, [row("a", 1), row("b", 1)], Mode.MERGE))
        delivered = _deliver(system, slices.of(_SECOND, [row("b", 2), row("c", 2)], Mode.MERGE, deleted=["a", "x"]))
        assert (delivered.rows, delivered.deleted) == (2, 1)
        assert _read_sorted_rows(system) == [("b", 2, None), ("c", 2, None)]

    def test_merge_of_a_whole_state_removes_all_other_rows(self, system: Receiving, slices: Slices) -> None:
        _skip_unless_supported(system, Mode.MERGE)
        _deliver(system, slices.of(_FIRST, [row("a", 1), row("b", 1)], Mode.MERGE))
        _deliver(system, slices.of(_SECOND, [row("b", 2)], Mode.MERGE, is_whole=True))
        assert _read_sorted_rows(system) == [("b", 2, None)]

    def test_merge_from_slices_never_changes_a_newer_labels_row(self, system: Receiving, slices: Slices) -> None:
        _skip_unless_supported(system, Mode.MERGE)
        for label, amount in ((_FIRST, 10), (_SECOND, 20)):
            _deliver(system, slices.of(label, [row("k", amount)], Mode.MERGE, is_from_partitioned=True))
        restated = slices.of(_FIRST, [row("k", 11), row("l", 11)], Mode.MERGE, is_from_partitioned=True)
        _deliver(system, restated)
        assert _read_sorted_rows(system) == [("k", 20, _SECOND), ("l", 11, _FIRST)]


class _StruckError(Exception):
    """A fault that the test injected."""


def _strike_at(wanted: str) -> Any:
    def strike(point: str) -> None:
        if point == wanted:
            raise _StruckError(point)

    return strike


def _points_of(system: Receiving, slices: Slices) -> list[str]:
    points: list[str] = []
    with inject_faults(points.append):
        rows = [row("a", 0)]
        _deliver(system, slices.of(_SECOND, rows, Mode.APPEND, is_from_partitioned=True))
    return points


def _deliverer(system: Receiving) -> Deliverer:
    return system.connector.deliverer(system.setting)


def _deliver(system: Receiving, delivery: Delivery) -> Delivered:
    (delivered,) = _deliverer(system).deliver(system.unit, [delivery])
    return delivered


def _skip_unless_supported(system: Receiving, mode: Mode) -> None:
    if mode not in system.connector.capabilities.publishes:
        pytest.skip(f"it does not take {mode.value.upper()}")


def _read_sorted_rows(system: Receiving) -> list[tuple[str, int, str | None]]:
    return sorted((str(one["id"]), int(one["amount"]), one.get("timelabel")) for one in system.rows())
