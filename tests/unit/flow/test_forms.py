from __future__ import annotations

import pytest

from waterclock.flow.forms import _parse_choices, normal_type


@pytest.mark.parametrize(
    ("expression", "choices"),
    [
        ("kind IN ('raw', 'finished')", ("raw", "finished")),
        ("(KIND in ('raw'))", ("raw",)),
        ("`kind` IN ('a','b c')", ("a", "b c")),
        ("kind NOT IN ('raw')", ()),
        ("kind IN ('raw') OR true", ()),
        ("(kind IN ('raw')) OR (true)", ()),
        ("kind IN ('it''s')", ()),
        ("kind IN (1, 2)", ()),
        ("other IN ('raw')", ()),
    ],
)
def test_choices_are_those_of_a_list_of_texts(expression: str, choices: tuple[str, ...]) -> None:
    assert _parse_choices(expression, "kind") == choices


@pytest.mark.parametrize(
    ("declared", "kind"),
    [(None, "STRING"), ("decimal( 5, 2 )", "DECIMAL(5,2)"), ("int", "INT"), ("ARRAY<INT>", None), ("BINARY", None)],
)
def test_a_form_edits_simple_types(declared: str | None, kind: str | None) -> None:
    assert normal_type(declared) == kind
