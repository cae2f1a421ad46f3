"""Random histories of deliveries to MariaDB come to what a table of Python's comes to."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest

from tests.systems import MysqlDatabase
from waterclock.connectors.delivering import Delivery
from waterclock.faults import inject_faults
from waterclock.flow.enums import Mode
from waterclock.testing.deliveries import Slices, row

pytestmark = pytest.mark.slow

KEYS = ["a", "A", "a ", "\u00e4", "", "\U0001f600", "%s", "'"]
LABELS = [f"2013010{number}000000" for number in range(1, 5)]
State = dict[str, tuple[int, str | None]]


class Struck(Exception):
    """The end of a delivery that is tried again."""


def some_rows(chance: random.Random) -> dict[str, int]:
    return {key: chance.randrange(100) for key in chance.sample(KEYS, chance.randrange(len(KEYS)))}


def by_oracle(state: State, label: str, brought: dict[str, int], gone: list[str], *, kind: str) -> State:
    """Deliver into a table of Python's."""
    if kind == "replace":
        return {key: (amount, None) for key, amount in brought.items()}
    if kind == "whole":
        return {key: (amount, None) for key, amount in brought.items()}
    if kind == "merge":
        kept = {key: value for key, value in state.items() if key not in gone}
        return {**kept, **{key: (amount, None) for key, amount in brought.items()}}
    kept = {key: value for key, value in state.items() if value[1] != label}
    newer = {key for key, (_, other) in kept.items() if other is not None and other > label}
    return {**kept, **{key: (amount, label) for key, amount in brought.items() if key not in newer}}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("kind", ["replace", "merge", "by label"])
def test_random_deliveries_yield_the_rows_of_the_python_model(seed: int, kind: str, tmp_path: Path) -> None:
    chance = random.Random(f"{kind} {seed}")
    database = MysqlDatabase(tmp_path)
    folder = tmp_path / "sealed"
    folder.mkdir()
    slices, state = Slices(folder, "ops.totals"), State()
    deliverer = database.connector.deliverer(database.setting)

    def strike(point: str) -> None:
        if chance.random() < 0.2:
            raise Struck(point)

    def deliver(made: Delivery) -> None:
        while True:
            with suppress(Struck), inject_faults(strike):
                deliverer.deliver(database.unit, [made])
                return

    labels = sorted(chance.choices(LABELS, k=8)) if kind != "by label" else chance.choices(LABELS, k=8)
    for label in labels:
        brought = some_rows(chance)
        gone = [key for key in KEYS if key not in brought and chance.random() < 0.4]
        is_whole = kind == "merge" and chance.random() < 0.3
        rows = [row(key, amount) for key, amount in brought.items()]
        if kind == "replace":
            deliver(slices.of(label, rows, Mode.REPLACE))
        elif kind == "merge":
            deliver(slices.of(label, rows, Mode.MERGE, deleted=gone, is_whole=is_whole))
        else:
            deliver(slices.of(label, rows, Mode.MERGE, is_from_partitioned=True))
        state = by_oracle(state, label, brought, gone, kind="whole" if is_whole else kind)
        found = {one["id"]: (one["amount"], one.get("timelabel")) for one in database.rows()}
        assert found == state
