"""A missing ledger of a storage with tables is an error; read-only commands never create an empty one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Shop

QUESTIONS = [
    ("status",),
    ("plan",),
    ("show", "shop.orders"),
    ("audit", "shop.orders@2024-11-18"),
    ("query", "SELECT 1"),
    ("run",),
    ("skip", "shop.orders", "2024-11-19", "--why", "x", "--yes"),
    ("maintain",),
    ("ledger", "export"),
]


def lose(shop: Shop) -> Path:
    """Remove the ledger of a storage that has a table."""
    ledger = shop.ledger_file
    for path in ledger.parent.glob(f"{ledger.name}*"):
        path.unlink()
    (Path(shop.project.storage) / "tables" / "shop" / "orders" / "_delta_log").mkdir(parents=True)
    return ledger


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda words: words[0])
def test_a_lost_ledger_is_an_error_that_names_the_rebuild(busy_shop: Shop, question: tuple[str, ...]) -> None:
    ledger = lose(busy_shop)
    found = busy_shop.ask(*question)
    assert found.exit_code == 1
    assert "E421 the ledger is gone" in found.stderr
    assert "`waterclock ledger rebuild`" in found.stderr
    assert not ledger.exists()


@pytest.mark.parametrize("question", QUESTIONS[:4], ids=lambda words: words[0])
def test_a_damaged_ledger_is_an_error_that_names_the_rebuild(busy_shop: Shop, question: tuple[str, ...]) -> None:
    ledger = busy_shop.ledger_file
    for path in ledger.parent.glob(f"{ledger.name}-*"):
        path.unlink()
    ledger.write_bytes(b"this was a ledger, and something else was written over it " * 200)
    found = busy_shop.ask(*question)
    assert "E422" in found.stderr
    assert "`waterclock ledger rebuild --force`" in found.stderr


def test_a_missing_ledger_is_detected_from_its_exports_alone(busy_shop: Shop) -> None:
    assert busy_shop.ask("ledger", "export").exit_code == 0
    ledger = busy_shop.ledger_file
    for path in ledger.parent.glob(f"{ledger.name}*"):
        path.unlink()
    assert "E421" in busy_shop.ask("status").stderr


def test_where_nothing_ever_ran_a_question_is_answered_and_leaves_no_ledger(shop: Shop) -> None:
    ledger = shop.ledger_file
    for path in ledger.parent.glob(f"{ledger.name}*"):
        path.unlink()
    for question in (("status",), ("plan",)):
        assert shop.ask(*question).exit_code == 0
    assert not ledger.exists()
