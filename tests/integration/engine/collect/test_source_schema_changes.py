"""Schema versions of sources: noticed by the batch that delivers them, and handled by ON SCHEMA CHANGE."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described, evening, labels
from waterclock.batches.schemas import Side
from waterclock.cli.actions.release import release_batches
from waterclock.operations.compatibility import compatibility_errors

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import SparkSession

    from waterclock.engine.run_outcome import RunOutcome

pytestmark = pytest.mark.spark


def run(tiny: Tiny, now: datetime) -> None:
    outcome = tiny.run(now)
    assert not outcome.failed, described(outcome)
    assert tiny.open_claims() == 0


def code_of(outcome: RunOutcome) -> list[str]:
    return [report.error.code for report in outcome.failed if report.error]


def versions(tiny: Tiny, table: str, side: Side = Side.SOURCE) -> list[tuple[int, datetime, dict[str, str]]]:
    with tiny.ledger() as ledger:
        found = [each for each in ledger.reads.schemas(table) if each.side is side]
    return sorted((each.number, each.label, dict(each.columns)) for each in found)


FILES = """
COLLECT web.plain PARTITIONED FROM land.acme.visits EVERY DAY BY ARRIVAL TIME START '2020-01-01';
COLLECT web.shut PARTITIONED (id INT) FROM land.acme.visits EVERY DAY BY ARRIVAL TIME START '2020-01-01';
COLLECT web.stays PARTITIONED FROM land.acme.visits EVERY DAY BY ARRIVAL TIME START '2020-01-01'
  ON SCHEMA CHANGE IGNORE;
COLLECT web.grows PARTITIONED (id INT, *) FROM land.acme.visits EVERY DAY BY ARRIVAL TIME START '2020-01-01'
  ON SCHEMA CHANGE ADD;
COLLECT web.strict PARTITIONED FROM land.acme.visits EVERY DAY BY ARRIVAL TIME START '2020-01-01'
  ON SCHEMA CHANGE FAIL;
"""


def test_files_with_other_columns_are_noticed_on_the_label_that_brings_them(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(FILES)
    tiny.land("visits", evening(1), "id,page\n1,a\n")
    tiny.land("visits", evening(2), "id,page\n2,b\n")
    tiny.land("visits", evening(3), "id,page,note\n3,c,x\n")
    outcome = tiny.run(day(4))
    assert code_of(outcome) == ["E770"], described(outcome)
    assert "new: note STRING" in described(outcome)
    assert tiny.done("web.strict") == labels(1, 2)
    first = {"id": "STRING", "page": "STRING"}
    for table in ("web.plain", "web.shut", "web.stays", "web.grows"):
        assert versions(tiny, table) == [(1, day(1), first), (2, day(3), first | {"note": "STRING"})]
    assert versions(tiny, "web.strict") == [(1, day(1), first)]
    said = [line for line in tiny.heard.said_ if "columns of its source changed" in line]
    assert min(said) == f"web.grows@{labels(3)[0]}: the columns of its source changed: new: note STRING"
    assert tiny.rows("SELECT id, page, note FROM web.plain ORDER BY id")[-1] == ("3", "c", "x")
    assert tiny.rows("SELECT * EXCEPT (timelabel) FROM web.stays ORDER BY id") == [("1", "a"), ("2", "b"), ("3", "c")]
    assert versions(tiny, "web.stays", Side.TABLE) == [(1, day(1), {"id": "string", "page": "string"})]

    # accepted for one run, then FAIL again: the accepted schema is now a known version
    tiny.declare(FILES.replace("FAIL", "ADD"))
    with tiny.opened() as work:
        work.ledger.decisions.retry("web.strict", [day(3)], who="ann", why="it is meant")
    run(tiny, day(4))
    tiny.declare(FILES)
    tiny.land("visits", evening(4), "id,page,note\n4,d,y\n")
    run(tiny, day(5))
    assert tiny.done("web.strict") == labels(1, 2, 3, 4)

    # a column was removed
    tiny.land("visits", evening(5), "id,note\n5,z\n")
    outcome = tiny.run(day(6))
    assert sorted(code_of(outcome)) == ["E610", "E770"]  # without a clause a removed column fails, as with FAIL
    assert tiny.rows("SELECT id, page, note FROM web.grows ORDER BY id")[-1] == (5, None, "z")
    assert tiny.rows("SELECT id, page FROM web.stays ORDER BY id")[-1] == ("5", None)
    assert tiny.rows("SELECT id FROM web.shut ORDER BY id")[-1] == (5,)
    assert versions(tiny, "web.grows")[-1] == (3, day(5), {"id": "STRING", "note": "STRING"})
    assert versions(tiny, "web.grows", Side.TABLE)[-1][2] == {"id": "int", "page": "string", "note": "string"}


HELD = """
COLLECT web.visits PARTITIONED (id INT, *) FROM land.acme.visits EVERY DAY BY ARRIVAL TIME START '2020-01-01'
  ON SCHEMA CHANGE HOLD;
"""


def test_a_batch_with_new_columns_is_held_until_a_user_releases_it(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(HELD)
    tiny.land("visits", evening(1), "id,page\n1,a\n")
    tiny.land("visits", evening(2), "id,page\n2,b\n")
    run(tiny, day(3))
    tiny.land("visits", evening(3), "id,page,note\n3,c,x\n")
    tiny.land("visits", evening(4), "id,page,note\n4,d,y\n")
    outcome = tiny.run(day(5))
    assert code_of(outcome) == ["E755", "E755"], described(outcome)
    assert "new: note STRING" in described(outcome)
    assert tiny.done("web.visits") == labels(1, 2)
    assert tiny.rows("SELECT * EXCEPT (timelabel) FROM web.visits ORDER BY id") == [(1, "a"), (2, "b")]
    first = {"id": "STRING", "page": "STRING"}
    assert versions(tiny, "web.visits") == [(1, day(1), first)]
    run(tiny, day(5))  # held batches stay held and read no source
    asked = f"web.visits@{labels(3)[0]}"
    assert release_batches(tmp_path, None, asked, "note is meant", None, yes=True, is_json=False) == 0
    assert versions(tiny, "web.visits") == [(1, day(1), first), (2, day(3), first | {"note": "STRING"})]
    assert tiny.rows("SELECT id, page, note FROM web.visits ORDER BY id")[1:] == [(2, "b", None), (3, "c", "x")]
    # a known version is not reported again
    with tiny.ledger() as ledger:
        ledger.decisions.retry("web.visits", [day(4)], who="ann")
    run(tiny, day(5))
    assert tiny.done("web.visits") == labels(1, 2, 3, 4)


DATABASE = """
COLLECT shop.plain PARTITIONED FROM shop.orders EVERY DAY BY DATA TIME at;
COLLECT shop.texts PARTITIONED (at TIMESTAMP, *) FROM shop.orders EVERY DAY BY DATA TIME at ON SCHEMA CHANGE TEXT;
COLLECT shop.merged (id BIGINT KEY, note STRING, at TIMESTAMP) FROM shop.orders EVERY DAY BY DATA TIME at
  MERGE ORDER BY at ON SCHEMA CHANGE IGNORE;
"""


def test_source_columns_that_change_type_are_collected_as_text_where_declared(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(DATABASE)
    tiny.source("orders", "id INTEGER, amount INTEGER, note TEXT, at TEXT", [(1, 10, "n", "2020-01-01 12:00:00")])
    run(tiny, day(2))
    tiny.source("orders", "id INTEGER, amount REAL, at TEXT", [(1, 2.5, "2020-01-02 12:00:00")])
    outcome = tiny.run(day(3))
    assert code_of(outcome) == ["E610"], described(outcome)  # for shop.plain: note is missing
    assert tiny.rows("SELECT amount, note FROM shop.texts ORDER BY timelabel") == [("10", "n"), ("2.5", None)]
    # a fold keeps values of missing columns
    assert tiny.rows("SELECT id, note, at FROM shop.merged")[0][:2] == (1, "n")
    _, label, columns = versions(tiny, "shop.texts")[-1]
    assert (label, columns) == (day(2), {"id": "BIGINT", "amount": "DOUBLE", "at": "STRING"})
    # a recollected older label has today's columns, which are a known version
    before = versions(tiny, "shop.texts")
    with tiny.opened() as work:
        work.ledger.decisions.request_restate("shop.texts", [day(1)], verb="recollect", who="ann", why="try")
    tiny.run(day(3))
    assert versions(tiny, "shop.texts") == before


PROMISED = """
COLLECT shop.orders PARTITIONED (id BIGINT, at TIMESTAMP, *) FROM shop.orders EVERY DAY BY DATA TIME at
  COMPATIBLE FULL TRANSITIVE;
"""


def test_a_batch_that_breaks_schema_compatibility_is_refused_before_it_is_written(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(PROMISED)
    tiny.source("orders", "id INTEGER, at TEXT", [(1, "2020-01-01 12:00:00")])
    run(tiny, day(2))
    tiny.source("orders", "id INTEGER, at TEXT, note TEXT", [(2, "2020-01-02 12:00:00", "n")])
    run(tiny, day(3))  # a column that became nullable is accepted
    assert [number for number, *_ in versions(tiny, "shop.orders", Side.TABLE)] == [1, 2]
    tiny.declare(PROMISED.replace("id BIGINT,", "id BIGINT NOT NULL,"))
    tiny.source("orders", "id INTEGER, at TEXT, note TEXT", [(3, "2020-01-03 12:00:00", "n")])
    outcome = tiny.run(day(4))
    assert code_of(outcome) == ["E772"]
    assert "id may be null where it is written, but not where it is read" in described(outcome)
    assert "version 2 (since 20200102000000)" in described(outcome)
    assert tiny.done("shop.orders") == labels(1, 2)
    [error] = compatibility_errors(tiny.load())
    assert error.code == "E450"
    assert error.where == "flows/flow.dpl:5:34"
    assert error.fix == "declare id as BIGINT again"
    tiny.declare(PROMISED.replace("FULL TRANSITIVE", "FORWARD").replace("id BIGINT,", "id BIGINT NOT NULL,"))
    assert not compatibility_errors(tiny.load())


RULED = """
COLLECT shop.ruled (id BIGINT KEY, amount BIGINT ELSE QUARANTINE, note, at TIMESTAMP) FROM shop.orders EVERY DAY
  BY DATA TIME at MERGE ORDER BY at ON SCHEMA CHANGE IGNORE
  EXPECT amount > 0 AS is_paid ELSE QUARANTINE, length(note) > 0 AS is_noted ELSE WARN,
    sum(amount) > 0 AS earns ELSE WARN, count(DISTINCT note) > 0 AS notes ELSE WARN
  MEASURE max(amount) AS most;
COLLECT shop.warned (id BIGINT KEY, amount BIGINT, at TIMESTAMP) FROM shop.orders EVERY DAY
  BY DATA TIME at MERGE ORDER BY at ON SCHEMA CHANGE IGNORE
  EXPECT amount > 0 AS is_paid ELSE WARN, sum(amount) > 0 AS earns ELSE WARN MEASURE max(amount) AS most;
"""


def test_rules_of_a_fold_see_null_where_its_source_has_no_column_any_more(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(RULED)
    tiny.source("orders", "id INTEGER, amount TEXT, note TEXT, at TEXT", [(1, "5", "n", "2020-01-01 12:00:00")])
    run(tiny, day(2))
    tiny.source("orders", "id INTEGER, at TEXT", [(1, "2020-01-02 12:00:00"), (2, "2020-01-02 12:00:00")])
    run(tiny, day(3))
    assert tiny.rows("SELECT id, amount FROM shop.warned ORDER BY id") == [(1, 5), (2, None)]
    assert tiny.rows("SELECT row, broken FROM shop.ruled_quarantine ORDER BY row")[0] == (
        '{"id":1,"at":"2020-01-02T12:00:00.000000Z"}',
        ["is_paid", "is_noted"],
    )
    for table, broken in (
        ("shop.ruled", ["is_paid", "is_noted", "earns", "notes"]),
        ("shop.warned", ["is_paid", "earns"]),
    ):
        with tiny.ledger() as ledger:
            current = ledger.past.audit(table, day(2)).current
        assert current is not None
        assert current.revision is not None
        assert [text.partition(":")[0] for text in current.revision.measures["warnings"]] == broken
        assert current.revision.measures["measured"]["most"] == {"value": None, "type": "bigint"}
