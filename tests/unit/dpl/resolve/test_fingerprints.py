"""The canonical text of a query, from which stored fingerprints are computed."""

from __future__ import annotations

import pytest
from sqlglot.tokens import TokenType

from waterclock.dpl.resolve.fingerprints import canonical
from waterclock.dpl.syntax.tokens import dialect


@pytest.mark.parametrize("kind", ["STRING", "RAW_STRING", "HEX_STRING"])
def test_another_release_of_the_parser_with_other_numbers_changes_no_code(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = dialect().tokenize(r"SELECT 'a', r'b', X'0C'")
    before = canonical(tokens)
    monkeypatch.setattr(TokenType[kind], "_value_", 1234)
    assert canonical(tokens) == before
