"""A PAST is refused as too short only if this is certain."""

from __future__ import annotations

from pathlib import Path

from tests.language.cases import CAPABILITIES, KNOWN, SETTINGS
from waterclock.dpl.project import check_project

# a moving view of the last rows, a time other than that of the slices, and a time with a second bound
JUDGED_OTHERWISE = """
COLLECT web.views PARTITIONED (user STRING, at TIMESTAMP, seen TIMESTAMP)
  FROM landing.views EVERY 5 MINUTES BY ARRIVAL TIME WATERMARK at 10 MINUTES;
COLLECT web.buys PARTITIONED (user STRING, at TIMESTAMP)
  FROM landing.buys EVERY 5 MINUTES START '2024-01-01' BY DATA TIME at;
TRANSFORM marts.moving PARTITIONED AS
SELECT v.user, b.at FROM PAST(web.views, '30 minutes') v JOIN PAST(web.buys, '5 minutes') AS b
  ON v.user = b.user AND b.at BETWEEN v.at AND v.at + INTERVAL 30 MINUTES;
TRANSFORM marts.other_time PARTITIONED AS
SELECT v.user, b.at FROM PAST(web.views, '30 minutes') v JOIN PAST(web.buys, '5 minutes') AS b
  ON v.user = b.user AND b.at BETWEEN v.seen AND v.seen + INTERVAL 30 MINUTES
WHERE greatest(v.timelabel, b.timelabel) = TIMELABEL();
TRANSFORM marts.recent PARTITIONED AS
SELECT v.user, b.at FROM PAST(web.views, '30 minutes') v JOIN PAST(web.buys, '5 minutes') AS b
  ON v.user = b.user AND b.at BETWEEN v.at AND v.at + INTERVAL 30 MINUTES
WHERE greatest(v.timelabel, b.timelabel) = TIMELABEL() AND v.at >= WINDOW_START() - INTERVAL 30 MINUTES;
TRANSFORM marts.of_label PARTITIONED AS SELECT v.user, v.at FROM web.views v
WHERE NOT EXISTS (SELECT 1 FROM PAST(web.views, '5 minutes') AS q WHERE q.user = v.user AND q.timelabel = v.timelabel
  AND q.at < v.at AND q.at >= v.at - INTERVAL 1 HOUR);
TRANSFORM marts.of_hour PARTITIONED AS SELECT v.user, v.at FROM web.views v
LEFT ANTI JOIN PAST(web.views, '5 minutes') AS q ON q.user = v.user
  AND date_trunc('hour', q.at) = date_trunc('hour', v.at) AND q.at < v.at AND q.at >= v.at - INTERVAL 1 HOUR;
"""


def test_a_bound_that_may_be_meant_otherwise_is_not_judged(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(SETTINGS)
    (tmp_path / "flows" / "a.dpl").write_text(KNOWN + JUDGED_OTHERWISE)
    _, errors = check_project(tmp_path, capabilities=CAPABILITIES)
    assert errors == ()
