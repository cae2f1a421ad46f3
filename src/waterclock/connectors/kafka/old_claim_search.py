"""Searches a topic for the messages of an old claim whose record Kafka has removed.

This runs only when all other runners of the publish are fenced. If the topic still has all records since the claim, a
claim without messages was never sent. The topic has them if its cleanup policy is `delete`, it has dropped no records
yet or keeps them for longer, and no open transaction hides its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from waterclock.connectors.delivering import Delivered, DeliveryOutcome
from waterclock.connectors.kafka.cluster import Cluster
from waterclock.connectors.kafka.messages import CLAIM, LABEL
from waterclock.connectors.kafka.ranges import Log, first_range, spans_of
from waterclock.connectors.kafka.reading import KafkaExtract, OffsetPart, batches
from waterclock.flow.declarations import Unit

_CLOCK_MARGIN = 3600.0  # seconds by which the clocks of a ledger and of a runner may differ
_UNLIMITED = -1


def describe_gap(config: Mapping[str, str], log: Log, ends: Mapping[int, int], age: timedelta) -> str:
    """Return the reason why a topic may not have all records of the last `age`; empty if it has them. Pure function.

    `ends` are the ends of the partitions, including uncommitted records.
    """
    if (policy := config.get("cleanup.policy", "")) != "delete":
        return f"the topic's cleanup.policy is {policy or 'unknown'}, so its records may be gone"
    if dict(ends) != dict(log.ends):
        return "an open transaction hides the end of the topic; it is checked again when that has ended"
    keeps, bytes_kept = int(config.get("retention.ms", 0)), int(config.get("retention.bytes", 0))
    is_long = (keeps == _UNLIMITED or timedelta(milliseconds=keeps) > age) and bytes_kept == _UNLIMITED
    if any(log.starts.values()) and not is_long:
        return "the topic has dropped records, perhaps those of that time (retention.ms, retention.bytes)"
    return ""


def find_sent_messages(
    cluster: Cluster, unit: Unit, log: Log, claim: int, labels: Sequence[str]
) -> Delivered | str | None:
    """Search a topic for the messages that a claim sent. Return their delivery, or None if there are none.

    If the topic may not have all records since the claim, return a text with the reason.

    `labels` are those that the claim may have sent; empty for all labels.
    Cost: one pass over the records since the claim, in bounded memory.
    Raises the errors of `reading.batches`.
    """
    if unit.options.get("keep") == "all":
        return "records that are sent as they were collected have no header claim"
    where, at = str(unit), datetime.fromtimestamp(max(0.0, claim / 1000 - _CLOCK_MARGIN), UTC)
    config, ends = cluster.describe_topic(unit.path, log, where)
    if why := describe_gap(config, log, ends, datetime.now(UTC) - at):
        return why
    begins = cluster.offsets_since(log, at, where)
    parts = tuple(OffsetPart(at, span) for span in spans_of(first_range(log, begins)))
    known: Counter[str] = Counter()
    gone = 0
    for batch in batches(KafkaExtract(cluster, unit.path, where, parts)):
        for headers, value in zip(batch["headers"].to_pylist(), batch["value"].to_pylist(), strict=True):
            values = {one["key"]: one["value"] for one in headers or ()}
            label = (values.get(LABEL) or b"").decode(errors="replace")
            if values.get(CLAIM) == str(claim).encode() and (not labels or label in labels):
                known[label] += 1
                gone += value is None
    if not known:
        return None
    return Delivered(claim, DeliveryOutcome.DELIVERED, max(known), known.total() - gone, gone)
