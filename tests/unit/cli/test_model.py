from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.unit.cli.conftest import Shop

if TYPE_CHECKING:
    import pytest


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


def test_a_picture_needs_graphviz_and_the_error_says_how_to_have_it(
    busy_shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = busy_shop.ask("model", "--out", str(tmp_path / "model.svg"))
    assert found.exit_code == 1
    assert "E908 Graphviz is missing" in found.stderr
    assert "apt-get install graphviz" in found.stderr


def test_another_kind_of_file_is_refused(busy_shop: Shop, tmp_path: Path) -> None:
    assert "E907 model.pdf is no kind of drawing" in busy_shop.ask("model", "--out", str(tmp_path / "model.pdf")).stderr


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
