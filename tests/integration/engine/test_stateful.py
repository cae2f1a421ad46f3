"""Python rules that keep state from window to window, compared with all rows at once."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.integration.engine.test_watermarks import GAP, LATENESS, SILENT_AFTER, fill, hour, random_clicks
from tests.model.late_rows import Row, accepted, sessions, watermarks
from tests.tiny import Tiny, day, described

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CLICKS = """
COLLECT web.clicks PARTITIONED (user STRING, device STRING, id BIGINT, at TIMESTAMP, came TIMESTAMP)
  FROM shop.clicks EVERY DAY BY DATA TIME came WATERMARK at 12 HOURS PER (device);
"""
RULE = """
from datetime import timedelta

import waterclock as wc

GAP = timedelta(hours=20)
COLUMNS = "user STRING, a TIMESTAMP, z TIMESTAMP, n BIGINT"


@wc.stateful("web.sessions", rows="web.clicks", state="web.pending", key="user", columns=COLUMNS, state_columns=COLUMNS)
def sessions(key, state_rows, rows, window):
    spans = [(row["a"], row["z"], row["n"]) for row in state_rows]
    spans += [(r["at"], r["at"], 1) for r in rows if window.watermark is None or r["at"] >= window.watermark]
    merged = []
    for a, z, n in sorted(spans):
        if merged and a - merged[-1]["z"] < GAP:
            merged[-1]["z"] = max(z, merged[-1]["z"])
            merged[-1]["n"] += n
        else:
            merged.append({"user": key, "a": a, "z": z, "n": n})
    done = [it for it in merged if window.next_watermark and it["z"] + GAP <= window.next_watermark]
    return [it for it in merged if it not in done], done
"""
WRONG = """
import waterclock as wc


@wc.stateful("web.wrong", rows="web.clicks", state="web.state", key="user", columns="n BIGINT",
             state_columns="user STRING")
def wrong(key, state_rows, rows, window):
    return [], [{"number": len(rows)}]


@wc.stateful("web.keyless", rows="web.clicks", state="web.state_of_none", key="user", columns="n BIGINT",
             state_columns="n BIGINT")
def keyless(key, state_rows, rows, window):
    return [], []


@wc.stateful("web.text", rows="web.clicks", state="web.total", key="user", columns="n BIGINT",
             state_columns="user STRING, n BIGINT")
def text(key, state_rows, rows, window):
    return [{"user": key, "n": "many"}], []
"""


def test_a_stateful_python_rule_by_window_equals_one_over_all_rows(tmp_path: Path, spark: SparkSession) -> None:
    tiny, random = Tiny(tmp_path, spark), Random(7)
    tiny.declare(CLICKS)
    (tmp_path / "flows" / "sessions.py").write_text(RULE)
    slices = random_clicks(random)[:4]
    fill(tiny, slices)
    for look in range(2):
        outcome = tiny.run(day(len(slices) + 1, 1 + look))
        assert not outcome.failed, described(outcome)
        marks = watermarks(slices, LATENESS, SILENT_AFTER, by_part=True, step=24)
        kept = [row for rows in accepted(slices, marks) for row in rows]
        both = "SELECT user, a, z, n FROM web.sessions UNION ALL SELECT user, a, z, n FROM web.pending"
        found = [(user, a, z, n) for user, a, z, n in tiny.rows(f"SELECT * FROM ({both}) ORDER BY ALL")]
        assert found == [(key, hour(a), hour(z), n) for key, a, z, n in sessions(kept, GAP)]

        slices[2] = [*slices[2][1:], Row(2 * 24 + 3, "u", "a", 29)]
        fill(tiny, slices)
        with tiny.ledger() as ledger:
            ledger.decisions.request_restate("web.clicks", [day(3)], "recollect", who="ann")


def test_a_stateful_rule_with_a_wrong_result_is_reported_with_its_columns(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(CLICKS)
    (tmp_path / "flows" / "wrong.py").write_text(WRONG)
    fill(tiny, [[Row(1, "u", "a", 1)]])
    failed = {report.group.table: report.error for report in tiny.run(day(2, 1)).failed}
    told_of = {name: (error.code, error.what) for name, error in failed.items() if error}
    assert told_of["web.keyless"] == ("E716", "the state of web.keyless has no column user")
    assert told_of["web.total"] == ("E716", "web.total returned a value of another type")
    assert told_of["web.wrong"] == ("E716", "web.wrong returned rows with number")
    error = failed["web.wrong"]
    assert error
    assert error.why == "its columns are n"
