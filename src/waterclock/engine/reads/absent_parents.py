"""Counts the rows of a FLAT that name a parent which is not there, in the pass that writes them."""

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
    """What was observed of the FLATs of a group, by label.

    Over Spark Connect nothing is: there, what a query observes below a view does not come back to who asked for it.
    """

    seen: dict[datetime, tuple[Observation, Mapping[str, str]]] = field(default_factory=dict)

    def watched(self, label: datetime, frame: DataFrame, alone: Mapping[str, str]) -> DataFrame:
        """Return a FLAT's rows without the columns `alone` (see `flat_frame`), which are counted as they are written.

        Cost: no pass of its own. Filters above are not moved below it, so it is for queries that have none.
        """
        from pyspark.sql import Observation
        from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

        rows = frame
        if alone and not is_remote(frame.sparkSession):
            seen = Observation()
            counts = (F.count_if(F.col(mark)).alias(mark) for mark in alone.values())
            rows = frame.observe(seen, F.count(F.lit(1)).alias(_ROWS), *counts)
            self.seen[label] = seen, alone
        return rows.drop(*alone.values())

    def of(self, label: datetime, rows: int) -> dict[str, int]:
        """Return, by reference, how many of a label's rows name a parent that is not there; those without any are left.

        Asked once they were written. `rows`: how many the label's query made. What was observed of another number says
        nothing: a task ran twice, or the query does not give each row of the FLAT once. Where none was made there may
        have been no write, and what nobody wrote is never observed.
        """
        if not rows or label not in self.seen:
            return {}
        seen, alone = self.seen[label]
        found = seen.get
        if found.get(_ROWS) != rows:
            return {}
        return {name: found[mark] for name, mark in alone.items() if found[mark]}
