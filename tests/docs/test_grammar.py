from __future__ import annotations

import re
from pathlib import Path

import pytest

from waterclock.dpl.syntax.clause_parsing import parse_clause
from waterclock.dpl.syntax.clause_table import CLAUSES
from waterclock.dpl.syntax.parser import parse_text
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.errors import WaterclockError

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "grammar.md").read_text(encoding="utf-8")
GRAMMAR = PAGE[PAGE.index("```ebnf") : PAGE.index("```\n\nA *name*")]
UNSUPPORTED = PAGE[PAGE.index("## Not supported") :]
COLLECT = "COLLECT a.b FROM c.d {}"
TRANSFORM = "TRANSFORM a.b {} AS SELECT 1 AS one"

# every alternative of the grammar, by its production
ACCEPTED = {
    "connection": ["CREATE CONNECTION a TYPE files", "CREATE CONNECTION a TYPE files OPTIONS (path 'x') COMMENT 'y'"],
    "function": ["CREATE FUNCTION f(a INT, b STRING) RETURNS INT RETURN a + 1",
                 "CREATE FUNCTION f() RETURNS INT RETURN 1"],
    "view": ["CREATE VIEW a.b (one COMMENT 'x') SHARED OWNER 'me' AS SELECT 1 AS one"],
    "collect": ["COLLECT a.b PARTITIONED (x, *) FROM c.d OPTIONS (header TRUE) EVERY DAY",
                "COLLECT a.b FROM c.d OPTIONS (path 'x/{y}') FOR EACH e.f EVERY DAY"],
    "transform": ["TRANSFORM a.b PARTITIONED (one INT) EVERY DAY AS SELECT 1 AS one"],
    "choice": ["TRANSFORM a.b WHEN TRUE AS SELECT 1 AS one WHEN FALSE AS SELECT 2 AS one ELSE AS SELECT 3 AS one"],
    "publish": ["PUBLISH a.b (x) TO c.d OPTIONS (format 'csv') APPEND", "PUBLISH a.b TO c.d REPLACE WHERE e = 1"],
    "grant": [
        "GRANT SELECT ON a.b TO (c)", "GRANT SELECT ON a.* TO c WHERE d = USER('e')", "GRANT SELECT (f) ON * TO (c)",
        "GRANT EDIT (f) ON a.b TO (c)", "GRANT APPROVE ON a.b TO c",
    ],
    "granted": [
        "GRANT SELECT (f, g AS (upper(g)), * EXCEPT (h, i)) ON a.b TO (c, `d@e`)", "GRANT SELECT (*) ON a.b TO c",
    ],
    "type": ["COLLECT a.b REGULAR FROM c.d", "COLLECT a.b PARTITIONED FROM c.d"],
    "unit": ["COLLECT a.b FROM c.d.e.f", "COLLECT a.b FROM c QUERY 'SELECT 1'", "COLLECT a.b FROM c.`x/*.csv`"],
    "option": ["CREATE CONNECTION a TYPE b OPTIONS (x.y 'z', n 1, t TRUE, f FALSE, p SECRET 'q/r')"],
    "columns": ["COLLECT a.b (*) FROM c.d", "COLLECT a.b (x) FROM c.d", "COLLECT a.b (x, y, *) FROM c.d"],
    "colrule": [
        f"COLLECT a.b (x INT {rule}) FROM c.d"
        for rule in (
            "KEY", "NOT NULL", "EXPECT (x > 0) AS big ELSE WARN", "EXPECT (x > 0) ELSE FAIL", "TAGS (p, q)",
            "REFERENCES e.f (id) ROLE buyer AT bought_at", "REFERENCES e.f ELSE DROP AT MOST 3 ELSE HOLD",
            "COMMENT 'c'", "KEY COMMENT 'c' NOT NULL", "KEY ORDER BY y ELSE DROP",
            "ELSE QUARANTINE KEY ELSE DROP NOT NULL ELSE WARN AT MOST 3",
            "AS (y) RETIRE '2027-12-31'", "RETIRE '2027-12-31'", "AS (_source.file)", "AS (_source.file) HIDDEN",
            "HIDDEN", "SUBJECT person", "KEY SUBJECT person NOT NULL",
            "SUBJECT person TOKENS", "SUBJECT person TOKENS NOT NULL",
        )
    ],
    "stays": [TRANSFORM.format(f"PARTITIONED (one KEY {text} ELSE DROP)") for text in (
        "PAST 7 DAYS", "ORDER BY one", "PAST 1 HOUR ORDER BY one DESC", "ORDER BY one ASC PAST 7 DAYS",
    )],
    "sorted": [TRANSFORM.format("(one KEY ORDER BY (one, two DESC, three ASC) ELSE DROP)")],
    "when": [COLLECT.format(text) for text in (
        "EVERY 15 MINUTES", "EVERY DAY", "SCHEDULE '10 * * * *'", "DELAY 2 HOURS", "ZONE 'Asia/Tokyo'",
        "START '2018-01-01'",
    )],
    "batched": [COLLECT.format(text) for text in (
        "BY DATA TIME t", "BY DATA TIME t LOOKBACK 1 HOUR", "BY ARRIVAL TIME", "BY CHANGES",
        "BY DATA TIME t LOOKBACK 1 DAY CHANGED", "BY DATA TIME t LOOKBACK 1 DAY CHANGED BY m",
    )],
    "mode": [COLLECT.format(text) for text in (
        "APPEND", "REPLACE", "MERGE", "MERGE ON (a, b)", "MERGE ON (a) ORDER BY b, c DELETE WHEN gone", "TEMPORAL",
        "TEMPORAL ON (a) AT t ORDER BY b, c DELETE WHEN gone TRACK (d, e) NULLS VALUE (e) FILL FORWARD",
        "TEMPORAL FILL FORWARD NULLS VALUE DELETE WHEN gone AT t", "TEMPORAL NULLS MISSING TRACK (d)",
    )] + [f"PUBLISH a.b TO c.d APPEND ORDER BY {text}" for text in ("e", "e, f PER (g, h)")],
    "order": [COLLECT.format("MERGE ORDER BY b, c")],
    "delete": [COLLECT.format("MERGE DELETE WHEN gone")],
    "flow": [COLLECT.format(text) for text in (
        "AWAIT 'done/%Y-%m-%d' FOR 3 HOURS", "AWAIT NEXT", "AWAIT QUERY 'SELECT true'",
        "WATERMARK at 10 MINUTES", "WATERMARK at 1 DAY PER (device, land)",
        "SEQUENTIAL", "POOL heavy", "ON RESTATE REPORT", "ON RESTATE RECOMPUTE",
    )] + [TRANSFORM.format(text) for text in (
        "ON RESTATE RECOMPUTE AT MOST 1 LABEL ELSE HOLD", "ON RESTATE RECOMPUTE AT MOST 31 LABELS ELSE HOLD",
        "PARTIAL AFTER 2 HOURS", "CLOSE WHEN max(a) > WINDOW_END()", "MAX LATENESS 1 DAY",
    )],
    "measure": [TRANSFORM.format(text) for text in (
        "MEASURE PROFILE", "MEASURE sum(one) AS total, PROFILE", "MEASURE max(one) AS most MEASURE min(one) AS least",
        "MEASURE PROFILE, count(DISTINCT one) AS ones OFFLINE 1 DAY",
    )],
    "rule": [TRANSFORM.format(text) for text in (
        "EXPECT a > 0", "EXPECT a > 0 AS x ELSE WARN, count(*) > 1", "EXPECT my_sum(a) > 1 OVER BATCH",
        "EXPECT count(*) > 0 AS some OVER TABLE ELSE HOLD", "EXPECT a > 0 AS x OF a.b ELSE DROP, count(*) > 0 OF a.b",
        "EXPECT a ELSE FAIL", "EXPECT a ELSE QUARANTINE AT MOST 1 PERCENT ELSE HOLD",
        "EXPECT a ELSE DROP AT MOST 3", "EXPECT a ELSE HOLD AT MOST 3 ELSE FAIL",
    )],
    "action": [TRANSFORM.format(f"EXPECT a ELSE {said}") for said in ("FAIL", "HOLD", "QUARANTINE", "DROP", "WARN")],
    "trust": [TRANSFORM.format(text) for text in (
        "EXPECT a > 0, b > 0", "DEADLINE 2 HOURS", "DEADLINE 1 MONTH RUNTIME 20 MINUTES",
    )] + [COLLECT.format("WATERMARK at 1 HOUR DEADLINE 3 DAYS BY WATERMARK RUNTIME 20 MINUTES")],
    "keeping": [
        COLLECT.format("RETAIN 90 DAYS"), COLLECT.format("RETAIN :long"), TRANSFORM.format("KEEP VERSIONS 30 DAYS"),
        COLLECT.format("SORT BY (a)"), TRANSFORM.format("SORT BY (a, `b c`)"), TRANSFORM.format("SHUFFLE NONE"),
        TRANSFORM.format("APART (a)"), TRANSFORM.format("APART (a, `b c`) KEYS d FOR 90 DAYS"),
        COLLECT.format("CONTINUOUS 10 SECONDS"), TRANSFORM.format("CONTINUOUS"),
        COLLECT.format("CLUSTER BY (a)"), TRANSFORM.format("CLUSTER BY (a, `b c`)"),
        COLLECT.format("PARTITION BY (a)"), TRANSFORM.format("PARTITION BY (`b c`) SORT BY (a)"),
        COLLECT.format("BUCKET BY (a) INTO 4"), TRANSFORM.format("BUCKET BY (a, `b c`) INTO 8"),
    ],
    "changes": [COLLECT.format(f"ON SCHEMA CHANGE {word}") for word in ("ADD", "IGNORE", "TEXT", "HOLD", "FAIL")]
    + [TRANSFORM.format(f"COMPATIBLE {text}") for text in ("BACKWARD", "FORWARD TRANSITIVE", "FULL")],
    "about": [COLLECT.format(text) for text in ("WAS a.old", "OWNER 'me'", "TAGS (a, b)", "COMMENT :said")],
    "period": [COLLECT.format(f"EVERY {text}") for text in (
        "1 MINUTE", "HOUR", "6 HOURS", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR",
    )] + [COLLECT.format("DELAY 30 SECONDS")],
}  # fmt: skip
REFUSED = {
    "`AS (expression)` without `RETIRE`": "COLLECT a.b (x AS (y + 1)) FROM c.d",
    "`* EXCEPT`": "COLLECT a.b (x, * EXCEPT (y)) FROM c.d",
}


def parsed(text: str) -> list[str]:
    _, errors = parse_text(SourceText("a.dpl", text), variables={"long": "7 DAYS", "said": "x"})
    return [error.code for error in errors]


@pytest.mark.parametrize("text", [text for texts in ACCEPTED.values() for text in texts])
def test_every_form_of_the_grammar_is_accepted(text: str) -> None:
    assert parsed(text) == []


@pytest.mark.parametrize("name", REFUSED)
def test_each_unsupported_form_is_refused_by_name(name: str) -> None:
    assert parsed(REFUSED[name]) == ["E208"]


def test_the_page_lists_exactly_the_unsupported_forms() -> None:
    rows = [line.split("|")[2] for line in UNSUPPORTED.splitlines() if line.startswith("|")][2:]
    listed = {name.strip() for row in rows for name in row.split(",")}
    assert listed == set(REFUSED)


def test_the_productions_with_alternatives_have_their_examples() -> None:
    names = set(re.findall(r"^(\w+) +=", GRAMMAR, re.MULTILINE))
    plain = {"project", "statement", "table", "param", "options", "column", "otherwise", "clause", "duration"}
    plain |= {"names", "text", "number", "value"}
    assert names - plain == set(ACCEPTED)


def test_every_keyword_of_the_grammar_appears_in_an_accepted_form() -> None:
    said = set(re.findall(r'"([A-Z]+)"', GRAMMAR)) - {"S"}
    shown = {word for texts in ACCEPTED.values() for text in texts for word in re.findall(r"[A-Z]+", text)}
    shown |= {word.removesuffix("S") for word in shown}
    assert said - shown == set()


def test_every_clause_of_the_parser_is_on_the_page() -> None:
    for clause in CLAUSES:
        for start in clause.first_words:
            words = " ".join(start)
            assert all(re.search(rf"\b{word}\b", GRAMMAR) for word in start), words


def test_a_wrong_word_is_no_form() -> None:
    assert parsed("COLLECT a.b FROM c.d EVERYDAY") != []
    with pytest.raises(WaterclockError):
        parse_clause("EVERY", "now and then", SourceText("a.py", "now and then"), variables={})
