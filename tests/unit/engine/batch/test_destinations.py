"""A delivery is refused if the destination is missing rows that the ledger records as delivered there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.ledgers import day, table
from tests.systems import PublishedFolder, unit_of
from tests.unit.engine.fakes import group
from waterclock.batches.records import Slice
from waterclock.connectors.delivering import Deliverer, Delivery
from waterclock.engine.batch.destinations import require_last_delivery
from waterclock.engine.batch.restored_rows import find_delivered_slices
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow, Unit
from waterclock.flow.enums import Kind, Mode
from waterclock.timelabel.label import label_of

NAME = "out.daily.totals"


@dataclass
class Delivering:
    """A publish with some labels delivered into a folder, and some recorded in the ledger."""

    out: PublishedFolder
    known: dict[int, int]

    def resolve_unit(self, unit: Unit) -> Unit:
        return unit

    def deliverer(self, name: str = "") -> Deliverer:
        del name
        return self.out.connector.deliverer(self.out.setting)

    def slices(self, name: str, low: datetime, high: datetime) -> list[Slice]:
        pieces = [(day(number), claim) for number, claim in sorted(self.known.items()) if low <= day(number) < high]
        return [Slice(name, label, label, claim, -1, 0, 0, None, "", None) for label, claim in pieces]

    def newest(self, name: str) -> Slice:
        return self.slices(name, day(0), day(9))[-1]

    def last_recorded(self, name: str) -> Slice:
        return max(self.slices(name, day(0), day(9)), key=lambda piece: piece.claim)

    def brought(self, number: int, claim: int) -> None:
        label = day(number)
        delivery = Delivery(
            project="demo",
            publish=NAME,
            claim=claim,
            label=label,
            label_text=label_of(label),
            mode=Mode.APPEND,
            is_from_partitioned=False,
            columns=(("id", "STRING"),),
            files=(),
        )
        self.deliverer().deliver(unit_of("out", "daily.totals"), [delivery])


PUBLISH = replace(table(NAME, kind=Kind.PUBLISH), destination=unit_of("out", "daily.totals"))


def work_of(delivering: Delivering) -> Any:
    flow = Flow(project="demo", tables={NAME: PUBLISH}, order=(NAME,))
    project = SimpleNamespace(delivers=lambda _: True)
    return SimpleNamespace(ledger=SimpleNamespace(reads=delivering), connections=delivering, flow=flow, project=project)


def refuse(delivering: Delivering) -> None:
    require_last_delivery(work_of(delivering), PUBLISH, group(NAME, 3))


def test_a_destination_that_has_all_that_was_delivered_is_continued(tmp_path: Path) -> None:
    delivering = Delivering(PublishedFolder(tmp_path), {1: 12, 2: 11})
    for number, claim in ((1, 10), (2, 11), (1, 12)):
        delivering.brought(number, claim)
    refuse(delivering)


def test_a_destination_that_lacks_an_older_label_restated_since_is_refused(tmp_path: Path) -> None:
    """An earlier copy was restored, or `publish` was false at that time."""
    delivering = Delivering(PublishedFolder(tmp_path), {1: 12, 2: 11})
    for number, claim in ((1, 10), (2, 11)):
        delivering.brought(number, claim)
    with pytest.raises(WaterclockError, match="E824") as refused:
        refuse(delivering)
    assert "no record of claim 12" in refused.value.what


@pytest.mark.parametrize(("known", "labels"), [({1: 10, 2: 11}, [2]), ({1: 10, 2: 12}, [1])])
def test_any_older_key_may_come_back_where_the_label_s_delivery_is_not_there(
    tmp_path: Path, known: dict[int, int], labels: list[int]
) -> None:
    delivering = Delivering(PublishedFolder(tmp_path), known)
    for number, claim in ((1, 10), (2, 11)):
        delivering.brought(number, claim)
    earlier = delivering.slices(NAME, day(0), day(2))
    (recomputed,) = group(NAME, 2).batches
    held = find_delivered_slices(work_of(delivering), PUBLISH, recomputed, earlier)
    assert [piece.label for piece in held] == [day(number) for number in labels]
