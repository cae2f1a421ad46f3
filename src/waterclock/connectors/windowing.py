"""How are rows with a data time sorted into windows, natively in Spark and in one pass?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from waterclock.connectors.formats import FILE_KEY, TIME, file_key_of
from waterclock.connectors.interface import TIMELABEL
from waterclock.timelabel import Window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NO_TIME = "rows without a data time"
UNREADABLE_TIME = "rows whose data time cannot be read"


def sorted_into_windows(
    frame: DataFrame, windows: Sequence[Window], abroad: Sequence[str]
) -> tuple[DataFrame, Callable[[], Mapping[str, int]]]:
    """Keep the rows of the windows, each with its label in place of `TIME` and `FILE_KEY`; count rows without a time.

    Rows without a time are not counted in the files `abroad`, those stamped in other windows, so that a file that
    several batches read counts once. The count is observed in the pass that evaluates the frame: ask for it after that.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as sf

    time = sf.col(TIME)
    observation = Observation()
    is_abroad = sf.col(FILE_KEY).isin([file_key_of(path) for path in abroad])
    observed = frame.observe(observation, sf.count_if(time.isNull() & ~is_abroad).alias("rows"))
    kept = observed.where((time >= _literal(windows[0].start)) & (time < _literal(windows[-1].end)))
    has_gaps = any(one.end != other.start for one, other in pairwise(windows))
    labelled = kept.withColumn(TIMELABEL, _label(time, windows, has_gaps=has_gaps)).drop(TIME, FILE_KEY)
    if has_gaps:
        labelled = labelled.where(sf.col(TIMELABEL).isNotNull())

    def set_aside() -> Mapping[str, int]:
        rows = int(observation.get["rows"])
        return {NO_TIME: rows} if rows else {}

    return labelled, set_aside


def _label(time: Column, windows: Sequence[Window], *, has_gaps: bool) -> Column:
    """Choose by halves: as many comparisons a row as the number of windows has binary digits."""
    from pyspark.sql import functions as sf

    if len(windows) == 1:
        label = sf.lit(windows[0].label)
        return sf.when(time < _literal(windows[0].end), label) if has_gaps else label
    middle = len(windows) // 2
    earlier = _label(time, windows[:middle], has_gaps=has_gaps)
    later = _label(time, windows[middle:], has_gaps=has_gaps)
    return sf.when(time < _literal(windows[middle].start), earlier).otherwise(later)


def _literal(instant: datetime) -> Column:
    from pyspark.sql import functions as sf

    return sf.lit(f"{instant:%Y-%m-%d %H:%M:%S}Z").cast("timestamp")
