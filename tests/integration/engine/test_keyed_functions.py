"""`hash_keyed`, `encrypt`, `decrypt`, `generalize` and `perturb` in Spark, against computations in Python."""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
import random
from contextlib import redirect_stdout
from datetime import date, timedelta
from decimal import ROUND_FLOOR, Decimal
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.keys import DECLARED, NEW, OLD, VARIABLES, derived, forms, hashed
from tests.tiny import Tiny, day, described
from waterclock.dpl.adhoc import adhoc_query
from waterclock.engine.spark.errors import to_error
from waterclock.engine.spark.keys import KeysOfProject
from waterclock.engine.spark.user_functions import register_functions
from waterclock.errors import ProjectErrors, WaterclockError
from waterclock.flow.about import About
from waterclock.flow.declarations import Connection, Flow, Place, Secret, Value
from waterclock.secrets.reader import SecretPlaces, Secrets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SIGNS = list("aZß0٣ǅé\u0301Ж漢ש-.@_ :/\t\n\u0000\U0001f600")
FUNCTIONS = ("hash_keyed", "encrypt", "decrypt", "generalize", "perturb")
OPTIONS: dict[str, Value | Secret] = {"key.2025": Secret("pii/old"), "key.2026": Secret("pii/new"), "current": "2026"}
KEYS = KeysOfProject(
    {"pii": Connection("pii", "keys", OPTIONS, About(), Place("a.dpl", 1, 1))}, Secrets(SecretPlaces(Path()), VARIABLES)
)


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    register_functions(own, Path(), Flow(project="x", tables={}), [f"{name}(x)" for name in FUNCTIONS], KEYS)
    return own


def texts() -> list[str | None]:
    drawn = random.Random(7)
    return [None, "", *("".join(drawn.choices(SIGNS, k=drawn.randrange(90))) for _ in range(200))]


def decrypted(text: str, context: str = "", secret: str = NEW) -> str:
    """Decrypt a text as `encrypt` is documented, and check its vector."""
    prefix, _, made = text.split(":")
    raw = base64.b64decode(made)
    value = AESGCM(derived(secret, "encrypt")).decrypt(raw[:12], raw[12:], f"wc1/pii/{context}".encode())
    bound = hashlib.sha256(context.encode()).digest() + value
    assert raw[:12] == hmac.digest(derived(secret, "vector"), bound, hashlib.sha256)[:12]
    assert prefix == "wc1"
    return value.decode()


def test_a_hash_is_that_of_pythons_hmac(session: SparkSession) -> None:
    session.createDataFrame([(text,) for text in texts()], "a string").createOrReplaceTempView("texts")
    found = session.sql("SELECT a, hash_keyed(a, 'pii'), hash_keyed(a, keys => 'pii', key => '2025') FROM texts")
    rows = [tuple(row) for row in found.collect()]
    assert rows == [(text, hashed(text), hashed(text, OLD)) for text in texts()]
    numbers = session.sql("SELECT hash_keyed(7, 'pii'), hash_keyed(7L, 'pii', NULL), hash_keyed(1.50, 'pii')").first()
    assert numbers == (hashed("7"), hashed("7"), hashed("1.50"))


def test_an_encrypted_text_is_that_of_another_library_and_the_same_each_time(session: SparkSession) -> None:
    session.createDataFrame([(text,) for text in texts()], "a string").createOrReplaceTempView("texts")
    made = (
        "SELECT a, encrypt(a, 'pii') AS e, encrypt(a, 'pii', key => '2025') AS o, encrypt(a, 'pii', a) AS c FROM texts"
    )
    sql = f"SELECT *, decrypt(e, 'pii'), decrypt(o, 'pii'), decrypt(c, 'pii', context => a) FROM ({made})"
    rows = [tuple(row) for row in session.sql(sql).collect()]
    assert rows == [tuple(row) for row in session.sql(sql).collect()]
    for text, new, old, of_context, *back in rows:
        assert back == [text] * 3
        if text is None:
            assert (new, old, of_context) == (None, None, None)
        else:
            assert (decrypted(new), decrypted(old, secret=OLD), decrypted(of_context, text)) == (text, text, text)
            assert (new.split(":")[1], old.split(":")[1]) == ("2026", "2025")
            assert (new == of_context) == (text == "")
    assert len({row[1] for row in rows}) == len(set(texts()))


def refusal(frame: DataFrame) -> WaterclockError:
    with pytest.raises(Exception, match="USER_RAISED_EXCEPTION") as raised:
        frame.collect()
    error = to_error(raised.value, where="here")
    assert [form for form in forms() if form in f"{raised.value}{error.render()}".encode()] == []
    return error


def test_a_text_that_cannot_be_decrypted_stops_the_query_with_the_reason(session: SparkSession) -> None:
    made = session.sql("SELECT encrypt('Ann', 'pii'), encrypt('Ann', 'pii', '7')").first()
    assert made is not None
    text = made[0]
    raw = bytearray(base64.b64decode(text[9:]))
    raw[14] ^= 1
    changed = f"wc1:2026:{base64.b64encode(raw).decode()}"
    cases = {
        f"decrypt('{changed}', 'pii')": ("E736", "a text cannot be decrypted"),
        f"decrypt('{made[1]}', 'pii', '8')": ("E736", "a text cannot be decrypted"),
        f"decrypt('{text.replace('2026', '2025')}', 'pii')": ("E736", "a text cannot be decrypted"),
        "decrypt('wc1:2026:AAAA', 'pii')": ("E736", "a text cannot be decrypted"),
        "decrypt('wc1:2026:AAAAA', 'pii')": ("E736", "a text cannot be decrypted"),
        f"decrypt('{text[:-6]}', 'pii')": ("E736", "a text cannot be decrypted"),
        "decrypt('Ann', 'pii')": ("E736", "a text was not made by encrypt"),
        f"decrypt(concat('{text}', '\\n'), 'pii')": ("E736", "a text was not made by encrypt"),
        f"decrypt('{text.replace('2026', '1999')}', 'pii')": ("E735", "the key of an encrypted text is missing"),
    }
    for call, said in cases.items():
        error = refusal(session.sql(f"SELECT {call} AS a FROM range(1)"))
        assert (error.code, error.what) == said, call
        assert error.code != "E735" or "the key 1999" in (error.why or "")
        assert text not in error.render()


@pytest.mark.parametrize("call", ["hash_keyed('a', 'hr')", "encrypt('a', 'pii', key => '1999')"])
def test_a_key_that_the_session_does_not_have_stops_the_query_instead_of_giving_null(
    session: SparkSession, call: str
) -> None:
    error = refusal(session.sql(f"SELECT {call} AS a FROM range(1)"))
    assert (error.code, error.what) == ("E735", "the key of a function is missing")


def generalized(value: str, width: str) -> str:
    places = len(width.partition(".")[2])
    number, wide = Decimal(value), Decimal(width)
    low = (number / wide).to_integral_value(ROUND_FLOOR) * wide
    return f"{low:.{places}f}-{low + wide - Decimal(1).scaleb(-places):.{places}f}"


def test_a_number_becomes_the_range_that_contains_it(session: SparkSession) -> None:
    drawn = random.Random(3)
    widths = ["10", "1", "7", "0.5", "0.25", ".1", "1000000", "2.50", "0.000000003"]
    values = ["0", "-1", "9", "10", "-10", "-0.5", "9.999999999999", "0.3", "-0.000001", "9223372036854775807", "29.99"]
    values += [f"{drawn.randrange(-(10**6), 10**6)}.{drawn.randrange(100):02}" for _ in range(40)]
    pairs = [(value, width) for value in values for width in widths]
    session.createDataFrame(pairs, "a string, w string").createOrReplaceTempView("numbers")
    found = session.sql("SELECT a, w, generalize(a, width => w) FROM numbers").collect()
    assert [tuple(row) for row in found] == [(value, width, generalized(value, width)) for value, width in pairs]
    typed = session.sql(
        "SELECT generalize(37, width => 10), generalize(-3L, width => 10), generalize(1.75D, width => 0.5), "
        "generalize(CAST(12.3 AS DECIMAL(5, 2)), width => 5), generalize(NULL, width => 10), generalize(4, width => 1)"
    )
    assert typed.first() == ("30-39", "-10--1", "1.5-1.9", "10-14", None, "4-4")


def test_a_time_becomes_its_period(session: SparkSession) -> None:
    days = [date(1999, 12, 27) + timedelta(each * 5) for each in range(160)] + [date(2020, 12, 31), date(2021, 1, 3)]
    session.createDataFrame([(each,) for each in days], "d date").createOrReplaceTempView("days")
    periods = ("year", "quarter", "month", "week", "day")
    calls = ", ".join(f"generalize(d, to => '{period}')" for period in periods)
    wanted = [(f"{d:%Y}", f"{d:%Y}-Q{(d.month + 2) // 3}", f"{d:%Y-%m}", f"{d:%G-W%V}", f"{d:%Y-%m-%d}") for d in days]
    assert [tuple(row) for row in session.sql(f"SELECT {calls} FROM days").collect()] == wanted
    typed = session.sql(
        "SELECT generalize(TIMESTAMP'2020-02-29 23:59:59Z', 'month'), generalize('2020-02-29T10:00', 'day'), "
        "generalize(TIMESTAMP_NTZ'2020-02-29 23:59:59', 'quarter'), generalize(CAST(NULL AS DATE), 'year')"
    )
    assert typed.first() == ("2020-02", "2020-02-29", "2020-Q1", None)


def test_a_text_keeps_its_beginning(session: SparkSession) -> None:
    found = session.sql(
        "SELECT generalize('10115', keep_first => 3), generalize('漢字\U0001f600', keep_first => 1), "
        "generalize('ab', keep_first => 5), generalize('ab', keep_first => 0), generalize('ab', keep_first => -1), "
        "generalize('', keep_first => 2), generalize(NULL, keep_first => 2)"
    )
    assert found.first() == ("101**", "漢**", "ab", "**", "**", "", None)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("generalize('1', width => w)", "the width of generalize is not a positive number"),
        ("generalize('2020-01-01', to => w)", "an unknown period for generalize"),
        ("generalize('x', to => w, keep_first => 1)", "generalize has no rule"),
        ("generalize('x', keep_first => nullif(1, 1))", "generalize has no rule"),
        ("perturb(1, CAST(w AS DOUBLE), 'x', 'pii')", "the scale of perturb is not a positive number"),
    ],
)
def test_an_argument_that_a_row_has_and_that_is_invalid_stops_the_query(
    session: SparkSession, call: str, what: str
) -> None:
    error = refusal(session.sql(f"SELECT {call} AS a FROM VALUES ('-1') AS t(w)"))
    assert (error.code, error.what) == ("E310", what)


def noise(person: str) -> float:
    """Return the documented noise of scale 1."""
    digits = hmac.new(derived(NEW, "noise"), person.encode(), hashlib.sha256).hexdigest()
    share = (int(digits[:13], 16) + 0.5) / 16**13
    return math.log(share) if digits[13] < "8" else -math.log(share)


def test_noise_is_laplaces_and_stays_the_same_for_a_person(session: SparkSession) -> None:
    count, scale = 4000, 2.5
    sql = f"SELECT id, perturb(100 + id, {scale}, id, 'pii') AS made FROM range({count}) ORDER BY id"
    found = [row.made for row in session.sql(sql).collect()]
    assert found == [row.made for row in session.sql(sql).collect()]
    drawn = sorted((made - 100 - at) / scale for at, made in enumerate(found))
    wanted = sorted(noise(str(at)) for at in range(count))
    assert all(math.isclose(one, other, abs_tol=1e-9) for one, other in zip(drawn, wanted, strict=True))
    # the greatest distance to Laplace's distribution, by Kolmogorov and Smirnov: 1.63 / sqrt(n) at one percent
    shares = [0.5 * math.exp(each) if each < 0 else 1 - 0.5 * math.exp(-each) for each in drawn]
    distance = max(max(abs(share - at / count), abs(share - (at + 1) / count)) for at, share in enumerate(shares))
    assert distance < 1.63 / math.sqrt(count)
    assert abs(sum(drawn) / count) < 4 * math.sqrt(2 / count)
    assert abs(sum(each**2 for each in drawn) / count - 2) < 4 * math.sqrt(20 / count)
    nulls = session.sql(
        "SELECT perturb(NULL, 1, 'x', 'pii'), perturb(1, 1, NULL, 'pii'), perturb(1, NULL, 'x', 'pii'), "
        "perturb(1, 1, 'x', 'pii', '2025') = perturb(1, 1, 'x', 'pii')"
    )
    assert nulls.first() == (None, None, None, False)


PLANNED = (
    "SELECT hash_keyed(a, 'pii') AS h, encrypt(a, 'pii', a) AS e, perturb(1, 2, a, 'pii') AS p FROM texts",
    "SELECT decrypt(e, 'pii') AS a FROM (SELECT encrypt(a, 'pii') AS e FROM texts) WHERE decrypt(e, 'pii') = 'x'",
    "SELECT hash_keyed('x', 'pii') AS h, encrypt('x', 'pii') AS e",
    "SELECT l.a FROM texts l JOIN texts r ON hash_keyed(l.a, 'pii') = hash_keyed(r.a, 'pii')",
    "SELECT hash_keyed(a, 'pii') AS h, count(*) AS n FROM texts GROUP BY hash_keyed(a, 'pii') HAVING count(*) > 0",
    "SELECT a, row_number() OVER (PARTITION BY hash_keyed(a, 'pii') ORDER BY a) AS n FROM texts",
    "WITH wc_keys AS (SELECT map('pii', 1) AS by_name) SELECT hash_keyed(a, 'pii') AS h FROM texts",
)


@pytest.mark.parametrize("sql", PLANNED)
def test_no_byte_of_a_key_is_in_a_plan(session: SparkSession, sql: str) -> None:
    session.sql("SELECT * FROM VALUES ('x'), ('y'), (NULL) AS t(a)").createOrReplaceTempView("texts")
    frame, said = session.sql(sql), StringIO()
    rows = frame.collect()
    if "h" in frame.columns:
        assert {row.h for row in rows} <= {hashed("x"), hashed("y"), None}
    with redirect_stdout(said):
        for mode in ("extended", "formatted", "cost", "codegen"):
            frame.explain(mode)
    execution = frame._jdf.queryExecution()
    for plan in (execution.analyzed(), execution.optimizedPlan(), execution.executedPlan()):
        said.write(plan.toJSON() + plan.treeString() + plan.verboseStringWithSuffix(10_000))
    written = said.getvalue().encode()
    assert b"by_name" in written
    assert [form for form in forms() if form in written] == []


FLOW = """
CREATE FUNCTION pseudonym(x STRING) RETURNS STRING RETURN hash_keyed(lower(x), 'pii');
COLLECT raw.people PARTITIONED (id BIGINT KEY, email STRING EXPECT (hash_keyed(email, 'pii') IS NOT NULL), at TIMESTAMP)
  FROM shop.people EVERY DAY BY DATA TIME at;
CREATE VIEW stg.people AS SELECT id, pseudonym(email) AS person, encrypt(email, 'pii', id) AS email FROM raw.people;
TRANSFORM marts.people (id BIGINT KEY, *) MERGE AS SELECT * FROM stg.people;
TRANSFORM marts.pairs PARTITIONED AS SELECT l.id AS l, r.id AS r FROM raw.people l JOIN raw.people r
  ON hash_keyed(l.email, 'pii') = hash_keyed(r.email, 'pii');
TRANSFORM marts.back (id BIGINT KEY, email STRING) MERGE
AS SELECT id, decrypt(email, 'pii', id) AS email FROM marts.people;
PUBLISH raw.people (id, email AS (hash_keyed(email, 'pii'))) TO out.people;
"""


def test_a_flow_uses_keys_everywhere_but_in_queries_and_its_keys_are_rotated(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    tiny = Tiny(tmp_path, spark)
    rows = [(1, "Ann", "2020-01-01 12:00:00"), (2, "Bo", "2020-01-01 12:00:00"), (3, "Ann", "2020-01-01 13:00:00")]
    tiny.source("people", "id INTEGER, email TEXT, at TEXT", rows)
    tiny.declare(DECLARED.replace("current '2026'", "current '2025'") + FLOW)
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    before = tiny.load().flow
    assert sorted(tiny.rows("SELECT l, r FROM marts.pairs")) == [(1, 1), (1, 3), (2, 2), (3, 1), (3, 3)]
    assert sorted(tiny.delivered("SELECT id, email FROM people")) == [(n, hashed(m, OLD)) for n, m, _ in rows]

    tiny.declare(DECLARED + FLOW)  # a new current key
    tiny.shop("INSERT INTO people VALUES (4, 'Ann', '2020-01-02 12:00:00')")
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT id, person, split_part(email, ':', 2) FROM marts.people ORDER BY id") == [
        (1, hashed("ann", OLD), "2025"), (2, hashed("bo", OLD), "2025"), (3, hashed("ann", OLD), "2025"),
        (4, hashed("ann"), "2026"),
    ]  # fmt: skip
    assert tiny.rows("SELECT email FROM marts.back ORDER BY id") == [("Ann",), ("Bo",), ("Ann",), ("Ann",)]
    after = tiny.load().flow
    changed = {name for name, table in after.tables.items() if table.fingerprint != before.tables[name].fingerprint}
    assert changed == {"raw.people", "marts.people", "marts.pairs", "out.people"}

    for sql in ("SELECT decrypt(email, 'pii') FROM marts.people", "SELECT pseudonym(email) FROM raw.people",
                "SELECT * FROM stg.people"):  # fmt: skip
        with pytest.raises(ProjectErrors) as refused:
            tiny.rows(sql)
        assert [error.code for error in refused.value.errors] == ["E216"]
    with pytest.raises(ProjectErrors):
        adhoc_query("SELECT * FROM wc_keys", after)

    tiny.declare(DECLARED.replace("key.2025 SECRET 'pii/old', ", "") + FLOW)  # a lost key
    tiny.shop("INSERT INTO people VALUES (5, 'Cy', '2020-01-03 12:00:00')")
    (failed,) = tiny.run(day(4)).failed
    assert failed.error is not None
    assert (failed.error.code, failed.error.why) == (
        "E735", "it was encrypted with the key 2025, which the connection does not have",
    )  # fmt: skip
    monkeypatch.setenv("WATERCLOCK_SECRET_PII_NEW", "too short")
    tiny.declare(DECLARED.replace("key.2025 SECRET 'pii/old', ", "") + FLOW)
    tiny.shop("INSERT INTO people VALUES (6, 'Cy', '2020-01-04 12:00:00')")
    assert {report.error.code for report in tiny.run(day(5)).failed if report.error is not None} == {"E924"}


def test_many_windows_are_computed_with_keys_by_one_query(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    tiny = Tiny(tmp_path, spark)
    rows = [(n, f"name {n % 3}", f"2020-01-0{1 + n % 4} 12:00:00") for n in range(8)]
    tiny.source("people", "id INTEGER, email TEXT, at TEXT", rows)
    tiny.declare(
        DECLARED
        + """
COLLECT raw.people PARTITIONED (id BIGINT KEY, email STRING, at TIMESTAMP) FROM shop.people EVERY DAY BY DATA TIME at;
TRANSFORM marts.people PARTITIONED
AS SELECT id, hash_keyed(email, 'pii') AS h, decrypt(encrypt(email, 'pii', id), 'pii', id) AS e FROM raw.people;
"""
    )
    outcome = tiny.run(day(5))
    assert not outcome.failed, described(outcome)
    wanted = [(n, hashed(email), email) for n, email, _ in rows]
    assert tiny.rows("SELECT id, h, e FROM marts.people ORDER BY id") == wanted
