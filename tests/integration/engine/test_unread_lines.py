"""EXPECT parsed(): unreadable lines of files are quarantined unchanged, dropped or reported."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import Tiny, day, described, evening, labels
from waterclock.batches.ledger_snapshot import RECOMPUTE
from waterclock.timelabel.label import instant_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLLECT = """
COLLECT shop.sales PARTITIONED (id BIGINT KEY ELSE QUARANTINE, amount INT{otherwise}, note STRING{time})
  FROM land.acme.sales EVERY DAY BY {by} EXPECT {unread}amount > 0 AS positive ELSE DROP;
"""
ASIDE = "SELECT timelabel, row, broken FROM shop.sales_quarantine ORDER BY timelabel, row"


def declared(by: str = "ARRIVAL TIME", unread: str = "parsed() ELSE QUARANTINE, ", otherwise: str = "") -> str:
    return COLLECT.format(by=by, unread=unread, otherwise=otherwise, time=", at TIMESTAMP" if "DATA" in by else "")


def aside(tiny: Tiny) -> list[tuple[str, dict[str, Any], list[str]]]:
    """Return the quarantined rows: label, original row, broken rules."""
    return [(label, json.loads(row), list(broken)) for label, row, broken in tiny.rows(ASIDE)]


def counts(tiny: Tiny, label: str) -> dict[str, Any]:
    """Return the row counts of a label."""
    with tiny.ledger() as ledger:
        made = ledger.past.audit("shop.sales", instant_of(label)).current
        assert made is not None
        assert made.revision is not None
        return {name: made.revision.measures[name] for name in ("in", "quarantined", "dropped", "broken", "first")}


def test_broken_csv_lines_are_quarantined_unchanged(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.land("sales", evening(1), "id,amount,note\n1,10,a\n2,20\n3,30,c,d\n4,-5,e\n,7,f\n")
    tiny.land("sales", evening(2), "id,amount,note\n5,50,g\n")
    tiny.declare(declared(unread=""))
    [report] = tiny.run(day(2)).failed
    assert report.error is not None
    assert report.error.code == "E806"  # without the rule, they fail their batch
    assert "2 broken rows, in lines 3, 4" in report.error.what
    tiny.declare(declared())
    with tiny.ledger() as ledger:
        ledger.decisions.retry("shop.sales", [day(1)], who="ann")
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    first = labels(1)[0]
    assert tiny.rows("SELECT id, amount, note FROM shop.sales ORDER BY id") == [(1, 10, "a"), (5, 50, "g")]
    assert aside(tiny) == [
        (first, {"_raw": "2,20"}, ["parsed()"]),  # no other rule is checked, neither key nor amount
        (first, {"_raw": "3,30,c,d"}, ["parsed()"]),
        (first, {"id": None, "amount": 7, "note": "f"}, ["KEY (id)"]),
    ]
    assert counts(tiny, first) == {
        "in": 5, "quarantined": 3, "dropped": 1,
        "broken": {"parsed()": 2, "positive": 1, "KEY (id)": 1},
        "first": {"parsed()": 2, "positive": 1, "KEY (id)": 1},
    }  # fmt: skip


def test_a_value_of_another_type_is_no_broken_line(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.land("sales", evening(1), "id,amount,note\n1,ten,a\n2,20\n")
    tiny.declare(declared())
    [report] = tiny.run(day(2)).failed
    assert report.error is not None
    assert (report.error.code, report.error.why) == ("E806", "amount is 'ten', which is not INT")
    assert "a broken row in line 2" in report.error.what
    tiny.declare(declared(otherwise=" ELSE QUARANTINE"))
    with tiny.ledger() as ledger:
        ledger.decisions.retry("shop.sales", [day(1)], who="ann")
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    first = labels(1)[0]
    assert aside(tiny) == [
        (first, {"_raw": "2,20"}, ["parsed()"]),
        (first, {"id": 1, "amount": "ten", "note": "a"}, ["amount INT", "positive"]),
    ]


def test_rows_of_a_data_time_are_kept_and_replayed_as_lines(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    header = "id,amount,note,at\n"
    tiny.land("sales", evening(1), header + "1,10,a,2020-01-01 10:00:00\n2,2020-01-01 11:00:00\n")
    tiny.land("sales", evening(2), header + "3,30,c,2020-01-01 12:00:00\n4,40,d,2020-01-02 12:00:00\nbroken\n")
    tiny.declare(declared("DATA TIME at"))
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    lines = [
        (labels(1)[0], {"_raw": "2,2020-01-01 11:00:00"}, ["parsed()"]),  # in the window of its file's stamp
        (labels(2)[0], {"_raw": "broken"}, ["parsed()"]),
    ]
    assert tiny.rows("SELECT id FROM shop.sales ORDER BY id") == [(1,), (3,), (4,)]
    assert aside(tiny) == lines
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("shop.sales", [day(1), day(2)], RECOMPUTE, who="ann")
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT id FROM shop.sales ORDER BY id") == [(1,), (3,), (4,)]
    assert aside(tiny) == lines
    tiny.declare(declared("DATA TIME at", unread="parsed() ELSE DROP, "))
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("shop.sales", [day(1)], RECOMPUTE, who="ann")
    assert not tiny.run(day(3)).failed
    assert aside(tiny) == lines[1:]
    assert counts(tiny, labels(1)[0])["first"] == {"parsed()": 1}
    tiny.declare(declared("DATA TIME at", unread=""))
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("shop.sales", [day(2)], RECOMPUTE, who="ann")
    [report] = tiny.run(day(3)).failed  # an unparsed line does not become a row without values
    assert report.error is not None
    assert (report.error.code, report.error.where) == ("E806", f"shop.sales@{labels(2)[0]}")
    assert "one is 'broken'" in (report.error.why or "")


@pytest.mark.parametrize("ladder", ["QUARANTINE AT MOST 50 PERCENT ELSE HOLD", "WARN", "HOLD"])
def test_lines_go_by_the_whole_ladder(tmp_path: Path, spark: SparkSession, ladder: str) -> None:
    tiny = Tiny(tmp_path, spark)
    (tmp_path / "files" / "sales").mkdir(parents=True)
    lines = [
        '{"id": 1, "amount": 10}',
        '{"id": 2, "amount"',
        "nothing",
        '{"id": 4, "amount": 1, "note": {"x": 1}}',
        "[]",
    ]
    (tmp_path / "files" / "sales" / "a.jsonl").write_text("\n".join(lines))
    tiny.declare(f"""
COLLECT shop.sales (id BIGINT, amount INT, note STRING) FROM files.`sales/*.jsonl` EVERY DAY
  EXPECT parsed() AS readable ELSE {ladder};
""")
    outcome = tiny.run(day(2))
    broken = [{"_raw": "nothing"}, {"_raw": '{"id": 2, "amount"'}]
    if ladder == "HOLD":
        assert [report.error.code for report in outcome.failed if report.error] == ["E755"]
        assert "readable: 2 of" in described(outcome)
        return
    assert not outcome.failed, described(outcome)
    shown = tiny.rows("SELECT id, amount, note FROM shop.sales ORDER BY id NULLS LAST")
    if ladder == "WARN":
        assert shown == [(1, 10, None), (4, 1, '{"x": 1}'), (None, None, None), (None, None, None)]
        assert aside(tiny) == []
    else:
        assert shown == [(1, 10, None), (4, 1, '{"x": 1}')]
        assert [row for _, row, _ in aside(tiny)] == broken


def test_each_csv_line_is_stored_quarantined_or_dropped_exactly_once(tmp_path: Path, spark: SparkSession) -> None:
    """Property: no random line is lost or duplicated, and each is where a plain reading of the rule puts it."""
    chance = random.Random(20)
    tiny = Tiny(tmp_path, spark)
    texts: dict[int, list[str]] = {}
    for number in (1, 2, 3):
        signs = [str(chance.randint(-3, 9)), "x", "", "y"]
        fields = [chance.choices(signs, k=chance.choice([0, 1, 2, 2, 2, 2, 3])) for _ in range(40)]
        texts[number] = [",".join([str(at), *row]) for at, row in enumerate(fields)]
        tiny.land("sales", evening(number), "id,amount,note\n" + "\n".join(texts[number]) + "\n")
    tiny.declare(declared(otherwise=" ELSE QUARANTINE").replace("KEY ELSE QUARANTINE", "ELSE QUARANTINE"))
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    for number, lines in texts.items():
        label, found = labels(number)[0], {"in": 0, "quarantined": 0, "dropped": 0, "broken": 0, "rows": 0}
        for line in filter(None, lines):
            parts = line.split(",")
            is_whole = len(parts) == 3
            is_typed = is_whole and _is_int(parts[0]) and _is_int(parts[1])
            found["in"] += 1
            found["broken"] += not is_whole
            found["quarantined"] += not is_typed
            found["dropped"] += is_typed and not (parts[1] and int(parts[1]) > 0)
            found["rows"] += is_typed and bool(parts[1]) and int(parts[1]) > 0
        told = counts(tiny, label)
        assert {name: told[name] for name in ("in", "quarantined", "dropped")} == {
            name: found[name] for name in ("in", "quarantined", "dropped")
        }
        assert told["broken"].get("parsed()", 0) == found["broken"]
        assert tiny.rows(f"SELECT count(*) FROM shop.sales WHERE timelabel = '{label}'") == [(found["rows"],)]


def _is_int(text: str) -> bool:
    return text == "" or text.lstrip("-").isdigit()
