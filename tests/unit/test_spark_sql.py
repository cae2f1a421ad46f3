from __future__ import annotations

import pytest

from waterclock.spark_sql import cast_text, column_name, decimal_of, illegal_characters, literal_path


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("/srv/a b/it's 100%", "/srv/a b/it's 100%"),
        ("/srv/[x]/{y,z}/*?", r"/srv/\[x\]/\{y,z\}/\*\?"),
        ("/srv/back\\slash", r"/srv/back\\slash"),
    ],
)
def test_characters_that_spark_treats_as_a_pattern_are_escaped(path: str, written: str) -> None:
    assert literal_path(path) == written


@pytest.mark.parametrize(
    ("type_text", "told"),
    [
        ("DECIMAL", (10, 0)),
        ("dec(5)", (5, 0)),
        ("Numeric ( 10 , 2 )", (10, 2)),
        ("DOUBLE", None),
        ("ARRAY<DECIMAL>", None),
    ],
)
def test_the_precision_and_scale_of_a_decimal_are_parsed(type_text: str, told: tuple[int, int] | None) -> None:
    assert decimal_of(type_text) == told


def test_other_types_are_cast_alone() -> None:
    assert cast_text("`a`", "INT") == "try_cast(`a` AS INT)"
    assert cast_text("`a`", "DATE").endswith(" THEN try_cast(`a` AS DATE) END")


def test_illegal_characters_of_a_column_name_are_returned_once_each() -> None:
    assert illegal_characters("a b=c b") == (" ", "=")
    assert illegal_characters("naïve-name.x") == ()


def test_a_name_of_a_source_becomes_a_legal_column_name() -> None:
    assert column_name(" order id (new) ") == "order_id_new_"
