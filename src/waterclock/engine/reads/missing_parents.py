"""Counts the rows of a FLAT whose parent is missing, while they are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from waterclock.engine.spark.connect import is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

_ROWS = "rows"


@dataclass(frozen=True, slots=True)
class AbsentParents:
    """Counts FLAT rows whose parent is missing, by label.

    Over Spark Connect there are no counts, because it does not return them.
    """

    seen: dict[datetime, tuple[Observation, Mapping[str, str]]] = field(default_factory=dict)

    def observe(self, label: datetime, frame: DataFrame, alone: Mapping[str, str]) -> DataFrame:
        """Count a FLAT's rows without a parent while they are written. Return the rows without the marker columns.

        `alone` maps references to marker columns (see `flat_frame`). Cost: no pass of its own. Spark does not push
        filters below the count, so use it for queries without filters.
        """
        from pyspark.sql import Observation
        from pyspark.sql import functions as F  # noqa: N812 - F is the usual name

        rows = frame
        if alone and not is_remote(frame.sparkSession):
            seen = Observation()
            counts = (F.count_if(F.col(mark)).alias(mark) for mark in alone.values())
            rows = frame.observe(seen, F.count(F.lit(1)).alias(_ROWS), *counts)
            self.seen[label] = seen, alone
        return rows.drop(*alone.values())

    def counts_for(self, label: datetime, rows: int) -> dict[str, int]:
        """Map references to the number of a label's rows whose parent is missing. References without any are left out.

        Call it after the write. `rows`: the number of rows that the label's query made. If a different number was
        observed, the counts are unknown and none is returned: a task ran twice, or the query does not return each row
        of the FLAT once. With no rows there may have been no write, and then nothing is observed.
        """
        if not rows or label not in self.seen:
            return {}
        seen, alone = self.seen[label]
        found = seen.get
        if found.get(_ROWS) != rows:
            return {}
        return {name: found[mark] for name, mark in alone.items() if found[mark]}
