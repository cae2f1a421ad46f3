"""A fast scan accepts the sheets in which a parser would find nothing, and reads their XML once."""

from __future__ import annotations

import io
from random import Random

import pytest

from tests.counting import calls_named
from waterclock.connectors.files import xlsx_checks
from waterclock.connectors.files.xlsx_checks import FormulaCells, _CellParser, _is_plain_and_small

CELLS = {
    "<v>1</v>": True,
    "<f>A1+1</f><v>2</v>": True,
    '<f t="shared" ref="A1:A9" si="0">A1*2</f><v>2</v>': True,
    '<f t="shared" si="0"/><v>0.5</v>': True,
    "<f/><v> x </v>": True,
    "<f>A1</f>": False,
    "<f>A1</f><v/>": False,
    "<f>A1</f><v></v>": False,
    "<f>A1</f><v> \n\u3000</v>": False,
    "<f>A1</f><v>&#32;</v>": False,
    "<f>A1</f><!--<v>1</v></c>--><v></v>": False,
    "<f>A1</f><v><!--1--></v>": False,
    '<f t="shared" si="0"/>': False,
}
"""The content of a cell, and whether the fast scan accepts it."""


def sheet(*cells: str) -> bytes:
    rows = "".join(f'<row r="{at}"><c r="A{at}" s="1">{cell}</c></row>' for at, cell in enumerate(cells, 1))
    after = '<row r="99" ht="15"/></sheetData><conditionalFormatting><formula>1</formula></conditionalFormatting>'
    return f"<worksheet><sheetData>{rows}{after}</worksheet>".encode()


def is_plain(content: bytes) -> bool:
    return _is_plain_and_small(io.BytesIO(content))


@pytest.mark.parametrize("cell", CELLS)
def test_a_formula_with_its_result_needs_no_closer_check(cell: str) -> None:
    assert is_plain(sheet("<v>1</v>", cell, "<v>3</v>")) is CELLS[cell]


def test_the_fast_scan_passes_nothing_that_the_parser_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    dice, passed = Random(7), 0
    for _ in range(300):
        monkeypatch.setattr(xlsx_checks, "_CHUNK", dice.randrange(150, 400))
        weights = [9 if plain else 0.1 for plain in CELLS.values()]
        content = sheet(*dice.choices([*CELLS], weights, k=20))
        found = FormulaCells()
        _CellParser(found).parse(io.BytesIO(content))
        passed += is_plain(content)
        assert found.unreckoned is None or not is_plain(content), content
    assert passed > 100


def test_a_long_value_without_an_end_is_scanned_in_linear_time() -> None:
    calls = calls_named(lambda: is_plain(b"<f/><v>" + b"a" * 500_000 + b"<f>" * 500), "read")[1]
    assert calls <= 2
