"""A watermark on the engine: stored by a table of the flow, and equal to its rule after any restatement."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.model.late_rows import Row, Slices, accepted, sessions, watermarks
from tests.tiny import Tiny, day, described, labels
from waterclock.operations.deadline_words import situation_words
from waterclock.operations.deadlines import DeadlineState, deadlines
from waterclock.operations.lag import lags
from waterclock.operations.project_opening import open_read_only

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DAYS, GAP, LATENESS, SILENT_AFTER = 6, 20, 12, 3
FLOW = """
COLLECT web.clicks PARTITIONED (user STRING, device STRING, id BIGINT, at TIMESTAMP, came TIMESTAMP)
  FROM shop.clicks EVERY DAY BY DATA TIME came WATERMARK at 12 HOURS PER (device);
CREATE VIEW web.merged AS
WITH spans AS (
  SELECT user, at AS a, at AS z, 1 AS n FROM web.clicks WHERE at >= WATERMARK(web.clicks)
  UNION ALL SELECT user, a, z, n FROM PREVIOUS(web.pending)
), marked AS (
  SELECT *, CASE WHEN a < max(z) OVER (PARTITION BY user ORDER BY a, z ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
                          + INTERVAL 20 HOURS THEN 0 ELSE 1 END AS born FROM spans
), numbered AS (
  SELECT *, sum(born) OVER (PARTITION BY user ORDER BY a, z ROWS UNBOUNDED PRECEDING) AS k FROM marked
)
SELECT user, min(a) AS a, max(z) AS z, sum(n) AS n FROM numbered GROUP BY user, k;
TRANSFORM web.pending (user STRING, a TIMESTAMP, z TIMESTAMP, n BIGINT)
AS SELECT * FROM web.merged WHERE z + INTERVAL 20 HOURS > NEXT_WATERMARK(web.clicks);
TRANSFORM web.sessions PARTITIONED
AS SELECT * FROM web.merged WHERE z + INTERVAL 20 HOURS <= NEXT_WATERMARK(web.clicks);
"""


def hour(hours: int) -> datetime:
    return day(1) + timedelta(hours=hours)


def random_clicks(random: Random) -> Slices:
    """Return slices of days, in hours: most rows of their own day, some late, one far ahead; a device falls silent."""
    slices: Slices = []
    for number in range(DAYS):
        rows = []
        for at in range(random.randrange(3, 7)):
            device = "old" if number < 3 and random.random() < 0.3 else random.choice(["a", "b"])
            off = random.choice([0, 0, 0, 0, -8, -30, -60, 50])
            row_id = number * 10 + at
            rows.append(Row(number * 24 + random.randrange(24) + off, random.choice("uv"), device, row_id))
        slices.append(rows)
    return slices


def fill(tiny: Tiny, slices: Slices) -> None:
    tiny.source(
        "clicks",
        "user TEXT, device TEXT, id INT, at TEXT, came TEXT",
        [
            (row.key, row.part, row.id, f"{hour(row.at):%F %T}", f"{hour(number * 24 + 1):%F %T}")
            for number, rows in enumerate(slices)
            for row in rows
        ],
    )


def compare(tiny: Tiny, slices: Slices) -> None:
    """Compare the table of sessions, the pending ones and the mark with a computation over all rows."""
    marks = watermarks(slices, LATENESS, SILENT_AFTER, by_part=True, step=24)
    kept = [row for rows in accepted(slices, marks) for row in rows]
    assert tiny.done("web.clicks_mark") == labels(*range(1, DAYS + 1))
    [(newest,)] = tiny.rows("SELECT max(watermark) FROM web.clicks_mark")
    assert newest == hour(marks[-1] or 0)
    both = "SELECT user, a, z, n FROM web.sessions UNION ALL SELECT user, a, z, n FROM web.pending"
    found = [(user, a, z, n) for user, a, z, n in tiny.rows(f"SELECT * FROM ({both}) ORDER BY ALL")]
    assert found == [(key, hour(a), hour(z), n) for key, a, z, n in sessions(kept, GAP)]


def test_sessions_of_late_and_restated_rows_are_those_of_all_rows_at_once(tmp_path: Path, spark: SparkSession) -> None:
    tiny, random = Tiny(tmp_path, spark), Random(4)
    tiny.declare(FLOW)
    slices = random_clicks(random)
    fill(tiny, slices)
    first = tiny.run(day(DAYS + 1, 1))
    assert not first.failed, described(first)
    assert tiny.done("web.sessions") == labels(*range(1, DAYS + 1))  # from the first window on
    compare(tiny, slices)

    made = tiny.runs_of("web.clicks_mark"), tiny.runs_of("web.sessions")
    slices[2] = [*slices[2][1:], Row(2 * 24 + 3, "u", "a", 29)]
    fill(tiny, slices)
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("web.clicks", [day(3)], "recollect", who="ann")
    again = tiny.run(day(DAYS + 1, 2))
    assert not again.failed, described(again)
    compare(tiny, slices)
    assert tiny.runs_of("web.clicks_mark") - made[0] < DAYS - 2  # it stops where the mark is the same again
    assert tiny.runs_of("web.sessions") > made[1]


def test_a_watermark_by_a_text_is_refused_where_the_rows_are(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(
        "COLLECT web.clicks PARTITIONED FROM shop.clicks EVERY DAY BY DATA TIME came WATERMARK at 12 HOURS;"
        "COLLECT web.visits PARTITIONED FROM shop.clicks EVERY DAY BY DATA TIME came WATERMARK ta 12 HOURS;"
    )
    fill(tiny, [[Row(1, "u", "a", 1)]])
    failed = {report.group.table: report.error for report in tiny.run(day(2, 1)).failed}
    by_text, absent = failed["web.clicks_mark"], failed["web.visits_mark"]
    assert by_text
    assert absent
    assert (by_text.code, by_text.what) == ("E715", "at of web.clicks is string, not TIMESTAMP")
    assert (absent.code, absent.what) == ("E715", "web.visits has no column ta")
    assert "at TIMESTAMP" in (by_text.fix or "")


def test_a_deadline_by_watermark_is_missed_by_batches_that_are_done_and_whose_rows_are_old(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(
        "COLLECT web.clicks PARTITIONED (device INT, at TIMESTAMP, came TIMESTAMP) FROM shop.clicks EVERY DAY "
        "BY DATA TIME came WATERMARK at 12 HOURS PER (device) DEADLINE 30 HOURS BY WATERMARK;"
    )
    # of device 7 no row is newer than 2 January
    came = [(device, number) for number in range(1, 6) for device in (3, 7)]
    rows = [(it, f"{day(min(n, 2) if it == 7 else n, 20):%F %T}", f"{day(n, 21):%F %T}") for it, n in came]
    tiny.source("clicks", "device INT, at TEXT, came TEXT", rows)
    for now in (day(2, 1), day(6, 1)):
        outcome = tiny.run(now)
        assert not outcome.failed, described(outcome)
    with open_read_only(tiny.root, None, day(6, 1).isoformat()) as at:
        found = deadlines(at, ["web.clicks"]).found
        [lag] = lags(at, ["web.clicks"])
        assert [(due.window.start, due.situation) for due in found] == [
            (day(2), DeadlineState.MISSED),
            (day(3), DeadlineState.MISSED),
            (day(4), DeadlineState.NEAR),
            (day(5), DeadlineState.NEAR),
        ]
        assert situation_words(found[:1], at.flow) == (
            "the watermark must pass it by 2020-01-04 06:00Z; "
            "it has reached 2020-01-02 08:00Z: device 7 is 3 d 4 h behind"
        )
        assert lag.to_json()["by_watermark"]["slowest"] == {"device": 7}
