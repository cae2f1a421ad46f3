from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.unit.cli.conftest import Shop
from waterclock.cli.actions import model

if TYPE_CHECKING:
    import pytest

REFERRING = (
    "TRANSFORM dim.customer (customer_id KEY, city) TEMPORAL "
    "AS SELECT customer_id, 'x' AS city FROM shop.customers;"
    "TRANSFORM fact.visit (id KEY, customer_id REFERENCES dim.customer ROLE by AT seen_at, seen_at TIMESTAMP)"
    "AS SELECT 1 AS id, customer_id, TIMESTAMP '2024-01-01 00:00:00Z' AS seen_at FROM shop.customers;"
)


def test_the_model_is_printed_for_graphviz(busy_shop: Shop) -> None:
    printed = busy_shop.ask("model").stdout
    assert printed.startswith("digraph model {")
    assert '"shop.orders" [label=' in printed
    assert '"web.visits" [label=' not in busy_shop.ask("model", "shop.*").stdout


def test_it_is_written_to_a_file(busy_shop: Shop, tmp_path: Path) -> None:
    found = busy_shop.ask("model", "--out", str(tmp_path / "model.dot"))
    assert (found.exit_code, found.stdout.startswith("drawn: ")) == (0, True)
    assert (tmp_path / "model.dot").read_text().startswith("digraph model {")
    assert not (tmp_path / "model.svg").exists()


def test_drawing_without_graphviz_is_refused_with_the_command_that_installs_it(
    busy_shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = busy_shop.ask("model", "--out", str(tmp_path / "model.svg"))
    assert found.exit_code == 1
    assert "E908 Graphviz is missing" in found.stderr
    assert "apt-get install graphviz" in found.stderr


def test_another_kind_of_file_is_refused(busy_shop: Shop, tmp_path: Path) -> None:
    assert (
        "E907 model.pdf has an unknown image format"
        in busy_shop.ask("model", "--out", str(tmp_path / "model.pdf")).stderr
    )


def test_the_model_is_json(busy_shop: Shop) -> None:
    told = busy_shop.json("model", "shop.customers")
    [table] = told["tables"]
    assert told["file"] is None
    assert table["table"] == "shop.customers"
    assert table["columns"][0] == {
        "name": "customer_id",
        "type": None,
        "is_key": True,
        "references": None,
        "role": None,
    }


def test_model_draws_the_tables_and_columns_that_flat_joins(tmp_path: Path, busy_shop: Shop) -> None:
    (busy_shop.folder / "flows" / "model.dpl").write_text(REFERRING)
    assert "<b>dim.customer as by</b>" in busy_shop.ask("model", "--flat", "fact.visit").stdout
    assert busy_shop.ask("model", "--flat", "fact.visit", "--out", str(tmp_path / "flat.dot")).stdout.startswith(
        "drawn"
    )
    told = busy_shop.json("model", "--flat", "fact.visit")
    assert told["flat"] == "fact.visit"
    assert told["tables"][1] == {
        "table": "dim.customer",
        "role": "by",
        "by": ["customer_id"],
        "chosen": "at seen_at",
        "columns": [{"name": "city_by", "column": "city", "type": None}],
    }
    refused = busy_shop.ask("model", "--flat", "dim.customer")
    assert (refused.exit_code, "E237 dim.customer refers to no other table" in refused.stderr) == (1, True)


def test_on_a_terminal_the_model_is_text(busy_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    (busy_shop.folder / "flows" / "model.dpl").write_text(REFERRING)
    monkeypatch.setattr(model, "is_read_by_people", lambda: True)
    assert busy_shop.ask("model", "fact.visit").stdout.splitlines() == [
        "fact.visit  regular transform, replace, EVERY DAY",
        "  id                      key",
        "  customer_id             → dim.customer as by at seen_at",
        "  seen_at      timestamp",
        "",
        "as a picture: waterclock model --out model.svg",
    ]
    flat = busy_shop.ask("model", "--flat", "fact.visit").stdout
    assert "  dim.customer as by  by customer_id, at seen_at\n    city_by\n" in flat
    assert flat.endswith("as a picture: waterclock model --flat fact.visit --out model.svg\n")
