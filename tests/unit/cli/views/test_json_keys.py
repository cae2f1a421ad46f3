from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Shop, ask
from waterclock.cli.app import COMMANDS
from waterclock.cli.views.json_keys import ALIKE, SHAPES


@pytest.mark.parametrize(
    "command",
    [
        ("check",),
        ("plan",),
        ("status",),
        ("show", "shop.orders", "--rows", "0"),
        ("audit", "sales.by_country@2024-11-17"),
        ("lineage", "sales.by_country"),
        ("model", "shop.orders"),
        ("maintain", "--dry-run"),
        ("ledger", "export"),
        ("ledger", "rebuild", "--force"),
        ("pause", "shop.orders", "--why", "x"),
        ("run", "web.visits@2024-11-17"),
        ("skip", "web.per_order", "2024-11-17", "--why", "x", "--yes"),
    ],
)
def test_a_command_prints_the_keys_that_are_documented(busy_shop: Shop, command: tuple[str, ...]) -> None:
    assert set(busy_shop.json(*command)) == set(SHAPES[command[0]])


def test_init_prints_the_keys_that_are_documented(tmp_path: Path) -> None:
    assert set(json.loads(ask("init", str(tmp_path / "x"), "--json").stdout)) == {"version", *SHAPES["init"]}


def test_a_columns_lineage_has_a_column_and_no_arrows(busy_shop: Shop) -> None:
    assert set(busy_shop.json("lineage", "shop.orders.amount")) == {"column", "made_from", "went_into"}


def test_every_command_has_a_shape() -> None:
    names = {function.__name__ for functions in COMMANDS.values() for function in functions}
    assert set(SHAPES) | set(ALIKE) == names
