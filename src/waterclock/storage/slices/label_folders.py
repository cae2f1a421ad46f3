"""The folders, one for each label, into which one job writes the rows of a group of labels."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.errors import WaterclockError
from waterclock.files.filesystem import entry_path, folders_in, is_folder, make_folder, move_folder, remove_folder
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FOLDER = "_waterclock_label"
"""The column with the name of each row's folder, which is its label."""


def add_folder(rows: DataFrame, *, is_split: bool = False) -> DataFrame:
    """Add the column by which rows are written to a folder for each label, and group the rows of each label.

    `is_split`: each task has rows of one label already.

    Otherwise every task would write a file for each of its labels. With a rebalance, few rows make one file per label,
    and many rows are split (24 labels, two tasks: 48 files in 15.3 s, 24 in 10.8 s for a million rows).
    """
    # never NULL: Spark replaces texts that may be NULL before it makes folders of them, and sorts all rows again
    folder = F.coalesce(F.col(TIMELABEL), F.lit(""))
    return (rows if is_split else rows.hint("rebalance", TIMELABEL)).withColumn(FOLDER, folder)


def move_if_there(source: Path, target: Path) -> bool:
    """Move a folder if it exists, and return whether it did."""
    if not is_folder(source):
        return False
    move_folder(source, target)
    return True


def move_into_place(scratch: Path, folder: str, paths: Mapping[datetime, str]) -> None:
    """Move the folders of a group to its slices. A label without rows gets an empty folder."""
    expected = {f"{FOLDER}={label_of(label)}": path for label, path in paths.items()}
    written = sorted(folders_in(scratch))
    require_known_labels(scratch, paths, folder, is_group=True)
    for name, path in expected.items():
        leaf = entry_path(folder, path)
        remove_folder(leaf)
        if name in written:
            make_folder(leaf.parent)
            move_folder(scratch / name, leaf)
        else:
            make_folder(leaf)
    remove_folder(scratch)


def require_known_labels(scratch: Path, paths: Mapping[datetime, str], folder: str, *, is_group: bool) -> None:
    """Raise E606, and remove the folders, if a row of a group has a label that is not one of `paths`."""
    expected = {f"{FOLDER}={label_of(label)}" for label in paths}
    unknown = sorted(name for name in folders_in(scratch) if name not in expected) if is_group else []
    if unknown:
        remove_folder(scratch)
        raise WaterclockError(
            "E606",
            f"rows have the label {unknown[0].partition('=')[2]}, which is not being made",
            where=folder,
            why=f"the group's labels are {', '.join(label_of(label) for label in paths)}",
            fix="this is a bug of Waterclock: report it with the table's statement",
        )
