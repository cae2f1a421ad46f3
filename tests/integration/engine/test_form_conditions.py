"""Compares the conditions of grants on forms with the same conditions in Spark."""

from __future__ import annotations

import random
from collections.abc import Callable

from pyspark.sql import SparkSession

from waterclock.dpl.resolve.row_conditions import parse_row_condition
from waterclock.dpl.syntax.expressions import expression_of
from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.dpl.syntax.tokens import dialect
from waterclock.flow.forms import FormField
from waterclock.flow.row_conditions import bind_condition, evaluate, find_unsuitable

TYPES = {"land": "STRING", "pack": "BIGINT", "price": "DECIMAL(9,2)", "day": "DATE", "active": "BOOLEAN"}
VALUES = {
    "land": [None, "", "DE", "de", "D", "ß", "\U0001f600", "Z", "10", "9"],
    "pack": [None, "0", "-9", "9", "10", "9223372036854775807"],
    "price": [None, "0.00", "-1.50", "9.00", "10.00", "9999999.99"],
    "day": [None, "2026-11-30", "1999-01-01", "2026-12-01"],
    "active": [None, "true", "false"],
}
# without numbers beyond BIGINT: Spark 4.2 folds a comparison with one to a constant, also for NULL
LITERALS = {
    "land": ["'DE'", "'de'", "''", "'ß'", "'Z'", "'9'"],
    "pack": ["9", "-9", "9.5", "0", "10.0"],
    "price": ["9", "9.00", "-1.5", "10.001", ".5"],
    "day": ["'2026-11-30'", "DATE '2026-12-01'", "'2026-01-31'"],
    "active": ["TRUE", "FALSE"],
}
FIELDS = {name: FormField(name, kind) for name, kind in TYPES.items()}


def random_condition(dice: random.Random, depth: int = 0) -> str:
    """Return the SQL of a random condition that forms accept."""
    name = dice.choice(list(TYPES))
    literal: Callable[[], str] = lambda: dice.choice(LITERALS[name])  # noqa: E731
    kind = dice.randrange(8 if depth < 3 else 5)
    if kind == 0:
        return f"{name} IS {dice.choice(['', 'NOT '])}NULL"
    if kind == 1:
        return f"{name} {dice.choice(['', 'NOT '])}IN ({literal()}, {literal()})"
    if kind == 2:
        return f"{literal()} {dice.choice(['=', '<', '<=', '>', '>=', '<>'])} {name}"
    if kind < 5:
        return f"{name} {dice.choice(['=', '==', '!=', '<', '<=', '>', '>=', '<>'])} {literal()}"
    if kind == 5:
        return f"NOT {random_condition(dice, depth + 1)}"
    parts = [random_condition(dice, depth + 1) for _ in range(2)]
    joined = dice.choice([" AND ", " OR "]).join(parts)
    return f"({joined})" if dice.random() < 0.6 else joined


def verdicts(text: str, rows: list[dict[str, str | None]]) -> list[bool | None]:
    source = SourceText("a.dpl", text)
    condition = parse_row_condition(expression_of(source, dialect().tokenize(text), Span(source, 0, len(text))), {})
    assert not list(find_unsuitable(condition, FIELDS))
    bound = bind_condition(condition, FIELDS, {})
    assert bound is not None
    return [evaluate(bound, row) for row in rows]


def test_a_form_evaluates_conditions_as_spark_does(spark: SparkSession) -> None:
    dice = random.Random(44)
    texts = list(dict.fromkeys(["active", "NOT active", *(random_condition(dice) for _ in range(150))]))
    rows = [{name: dice.choice(values) for name, values in VALUES.items()} for _ in range(120)]
    stored = spark.createDataFrame(
        [(at, *row.values()) for at, row in enumerate(rows)], "at INT, " + ", ".join(f"{name} STRING" for name in TYPES)
    )
    typed = stored.selectExpr("at", *(f"CAST({name} AS {kind}) AS {name}" for name, kind in TYPES.items()))
    found = typed.selectExpr("at", *(f"({text}) AS c{at}" for at, text in enumerate(texts))).orderBy("at").collect()
    assert len(texts) > 100
    for at, text in enumerate(texts):
        assert [row[f"c{at}"] for row in found] == verdicts(text, rows), text
