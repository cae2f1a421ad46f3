"""Offline measures: per label like online measures, and over spans from the results that labels stored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import Tiny, day, described, labels
from waterclock.batches.offline import NEVER
from waterclock.timelabel.label import instant_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = "id INTEGER, amount TEXT, who TEXT, at TEXT"
FLOW = """
COLLECT shop.sent PARTITIONED (id BIGINT, amount DECIMAL(8, 2), who STRING, at TIMESTAMP) FROM shop.sent
  EVERY DAY BY DATA TIME at {said};
"""
MEASURES = """MEASURE PROFILE, sum(amount) AS revenue, count(*) AS many, count_if(amount > 5) AS big,
    avg(amount) AS mean, min(amount) AS least, max(who) AS last_one, sum(amount) / count(*) AS ratio,
    approx_count_distinct(who) AS people, approx_percentile(amount, array(0.0, 0.5, 1.0)) AS quartiles,
    approx_percentile(id, 0.5) AS middle,
    count(DISTINCT who) AS exactly"""


def rows_of(number: int, many: int) -> list[tuple[Any, ...]]:
    return [
        (
            at,
            None if at % 7 == 3 else f"{at % 10}.5",
            f"p{at * number % 9}",
            f"2020-01-{number:02d} {at % 24:02d}:00:00",
        )
        for at in range(many)
    ]


def shop(root: Path, spark: SparkSession, counts: dict[int, int], said: str) -> Tiny:
    tiny = Tiny(root, spark)
    tiny.source("sent", COLUMNS, [row for number, many in counts.items() for row in rows_of(number, many)])
    tiny.declare(FLOW.format(said=said))
    return tiny


def found(tiny: Tiny, name: str = "shop.sent") -> dict[tuple[str, str], tuple[str | None, str]]:
    with tiny.ledger() as ledger:
        rows = ledger.past.rows("measures")
        return {(it["timelabel"], it["name"]): (it["value"], it["type"]) for it in rows if it["table"] == name}


def spans(tiny: Tiny) -> dict[tuple[str, str], tuple[str | None, int]]:
    with tiny.ledger() as ledger:
        rows = ledger.past.rows("measured_spans")
        return {(it["first"], it["name"]): (it["value"], it["labels"]) for it in rows}


def exactly(tiny: Tiny, name: str, where: str) -> str | None:
    """Compute a measure directly from the table's rows."""
    texts = dict(part.rsplit(" AS ", 1)[::-1] for part in _parts(MEASURES.removeprefix("MEASURE PROFILE, ")))
    [(value,)] = tiny.rows(f"SELECT CAST(({texts[name]}) AS STRING) FROM shop.sent WHERE {where}")
    return None if value is None else str(value)


def _parts(text: str) -> list[str]:
    found, depth = [""], 0
    for sign in " ".join(text.split()):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and not depth:
            found.append("")
        else:
            found[-1] += sign
    return [part.strip() for part in found]


def test_offline_measures_equal_online_ones_per_label_and_exact_values_per_week(
    tmp_path: Path, spark: SparkSession
) -> None:
    # 1 January 2020 is a Wednesday: weeks start on 30 December and 6 January
    counts = {1: 30, 2: 12, 3: 0, 5: 40, 6: 17, 7: 9}
    tiny = shop(tmp_path / "offline", spark, counts, f"{MEASURES} OFFLINE 1 WEEK")
    online = shop(tmp_path / "online", spark, counts, MEASURES.replace(",\n    count(DISTINCT who) AS exactly", ""))
    for each in (tiny, online):
        assert not (outcome := each.run(day(8))).failed, described(outcome)
    own, beside = found(tiny), found(online)
    assert {key for key in own if key[1] != "exactly"} == {key for key in beside if key[1] != "rows"}
    near = {"people", "quartiles", "middle"}
    assert {key: own[key] for key in beside if key[1] not in near | {"rows"} and ".distinct" not in key[1]} == {
        key: it for key, it in beside.items() if key[1] not in near | {"rows"} and ".distinct" not in key[1]
    }
    assert own[labels(1)[0], "people"] == ("9", "bigint")
    assert own[labels(1)[0], "exactly"] == ("9", "bigint")
    assert own[labels(3)[0], "quartiles"] == (None, beside[labels(3)[0], "quartiles"][1])
    weeks = spans(tiny)
    assert {first for first, _ in weeks} == {"20191230000000", "20200106000000"}
    for first, where in (("20191230000000", "timelabel < '20200106'"), ("20200106000000", "timelabel >= '20200106'")):
        for name in ("revenue", "many", "big", "mean", "least", "last_one", "people", "quartiles", "middle"):
            told, wanted = weeks[first, name][0], exactly(tiny, name, where)
            if name == "quartiles":  # Spark's own function leaves zeros out
                assert numbers(told) == numbers(wanted)
            else:
                assert told == wanted, (first, name)
        assert (first, "exactly") not in weeks  # distinct values cannot be combined from those of single labels
    assert weeks["20191230000000", "who.distinct"] == ("9", 5)
    assert weeks["20191230000000", "amount.nulls"][0] == exactly_nulls(tiny, "timelabel < '20200106'")


def numbers(text: str | None) -> list[float]:
    return [float(it) for it in str(text)[1:-1].split(",")]


def exactly_nulls(tiny: Tiny, where: str) -> str:
    [(count,)] = tiny.rows(f"SELECT count_if(amount IS NULL) FROM shop.sent WHERE {where}")
    return str(count)


def test_an_offline_measurement_covers_labels_made_or_restated_since_the_last_one(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = shop(tmp_path, spark, {1: 3, 2: 5, 3: 4}, "MEASURE sum(id) AS total OFFLINE 1 DAY")
    assert not tiny.run(day(2)).failed
    assert found(tiny) == {(labels(1)[0], "total"): ("3", "bigint")}
    for hour in (5, 23):  # a label that is made again within the day waits for the next check
        tiny.shop("UPDATE sent SET id = id + 1")
        with tiny.ledger() as ledger:
            ledger.decisions.request_restate("shop.sent", [day(1)], "recollect", who="ann")
        assert not tiny.run(day(2, hour)).failed
        assert found(tiny) == {}  # the measures belong to rows that are no longer shown
    assert not tiny.run(day(3)).failed
    assert found(tiny) == {(labels(1)[0], "total"): ("9", "bigint"), (labels(2)[0], "total"): ("20", "bigint")}
    tiny.declare(FLOW.format(said="MEASURE sum(id) AS total, max(id) AS most OFFLINE 1 DAY"))
    assert not tiny.run(day(3, 1)).failed  # a changed declaration takes effect at once
    assert found(tiny)[labels(1)[0], "most"] == ("4", "bigint")
    with tiny.ledger() as ledger:
        look = ledger.offline.newest_runs()["shop.sent"]
        assert (look.looked_at, look.labels, look.error, look.taken_until) == (day(3, 1), 2, None, None)


def test_a_failed_offline_measurement_fails_no_batch_and_is_reported(tmp_path: Path, spark: SparkSession) -> None:
    tiny = shop(tmp_path, spark, {1: 3, 2: 5}, "MEASURE sum(1 / (id - id)) AS nothing OFFLINE 1 DAY")
    outcome = tiny.run(day(2))
    assert not outcome.has_failed
    assert tiny.done("shop.sent") == labels(1)
    [said] = [text for text in tiny.heard.said_ if "offline" in text]
    assert said.startswith("shop.sent: measuring offline failed: ")
    with tiny.ledger() as ledger:
        look = ledger.offline.newest_runs()["shop.sent"]
        assert look.error is not None
        assert (look.looked_at, look.labels, look.taken_until) == (day(2), 0, None)
        # another runner reserved it since
        assert not ledger.offline.reserve_measurement("shop.sent", seen=NEVER, lease=day(2) - day(1))
    assert not tiny.run(day(2, 9)).has_failed
    assert len([text for text in tiny.heard.said_ if "offline" in text]) == 1  # not before it is due again
    tiny.run(day(3))
    assert len([text for text in tiny.heard.said_ if "offline" in text]) == 2


def test_a_rule_compares_with_values_measured_offline_before_it_was_declared(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = shop(tmp_path, spark, {1: 3, 2: 4, 3: 1}, "MEASURE max( id ) AS most OFFLINE 1 DAY")
    assert not tiny.run(day(3)).failed
    said = "MEASURE max(id) AS most OFFLINE 1 DAY EXPECT max(id) >= last_good(max(id)) AS grows ELSE WARN"
    tiny.declare(FLOW.format(said=said))
    assert not (outcome := tiny.run(day(4))).failed, described(outcome)
    with tiny.ledger() as ledger:
        audit = ledger.past.audit("shop.sent", instant_of(labels(3)[0]))
        assert audit.current is not None
        assert audit.current.revision is not None
        measures = audit.current.revision.measures
    [warning] = measures["warnings"]
    assert warning.endswith("where max(id) is 0; last_good(max(id)) is 3")
    assert measures["offline"] == {"most": {"value": "0", "type": "bigint"}}
