from __future__ import annotations

import io
import json
from typing import Any

from tests.ledgers import day
from tests.unit.engine.fakes import group
from waterclock.cli.views.json_log import JsonLog
from waterclock.engine.run_listener import GroupReport
from waterclock.engine.run_outcome import RunOutcome
from waterclock.errors import WaterclockError
from waterclock.timelabel.label import label_of


def lines(to: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in to.getvalue().splitlines()]


def test_each_event_is_a_line_with_table_labels_and_claim() -> None:
    to = io.StringIO()
    log = JsonLog(to)
    log.on_group_start(group("a.b", 1))
    log.on_group_finish(
        GroupReport(group("a.b", 1), 7, rows=3, seconds=1.23456, timings={"make": 0.5}, warnings=("paid: 1",))
    )
    log.on_group_finish(
        GroupReport(group("a.b", 2), 8, error=WaterclockError("E730", "division by zero", where="a.b@x"))
    )
    log.on_group_finish(GroupReport(group("a.b", 3), 9, error=WaterclockError("E750", "taken over")))
    log.on_message("Spark had ended")
    log.on_run_finish(RunOutcome(done=1, rows=3), 2.0)
    found = lines(to)
    assert [(line["level"], line["event"]) for line in found] == [
        ("info", "started"), ("info", "finished"), ("warning", "warning"), ("error", "finished"), ("info", "elsewhere"),
        ("info", "message"), ("info", "ended"),
    ]  # fmt: skip
    done = found[1]
    assert (done["table"], done["labels"], done["claim"], done["rows"], done["steps"]) == (
        "a.b", [label_of(day(1))], 7, 3, {"make": 0.5},
    )  # fmt: skip
    assert found[3]["error"]["code"] == "E730"
    assert all(line["at"].endswith("Z") for line in found)


class Gone(io.StringIO):
    """A pipe without a reader."""

    def write(self, _text: str) -> int:
        raise BrokenPipeError


def test_a_run_outlives_the_reader_of_its_log() -> None:
    JsonLog(Gone()).on_message("Spark had ended")
