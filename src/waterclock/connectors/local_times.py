"""Converts local times to instants, many at once, by the zone rules that are pinned with this code.

Arrow's function for this uses the zone rules of the machine or its own. These differ from the rules that define
windows, and end after 2037.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING

from waterclock.connectors.type_mismatch import FIRST_MICROS, LAST_MICROS, TypeMismatch
from waterclock.timelabel.instant import EPOCH
from waterclock.timelabel.zone import nominal_zone

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

_STEP = 6 * 3600  # seconds; no zone has ever changed its offset twice within them and returned to the same one
_MICROS = 1_000_000


def local_column_to_instants(local: pa.Array, zone: str) -> pa.Array:
    """Convert an Arrow column of local times to instants, like `local_micros_to_instants`; NULL stays NULL."""
    import pyarrow as pa

    is_known = local.is_valid()
    micros = local.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    found = pa.array(local_micros_to_instants(micros, zone), pa.int64(), mask=~is_known.to_numpy(zero_copy_only=False))
    return found.cast(pa.timestamp("us", tz="UTC"))


def local_micros_to_instants(local: npt.NDArray[np.int64], zone: str) -> npt.NDArray[np.int64]:
    """Convert local times to instants, both in microseconds since 1970. A local time is counted as if it were in UTC.

    The result is that of `resolve_local`: a time in a repeated hour is in the first one, and a skipped time is shifted
    by the length of the gap.
    Cost: some milliseconds for each year that occurs, once per process; then some nanoseconds for each time.
    Raises TypeMismatch for a time whose instant is not between the years 1 and 9999.
    """
    import numpy as np

    found = local.copy()
    years = local.astype("datetime64[us]").astype("datetime64[Y]").astype("int64") + 1970
    for year in np.unique(years):
        of_year = years == year
        bounds, offsets = _offsets_in(int(year), zone)
        at = np.searchsorted(np.array(bounds, dtype="int64"), local[of_year], side="right")
        found[of_year] = local[of_year] - np.array(offsets, dtype="int64")[at]
    beyond = (found < FIRST_MICROS) | (found > LAST_MICROS)
    if beyond.any():
        raise TypeMismatch(str(local[beyond][0].astype("datetime64[us]")))
    return found


@lru_cache(maxsize=4096)
def _offsets_in(year: int, zone: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the local times of a year at which the zone's offset changes, and the offsets between them (microseconds).

    There is one more offset than changes. A change has two local readings, by the offset before and after it. The
    offset before the change is valid until the later reading. So a repeated hour has the offset of its first
    occurrence, and a skipped time is shifted forward.
    """
    rules = nominal_zone(zone)
    at = _epoch_seconds(datetime(year - 1, 12, 30, tzinfo=UTC) if year > 1 else datetime(1, 1, 3, tzinfo=UTC))
    end = _epoch_seconds(datetime(year + 1, 1, 3, tzinfo=UTC) if year < 9999 else datetime(9999, 12, 29, tzinfo=UTC))
    bounds, offsets = [], [_offset_at(at, rules)]
    while at < end:
        after = min(at + _STEP, end)
        offset = _offset_at(after, rules)
        if offset != offsets[-1]:
            low, high = at, after
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if _offset_at(middle, rules) == offsets[-1] else (low, middle)
            bounds.append((high + max(offsets[-1], offset)) * _MICROS)
            offsets.append(offset)
        at = after
    return tuple(bounds), tuple(offset * _MICROS for offset in offsets)


def _offset_at(at: int, rules: tzinfo) -> int:
    """Return a zone's offset at an instant, both in seconds."""
    offset = (EPOCH + timedelta(seconds=at)).astimezone(rules).utcoffset()
    return 0 if offset is None else offset // timedelta(seconds=1)


def _epoch_seconds(at: datetime) -> int:
    return (at - EPOCH) // timedelta(seconds=1)
