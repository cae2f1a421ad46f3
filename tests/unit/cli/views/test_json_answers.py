from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Shop, ask
from waterclock.json_models.commands import ANSWERS


@pytest.mark.parametrize(
    "command",
    [
        ("check",),
        ("plan",),
        ("status",),
        ("status", "--lag"),
        ("show", "shop.orders", "--rows", "0"),
        ("audit", "sales.by_country@2024-11-17"),
        ("audit", "shop.orders"),
        ("lineage", "sales.by_country"),
        ("lineage", "shop.orders.amount"),
        ("lineage", "shop.orders.amount", "--impact"),
        ("model", "shop.orders"),
        ("maintain", "--dry-run"),
        ("ledger", "export"),
        ("ledger", "rebuild", "--force"),
        ("pause", "shop.orders", "--why", "x"),
        ("run", "web.visits@2024-11-17"),
        ("skip", "web.per_order", "2024-11-17", "--why", "x", "--yes"),
        ("alerts",),
        ("openlineage",),
        ("runners",),
        ("trust",),
        ("retry", "--no-run"),
        ("recompute", "shop.orders@2024-11-17", "--no-run", "--yes"),
    ],
)
def test_a_command_prints_the_keys_that_are_documented(busy_shop: Shop, command: tuple[str, ...]) -> None:
    told = set(busy_shop.json(*command))  # `ask` validates all of it
    assert told in [set(answer.model_fields) - {"version"} for answer in ANSWERS[command[0]]] or command[0] == "trust"


def test_init_prints_the_keys_that_are_documented(tmp_path: Path) -> None:
    assert ask("init", str(tmp_path / "x"), "--json").exit_code == 0


def test_a_columns_lineage_has_a_column_and_no_arrows(busy_shop: Shop) -> None:
    assert set(busy_shop.json("lineage", "shop.orders.amount")) == {"column", "made_from", "went_into"}
