"""Reads from Spark's own metrics how many bytes each task of a write read from the exchanges of its plan.

Adaptive execution joins small partitions of an exchange, and splits large ones where a join permits it. So the bytes of
a task are those of a partition as Spark read it, not as it was declared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waterclock.batches.skew import LARGE, TaskSkew
from waterclock.engine.spark.connect import is_remote
from waterclock.engine.spark.exchanges import exchanges_by_id, find_write, plan_id_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_METRIC = re.compile(r"SQLPlanMetric\((?P<name>local|remote) bytes read,(?P<id>\d+),size\)")
_SIZE = r"[\d.]+ [KMGTPE]?i?B"
_TOTAL = re.compile(_SIZE)
_SPREAD = re.compile(
    rf"(?P<total>{_SIZE}) \((?P<least>{_SIZE}), (?P<median>{_SIZE}), (?P<most>{_SIZE}) \(stage (?P<stage>\d+)\.\d+: "
)
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50, "EiB": 1 << 60}
_END = "\n\0"


@dataclass(frozen=True, slots=True)
class Spread:
    """The values of a metric of bytes over the tasks that have one, and the stage of the task with most of them.

    Of a single task Spark writes the total only: `stage` is then None.
    """

    total: int
    least: int
    median: int
    most: int
    stage: int | None

    @property
    def unevenness(self) -> int:
        """The bytes of the largest task beyond the median; of two tasks, Spark's median is the larger one."""
        if self.stage is None:
            return self.most
        return self.most - (self.median if self.median < self.most else self.least)


def find_largest_skew(spark: SparkSession, path: str) -> TaskSkew | None:
    """Return the skew of the exchange whose largest task has most bytes beyond the median, of a write to a path.

    Return None if no exchange moved rows by keys, or if one task read all rows, and they have at most `LARGE` bytes.
    Raises LookupError if Spark does not show its metrics: over Spark Connect, or if it has forgotten the write. Uses
    private API of PySpark. Cost: no job; about 15 ms, with several exchanges 30 ms, and 3 ms if nothing is found.
    """
    if is_remote(spark):
        raise LookupError("Spark Connect does not show the metrics of tasks")
    try:
        found = find_write(spark, path)
        largest = None if found is None else _largest_read(spark, *found)
    except Exception as raised:  # metrics of a batch never fail it
        raise LookupError(f"Spark did not show the metrics of tasks: {type(raised).__name__}") from raised
    if found is None:
        raise LookupError("Spark has forgotten the write of the rows")
    return largest


def parse_spread(text: str) -> Spread | None:
    """Parse a metric of bytes as Spark shows it. Return None if no task has a value.

    Examples: `2.3 MiB (93.3 KiB, 135.0 KiB, 1537.5 KiB (stage 22.0: task 70))` after a line with the names of the
    values, and `1610.6 KiB` of a single task.
    """
    if found := _SPREAD.search(text):
        total, least, median, most = (_bytes_of(found[name]) for name in ("total", "least", "median", "most"))
        return Spread(total, least, median, most, int(found["stage"]))
    total = _bytes_of(text) if _TOTAL.fullmatch(text) else 0
    return Spread(total, total, total, total, None) if total else None


def _bytes_of(text: str) -> int:
    number, unit = text.split(" ")
    return round(float(number) * _UNITS[unit])


def _largest_read(spark: SparkSession, execution: Any, plan: str) -> TaskSkew | None:
    """Return the most uneven read of an exchange by keys. One to a single task has no partitions to compare."""
    metrics = [match["id"] for match in _METRIC.finditer(str(execution.metrics().mkString(",")))]
    if not metrics:
        return None
    store = spark._jsparkSession.sharedState().statusStore()  # noqa: SLF001
    values = dict(_values_of(str(store.executionMetrics(execution.executionId()).mkString(_END))))
    spreads = {name: parse_spread(values.get(name, "")) for name in metrics}
    known = {name: it for name, it in spreads.items() if it and (it.stage is not None or it.total > LARGE)}
    if not known:
        return None
    exchanges = {plan_id: each for plan_id, each in exchanges_by_id(plan).items() if each.keys}
    nodes = store.planGraph(execution.executionId()).allNodes()
    others = [node for at in range(nodes.size()) if (node := nodes.apply(at)).name() == "Exchange"]
    # each look at a node is a call of the JVM: the most uneven metric first
    for name in sorted(known, key=lambda each: known[each].unevenness, reverse=True):
        node = next((each for each in others if f",{name}," in str(each.metrics().mkString(","))), None)
        exchange = None if node is None else exchanges.get(plan_id_of(str(node.desc())))
        if exchange is not None:
            return _skew_of(spark, str(exchange), known[name])
    return None


def _values_of(text: str) -> Iterator[tuple[str, str]]:
    for value in text.split(_END):
        name, _, shown = value.partition(" -> ")
        yield name, shown


def _skew_of(spark: SparkSession, exchange: str, read: Spread) -> TaskSkew:
    if read.stage is None:
        return TaskSkew(exchange, 1, 0, read.most, 0.0)
    stage = spark.sparkContext._jsc.sc().statusStore().lastStageAttempt(read.stage)  # noqa: SLF001
    tasks = int(stage.numCompleteTasks())
    begun, ended = stage.submissionTime(), stage.completionTime()
    seconds = (ended.get().getTime() - begun.get().getTime()) / 1000 if begun.isDefined() and ended.isDefined() else 0.0
    return TaskSkew(exchange, tasks, read.least if tasks == 2 else read.median, read.most, seconds)
