"""How the rows of each label are split into files: what CLUSTER BY, BUCKET BY and PARTITION BY have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from waterclock.storage.slices.manifest import DataFile


class Split(Protocol):
    """How the rows of each label are split into files."""

    @property
    def files(self) -> int:
        """The number of files of a label, at most."""

    def file_of(self, types: Mapping[str, str]) -> Column:
        """Return the number of the file that a row belongs to, from 0 on. `types`: the types by column."""

    def curve_position(self, frame: DataFrame) -> Column | None:
        """Return a value by which the rows of each file are sorted before the columns, or None."""

    def is_possible(self, frame: DataFrame) -> bool:
        """Return whether these rows can be split before they are written."""

    def to_manifest(self) -> dict[str, Any]:
        """Return the entries about the files for the manifest of a slice whose rows were split."""

    def finish(
        self, spark: SparkSession, folder: str, paths: Iterable[str], *, was_split: bool
    ) -> Mapping[str, tuple[DataFile, ...]]:
        """Bring the files of slices that are not sealed yet into their last form.

        `was_split`: whether their rows were split before they were written. Return the files of the slices whose
        footers were read and that stay as they are, so that they are not read again.
        """


def possible_split(split: Split | None, frame: DataFrame) -> Split | None:
    """Return the split if it is possible for the rows of this frame."""
    return split if split is not None and split.is_possible(frame) else None


def split_rows(frame: DataFrame, split: Split | None, labels: Sequence[datetime]) -> DataFrame:
    """Return the frame with one task for each file of each label; unchanged without a split.

    Cost: an exchange of all rows. Nothing below it runs twice. It must come before rows are observed.
    """
    if split is None:
        return frame
    number = split.file_of(dict(frame.dtypes))
    if len(labels) > 1:
        texts = F.array(*(F.lit(label_of(label)) for label in labels))
        # a row of an unknown label is at position 0; it is reported once the rows are written
        label = F.greatest(F.array_position(texts, F.col(TIMELABEL)), F.lit(1)) - 1
        number = label * split.files + number
    return frame.repartitionById(split.files * max(1, len(labels)), number.cast("int"))
