"""A project that collects from an API and publishes to one, over a real server, with faults."""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.apis import Space
from tests.tiny import TOML, Tiny, day, described, labels
from waterclock.engine.connection_checks import probes
from waterclock.faults import inject_faults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SECRET = "s3cret-of-the-api"
FLOW = """
CREATE CONNECTION api TYPE rest OPTIONS (auth.token SECRET 'api/token');
COLLECT raw.calls PARTITIONED (id KEY, who NOT NULL, at TIMESTAMP NOT NULL, deep STRUCT<n: INT>) FROM api.calls
  OPTIONS (path 'cursor', rows 'data', paging 'cursor', page_size 2, since 'since', until 'until')
  EVERY DAY BY DATA TIME at;
PUBLISH raw.calls TO api.told OPTIONS (path 'take/rows', chunk 2, in_flight 2) APPEND ORDER BY at PER (who);
"""


class Stopped(BaseException):
    """Simulates the end of a process within a test."""


@pytest.fixture
def space(monkeypatch: pytest.MonkeyPatch) -> Space:
    monkeypatch.setenv("WATERCLOCK_SECRET_API_TOKEN", SECRET)
    made = Space()
    made.set(credential=f"bearer:{SECRET}", rows=calls(1, 2))
    return made


@pytest.fixture
def tiny(tmp_path: Path, spark: SparkSession, space: Space) -> Tiny:
    toml = TOML + f'connections.api = {{{{ url = "{space.url}", tries = 2, timeout = 20 }}}}\n'
    made = Tiny(tmp_path, spark, toml=toml)
    made.declare(FLOW)
    return made


def calls(*days: int) -> list[dict[str, Any]]:
    return [
        {"id": f"{number}-{at}", "who": f"p{at % 2}", "at": f"2020-01-0{number}T{at:02}:00:00Z", "deep": {"n": at}}
        for number in days
        for at in range(5)
    ]


def kept(space: Space) -> list[str]:
    return sorted(row["id"] for row in space.told()["kept"])


def test_api_records_are_collected_by_window_and_delivered_once(tiny: Tiny, space: Space) -> None:
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    assert tiny.done("raw.calls")[-2:] == labels(1, 2)
    assert tiny.rows("SELECT count(*), sum(deep.n) FROM raw.calls") == [(10, 20)]
    assert kept(space) == sorted(row["id"] for row in calls(1, 2))
    told = space.told()
    assert told["overlaps"] == 0
    assert {row["timelabel"] for row in told["kept"]} == set(labels(1, 2))
    before = len(space.asked)
    assert not tiny.run(day(3)).failed
    assert not [one for one in space.asked[before:] if "key" in one], "nothing is sent twice"


def test_a_stopped_collect_resumes_at_its_next_page(tiny: Tiny, space: Space) -> None:
    left = [2]

    def strike(point: str) -> None:
        left[0] -= point == "page.kept"
        if not left[0]:
            raise Stopped

    with pytest.raises(Stopped), inject_faults(strike):
        tiny.run(day(2))
    asked = [one["params"].get("cursor") for one in space.asked if one["path"] == "cursor"]
    assert len(asked) == 2
    with tiny.ledger() as ledger:
        for claim in ledger.claims.open():
            ledger.claims.close_lost(claim, why="its process ended")
    assert not tiny.run(day(2)).failed
    asked = [one["params"].get("cursor") for one in space.asked if one["path"] == "cursor"]
    assert len(asked) == len(set(asked)) == 3
    assert kept(space) == sorted(row["id"] for row in calls(1))


def test_a_delivery_that_stopped_half_way_is_finished_by_the_next_run(tiny: Tiny, space: Space) -> None:
    tiny.settings = replace(tiny.settings, lease=1.0)
    left = [2]

    def strike(point: str) -> None:
        left[0] -= point == "deliver.chunk"
        if not left[0]:
            space.set(faults=[503] * 99)

    with inject_faults(strike):
        outcome = tiny.run(day(2))
    assert [error.code for error in outcome.unsettled] == ["E848"]
    assert 0 < len(kept(space)) < 5
    space.set(faults=[])
    time.sleep(1.1)  # a run in another process would not wait for the lease
    assert not tiny.run(day(2)).failed
    assert kept(space) == sorted(row["id"] for row in calls(1))
    assert len({one["key"] for one in space.asked if one.get("key")}) == len(space.told()["kept"]) - 2


def test_rows_refused_by_the_api_fail_their_batch_and_are_sent_again_by_retry(tiny: Tiny, space: Space) -> None:
    space.set(refuses="1-2")
    outcome = tiny.run(day(2))
    [error] = [report.error for report in outcome.failed]
    assert error is not None
    assert error.code == "E847"
    assert "id 1-2" in str(error.why)
    assert tiny.batches()["api.told", labels(1)[0]] == "failed"
    space.set(refuses="")
    before = len(space.asked)
    with tiny.ledger() as ledger:
        ledger.decisions.retry("api.told", [day(1)], who="a test")
    assert not tiny.run(day(2)).failed
    assert kept(space) == sorted(row["id"] for row in calls(1))
    assert [one["ids"] for one in space.asked[before:] if "ids" in one] == [["1-2", "1-3"], ["1-4"]]


def test_the_secret_is_nowhere(tiny: Tiny, space: Space) -> None:
    tiny.run(day(2))
    space.set(credential="bearer:another", rows=calls(1, 2, 3))
    outcome = tiny.run(day(4))
    assert {report.error.code for report in outcome.failed if report.error} == {"E844"}
    assert SECRET not in described(outcome)
    for folder, _, names in os.walk(tiny.root):
        for name in names:
            assert SECRET.encode() not in Path(folder, name).read_bytes(), name


def test_connect_describes_the_source_and_destination_api(tiny: Tiny) -> None:
    said = {probe.kind: probe for probe in probes(tiny.load()) if probe.kind in {"source", "destination"}}
    assert said["source"].error is None
    assert "4 columns, its clock is at 20" in said["source"].description
    assert said["destination"].description == "api.told answers, nothing was delivered yet"


def test_the_page_for_users_collects_and_sends(tmp_path: Path, spark: SparkSession, space: Space) -> None:
    page = (Path(__file__).parents[3] / "docs" / "howto" / "collect-an-api.md").read_text(encoding="utf-8")
    [toml] = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    said = [*re.findall(r"^```sql\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)]
    flow = [text for text in said if "shop.orders" in text or "CREATE" in text]
    settings = toml.replace("https://api.example.com/v1", space.url).replace("[env.dev]", "[env.dev]\npublish = true")
    project = f'[project]\nname = "page"\n{settings.replace("{", "{{").replace("}", "}}")}'
    tiny = Tiny(tmp_path, spark, toml=project)
    (tmp_path / "flows" / "flow.dpl").write_text("".join(flow).partition("PUBLISH shop.events")[0])
    (tmp_path / "secrets" / "shop").mkdir(parents=True)
    (tmp_path / "secrets" / "shop" / "token").write_text(SECRET)
    orders = [
        {
            "order_id": str(at),
            "customer_id": f"c{at % 2}",
            "amount": 12.5,
            "ordered_at": f"2026-01-01T{at:02}:00:00Z",
            "lines": [{"sku": "a", "count": at}],
        }
        for at in range(5)
    ]
    space.set(rows=orders, time="ordered_at", since="ordered_after", until="ordered_before", most=2)
    outcome = tiny.run(datetime(2026, 1, 2, tzinfo=UTC))
    assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT sum(amount), sum(lines[0].count) FROM shop.orders") == [(Decimal("62.50"), 10)]
    asked = next(one["params"] for one in space.asked if one["path"] == "orders")
    assert asked == {
        "status": "open",
        "ordered_after": "2026-01-01T00:00:00Z",
        "ordered_before": "2026-01-02T00:00:00Z",
        "limit": "100",
    }
    sent = space.told()["kept"]
    assert sorted(row["order_id"] for row in sent) == list("01234")
    assert set(sent[0]) == {"order_id", "customer_id", "ordered_at", "timelabel", "claim", "method"}
