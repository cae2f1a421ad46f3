"""When a topic can show whether an old claim was delivered."""

from __future__ import annotations

from datetime import timedelta

import pytest

from waterclock.connectors.kafka.old_claim_search import describe_gap
from waterclock.connectors.kafka.ranges import Log

DELETED = {"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"}


@pytest.mark.parametrize(
    ("config", "start", "end", "days", "said"),
    [
        (DELETED, 0, 9, 30, ""),
        (DELETED, 4, 9, 6, ""),
        (DELETED, 4, 9, 8, "dropped"),
        ({**DELETED, "retention.bytes": "1000"}, 4, 9, 6, "dropped"),
        ({**DELETED, "retention.ms": "-1"}, 4, 9, 900, ""),
        ({**DELETED, "cleanup.policy": "compact"}, 0, 9, 1, "compact"),
        ({}, 0, 9, 1, "unknown"),
        (DELETED, 0, 10, 1, "open"),
    ],
)
def test_an_old_claim_can_be_searched_while_the_topic_retains_its_whole_time_span(
    config: dict[str, str], start: int, end: int, days: int, said: str
) -> None:
    log = Log("orders", "id", {0: start, 1: 0}, {0: 9, 1: 3})
    why = describe_gap(config, log, {0: end, 1: 3}, timedelta(days=days))
    assert (said in why, bool(why)) == (True, bool(said))
