"""Columns of a PUBLISH: only listed columns are delivered, even if the source gains more; and `mask_text`."""

from __future__ import annotations

import string
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import waterclock as wc
from tests.tiny import Tiny, day, described
from waterclock.dpl.query import spark_functions
from waterclock.engine.spark.user_functions import register_functions
from waterclock.flow.declarations import Flow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# capitals, lower case letters, digits and characters of several scripts, marks, astral characters, controls
SIGNS = st.sampled_from(list("aZß0٣ǅée\u0301ЖжΩ漢שك۴-.@_ \t\n\u00a0\u200b\u0000\u007f“€\U0001f600\U0001d400\U0001d7d8"))
TEXTS = st.none() | st.text(SIGNS, max_size=9)
KEPT = frozenset(string.punctuation + " \t\r\n")


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    register_functions(own, Path(), Flow(project="x", tables={}), ["SELECT mask_text(a)"])
    return own


def masked(text: str | None, first: int = 0, last: int = 0) -> str | None:
    """Mask a text character by character."""
    if text is None:
        return None
    kinds = [unicodedata.category(sign) for sign in text]
    letters = {"Lu": "X", "Lt": "X", "Nd": "n"}
    made = [sign if sign in KEPT else letters.get(kind, "x") for sign, kind in zip(text, kinds, strict=True)]
    first, last = max(first, 0), max(last, 0)
    if 0 < first + last < len(text):
        made[:first] = text[:first]
        made[len(text) - last :] = text[len(text) - last :]
    return "".join(made)


@settings(max_examples=settings().max_examples // 8, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=60), first=st.integers(-1, 4), last=st.integers(-1, 4))
def test_mask_text_masks_each_character_by_its_class(
    session: SparkSession, texts: list[str | None], first: int, last: int
) -> None:
    wanted = [(masked(text), masked(text, first, last), masked(text, first, last)) for text in texts]
    df = session.createDataFrame([(text, first, last) for text in texts], "a string, f int, l int")
    df.createOrReplaceTempView("texts")
    calls = ("mask_text(a)", f"mask_text(a, {first}, {last})", "mask_text(a, keep_last => l, keep_first => f)")
    assert [tuple(row) for row in session.sql(f"SELECT {', '.join(calls)} FROM texts").collect()] == wanted
    columns = (wc.mask_text("a"), wc.mask_text("a", first, last), wc.mask_text(df.a, keep_first=first, keep_last=last))
    assert [tuple(row) for row in df.select(*columns).collect()] == wanted


def test_mask_text_equals_the_mask_function_of_spark_for_ascii(session: SparkSession) -> None:
    found = session.sql("SELECT a, mask_text(a), mask(a) FROM VALUES ('Ann.Lee-07@example.org'), (''), (NULL) AS t(a)")
    assert [row[1] for row in found.collect()] == [row[2] for row in found.collect()]
    assert found.first() == ("Ann.Lee-07@example.org", *["Xxx.Xxx-nn@xxxxxxx.xxx"] * 2)


def test_mask_text_accepts_extreme_negative_and_null_counts_of_kept_characters(session: SparkSession) -> None:
    most = 2**31 - 1
    found = session.sql(
        f"SELECT mask_text('abc', {most}, {most}), mask_text('abc', -{most}, 1), mask_text('abc', NULL)"
    )
    assert found.first() == ("xxx", "xxc", "xxx")


def test_the_functions_of_spark_are_those_that_check_knows(session: SparkSession) -> None:
    found = {row[0] for row in session.sql("SHOW SYSTEM FUNCTIONS").collect() if row[0].isidentifier()}
    known = spark_functions
    assert found == known.SCALARS | known.AGGREGATES | known.GENERATORS | known.WINDOWED
    # how Spark implements each function, which SQL does not say
    jvm: Any = session._jvm
    spark, classes = jvm.org.apache.spark.sql.catalyst, jvm.java.lang.Class
    aggregate = classes.forName("org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction")
    registry = spark.analysis.FunctionRegistry.builtin()
    described = ((name, registry.lookupFunction(spark.FunctionIdentifier(name))) for name in sorted(known.SCALARS))
    made = {name: each.get().getClassName() for name, each in described if each.isDefined()}
    assert len(made) > 400
    assert [name for name, each in made.items() if aggregate.isAssignableFrom(classes.forName(each))] == []


FLOW = """
COLLECT raw.people (id BIGINT KEY, *) FROM shop.people EVERY DAY;
TRANSFORM marts.people (id BIGINT KEY, *) MERGE AS SELECT * FROM raw.people;
TRANSFORM marts.days PARTITIONED AS SELECT * FROM raw.people;
TRANSFORM marts.past (id BIGINT KEY, *) TEMPORAL AS SELECT * FROM raw.people;
PUBLISH raw.people (id, email AS (mask_text(email))) TO out.replaced
  EXPECT email IS NULL OR email NOT LIKE '%ann%' AS is_masked;
PUBLISH marts.people (person AS (id), email AS (mask_text(email{kept}))) TO out.merged;
PUBLISH marts.past (id, email AS (mask_text(email)), rec_eff_time) TO out.versions;
PUBLISH marts.days (id, email AS (mask_text(email))) TO out.labels;
PUBLISH marts.days (id, email AS (mask_text(email))) TO out.newest MERGE ON (id);
PUBLISH marts.days (id, email AS (mask_text(email))) TO files.labels;
PUBLISH raw.people (id, email AS (mask_text(email))) TO files.replaced OPTIONS (format 'parquet');
"""
UNITS = {
    "replaced": ("id", "email"), "merged": ("person", "email"), "versions": ("id", "email", "rec_eff_time"),
    "labels": ("id", "email", "timelabel"), "newest": ("id", "email", "timelabel"),
}  # fmt: skip


def holds(folder: Path, secrets: tuple[bytes, ...]) -> list[str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [str(path) for path in files if any(secret in path.read_bytes() for secret in secrets)]


def test_only_listed_columns_are_published_even_if_the_source_gains_others(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(FLOW.format(kept=""))
    tiny.source("people", "id INTEGER, email TEXT", [(1, "ann@example.org"), (2, "Bob@example.org"), (3, None)])
    assert not (outcome := tiny.run(day(2))).has_failed, described(outcome)
    tiny.source(
        "people", "id INTEGER, email TEXT, ssn TEXT",
        [(1, "ann@example.org", "078-05-1"), (2, "Bobby@example.org", "078-05-1"), (4, "cy@x.org", "078-05-2")],
    )  # fmt: skip
    assert not (outcome := tiny.run(day(3))).has_failed, described(outcome)
    for unit, columns in UNITS.items():
        assert [row[1] for row in tiny.delivered(f"PRAGMA table_info({unit})")] == list(columns)
    masks = [(1, "xxx@xxxxxxx.xxx"), (2, "Xxxxx@xxxxxxx.xxx"), (4, "xx@x.xxx")]
    assert sorted(tiny.delivered("SELECT * FROM replaced")) == masks
    assert sorted(tiny.delivered("SELECT * FROM merged")) == sorted([*masks, (3, None)])
    assert sorted(tiny.delivered("SELECT id, email FROM newest")) == sorted([*masks, (3, None)])
    assert len(tiny.delivered("SELECT * FROM labels")) == 6
    secrets = (b"ann@", b"Bob", b"cy@", b"078-05")
    stages = tmp_path / ".waterclock" / "publish"
    assert stages.is_dir()
    assert holds(tmp_path / "files", secrets) == holds(stages, secrets) == []
    assert not any(secret in (tmp_path / "out.sqlite").read_bytes() for secret in secrets)

    tiny.declare(FLOW.format(kept=", keep_first => 1"))
    assert not (outcome := tiny.run(day(4))).has_failed, described(outcome)
    others = [(1, "axx@xxxxxxx.xxx"), (2, "Bxxxx@xxxxxxx.xxx"), (3, None), (4, "cx@x.xxx")]
    assert sorted(tiny.delivered("SELECT * FROM merged")) == others, "unchanged rows are masked again, too"


def test_the_page_on_replicas_runs(tmp_path: Path, spark: SparkSession) -> None:
    page = (Path(__file__).parents[3] / "docs" / "howto" / "replicate.md").read_text(encoding="utf-8")
    block = page.partition("```sql")[2].partition("```")[0].replace("staging.", "out.")
    tiny = Tiny(tmp_path, spark)
    tiny.declare("\n".join(line for line in block.splitlines() if "CONNECTION" not in line))
    tiny.source(
        "people", "id INTEGER, email TEXT, phone TEXT, born TEXT, note TEXT",
        [(1, "Ann.Lee@example.org", "+49 170 555123", "1984-05-06", "none of theirs")],
    )  # fmt: skip
    assert not (outcome := tiny.run(day(2))).has_failed, described(outcome)
    (row,) = tiny.delivered("SELECT * FROM people")
    assert row == (1, "Xxx.Xxx@xxxxxxx.xxx", "+nn nnn nnn123", "1984")
    assert "| 1 | `Xxx.Xxx@xxxxxxx.xxx` | `+nn nnn nnn123` | `1984` |" in page
