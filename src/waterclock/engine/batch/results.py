"""What making a batch gives: rows that are not written yet, and what must be known beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from waterclock.engine.collect.gathered import _nothing_after

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from waterclock.engine.workplace import Workplace
    from waterclock.storage.slices.manifest import Manifest
    from waterclock.storage.slices.sieve import Sifted, Through


def _nothing_held() -> None:
    pass


def _nothing_counted(label: datetime, rows: int) -> Mapping[str, int]:  # noqa: ARG001
    return {}


@dataclass(frozen=True, slots=True)
class Notes:
    """What is known of a group's rows beside themselves.

    `source` are positions in the source by label, for the manifest. `set_aside`, asked after the rows were written,
    counts what belongs to no window. `without_parent`, asked then with a label and how many rows were made of it,
    counts by reference those that name a parent which is not there. `left_out` are columns that a closed list does not
    name. `require_unchanged`, called once the rows were written, raises where the source changed under the reading.
    `after` is called once the group is recorded (files go to the archive); `close` in the end, whatever came of it.
    `holds` says of labels why they are held back, whatever their rows are.
    """

    source: Mapping[datetime, Mapping[str, Any]] = field(default_factory=dict)
    set_aside: Callable[[], Mapping[str, int]] = dict
    without_parent: Callable[[datetime, int], Mapping[str, int]] = _nothing_counted
    left_out: tuple[str, ...] = ()
    after: Callable[[Workplace], None] = _nothing_after
    close: Callable[[], None] = _nothing_held
    require_unchanged: Callable[[], None] = _nothing_held
    holds: Mapping[datetime, str] = field(default_factory=dict)

    def checked(self) -> Notes:
        """Return the notes. Raises  what `require_unchanged` raises."""
        self.require_unchanged()
        return self

    def parents_missing(self, manifest: Manifest, sifted: Sifted | None) -> Mapping[str, Any]:
        """Count the facts of a FLAT whose parent is not there: told, no warning, as some lack it by nature."""
        found = self.without_parent(manifest.label, manifest.rows if sifted is None else sifted.rows)
        return {"without parent": dict(found)} if found else {}


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of some labels of a group, written by one Spark job; several labels stand in the frame's `timelabel`.

    `of_nothing`: no row was read for them, so that there may be none. `through`: the sieve that they go through.
    """

    labels: tuple[datetime, ...]
    frame: DataFrame
    of_nothing: bool = False
    through: Through | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """Rows of one group, declared types applied, nothing run yet. `schema` is what the table becomes."""

    parts: Sequence[Part]
    schema: StructType
    notes: Notes
