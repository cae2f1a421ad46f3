"""Compares the conditions of grants on forms, and the rules of forms, with the same conditions in Spark."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from waterclock.connectors.forms.pattern_search import matches
from waterclock.connectors.forms.row_checks import find_invalid_values
from waterclock.dpl.resolve.row_conditions import parse_row_condition
from waterclock.dpl.syntax.expressions import expression_of
from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.dpl.syntax.tokens import dialect
from waterclock.flow.checks import list_batch_rules
from waterclock.flow.forms import FormField
from waterclock.flow.row_conditions import bind_condition, evaluate, find_unsuitable
from waterclock.flow.text_patterns import translate_like, translate_regex
from waterclock.operations.forms import open_form
from waterclock.operations.project_opening import open_project

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
    kind = dice.randrange(9 if depth < 3 else 5)
    maybe_not = dice.choice(["", "NOT "])
    if kind < 2:
        return f"{name} IS {maybe_not}NULL" if kind else f"{name} {maybe_not}IN ({literal()}, {literal()})"
    if kind == 2:
        return f"{literal()} {dice.choice(['=', '<', '<=', '>', '>=', '<>'])} {name}"
    if kind < 5:
        return f"{name} {dice.choice(['=', '==', '!=', '<', '<=', '>', '>=', '<>'])} {literal()}"
    if kind == 5:
        return f"{name} {maybe_not}BETWEEN {literal()} AND {literal()}"
    if kind == 6:
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


LETTERS = ["a", "b", "A", "1", "_", "%", " ", "\n", "\r", "\u0085", "\u2028", "é", "\U0001f600", "-", "."]


def random_regex(dice: random.Random, depth: int = 0) -> str:
    """Return a pattern of Java, of which forms search most."""
    plain = [each for each in LETTERS if each != "."]
    atoms = [
        lambda: dice.choice([*plain, "."]),
        lambda: dice.choice(["[a-b1]", "[^a]", "[A-Z_-]", "[é\U0001f600]", "[^\n]", "[.]", "[a-c-e]"]),
        lambda: f"({dice.choice(['', '?:'])}{random_regex(dice, depth + 1)})" if depth < 2 else "b",
    ]
    repeats = ["", "", "", "", "*", "+", "?", "{2}", "{1,2}", "{0,}", "*?", "+?", "++"]
    branches = []
    for _ in range(dice.choice([1, 1, 2])):
        parts = "".join(dice.choice(atoms)() + dice.choice(repeats) for _ in range(dice.randint(1, 3)))
        branches.append(f"{dice.choice(['', '', '^'])}{parts}{dice.choice(['', '', '$'])}")
    return "|".join(branches)


def test_a_form_searches_patterns_as_spark_does(spark: SparkSession) -> None:
    dice = random.Random(13)
    texts = ["", "a", "A1", "AB-1000", *("".join(dice.choices(LETTERS, k=dice.randint(1, 5))) for _ in range(120))]
    likes = {"".join(dice.choices([*LETTERS, "%", "_"], k=dice.randint(0, 4))) for _ in range(60)}
    regexes = {"^[A-Z]{2}-[0-9]{4}$", "a$|^b", *(random_regex(dice) for _ in range(600))}
    stored = spark.createDataFrame([(at, text) for at, text in enumerate(texts)], "at INT, x STRING")
    patterns = [("LIKE", each, translate_like(each)) for each in sorted(likes)]
    patterns += [("RLIKE", each, translate_regex(each)) for each in sorted(regexes)]
    searched = [(kind, pattern, found) for kind, pattern, found in patterns if found is not None]
    assert len(searched) > 200
    verdicts = [F.col("x").like(each) if kind == "LIKE" else F.col("x").rlike(each) for kind, each, _ in searched]
    by_spark = stored.orderBy("at").select(F.array(*verdicts)).collect()
    counts = {True: 0, False: 0}
    for text, [row] in zip(texts, by_spark, strict=True):
        for (kind, pattern, found), verdict in zip(searched, row, strict=True):
            assert matches(found, text) == verdict, (kind, pattern, found, text)
            counts[verdict] += 1
    assert min(counts.values()) > 5_000


RULES = """
CREATE CONNECTION forms TYPE forms;
COLLECT mdm.prices (
    id INT KEY, land EXPECT (land IN ('DE', 'de', 'ß')) AS lands EXPECT (land <> '') ELSE WARN,
    pack BIGINT EXPECT (pack BETWEEN -9 AND 9) AS packs ELSE QUARANTINE EXPECT (NOT pack = 10) AS not_ten ELSE DROP,
    price DECIMAL(9,2) EXPECT (price >= :least) AS positive ELSE HOLD, day DATE EXPECT (day < '2026-12-01') AS past,
    active BOOLEAN EXPECT (active) AS is_active ELSE WARN AT MOST 5 ELSE FAIL)
  FROM forms.prices
  EXPECT active OR price IS NOT NULL AS one_of ELSE WARN,
    (land = 'DE' AND pack > 0) OR (land <> 'DE' AND day >= DATE '2026-01-01') OR land IS NULL AS by_land,
    length(land) < 2 AS short, land LIKE '_' OR land RLIKE '^[A-Z]+$' AS like_code, price > pack AS dear
  EVERY DAY START '2020-01-01';
"""


def test_a_form_finds_the_rows_that_break_rules_as_spark_does(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "a.dpl").write_text(RULES)
    (tmp_path / "waterclock.toml").write_text('[project]\nname = "p"\n[vars]\nleast = 0\n[env.dev]\nstorage = ".dev"\n')
    project = open_project(tmp_path, None)
    entity = open_form(project, "mdm.prices").entity
    assert [rule.name for rule in entity.rules if not rule.is_checked] == ["dear"]
    assert [field.name for field in entity.fields if field.choices] == ["land"]
    dice = random.Random(9)
    rows: list[dict[str, str | None]] = [
        {"id": str(at), **{name: dice.choice(values) for name, values in VALUES.items()}} for at in range(1000)
    ]
    types = [f"CAST({field.name} AS {field.type}) AS {field.name}" for field in entity.fields]
    stored = spark.createDataFrame(
        [tuple(row.values()) for row in rows], ", ".join(f"{name} STRING" for name in rows[0])
    )
    rules = list_batch_rules(project.flow.tables["mdm.prices"])
    verdicts = [f"({rule.expression}) IS NOT TRUE AS `{rule.name}`" for rule in rules]
    by_spark = stored.selectExpr(*types).orderBy("id").selectExpr(*verdicts).collect()
    checked = {rule.name: rule for rule in entity.rules if rule.is_checked}
    assert len(checked) == 10
    for row, verdict in zip(rows, by_spark, strict=True):
        problems = find_invalid_values(entity, row, None)
        assert verdict["lands"] == ("none of" in problems.get("land", "") or "one of" in problems.get("land", ""))
        for name, rule in checked.items():
            assert verdict[name] == rule.is_broken_by(row), (name, row)
            if rule.is_refusing and verdict[name]:
                assert rule.column in problems, (name, row)
    for name in checked:
        assert 10 < sum(verdict[name] for verdict in by_spark) < 990, name
