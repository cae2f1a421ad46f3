"""Builds the paths of tables, slices and older states in a storage, and checks that it supports put-if-absent."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from waterclock.batches.former_names import is_borrowed
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import (
    entry_path,
    folders_in,
    make_folder,
    open_for_writing,
    put_if_absent,
    remove_file,
)
from waterclock.timelabel.label import hive_path, label_of

STAGE = "_stage"
VAULT = "vault"
"""The folder of a storage with the vaults of tokens: `vault/<subject>`."""


@dataclass(frozen=True, slots=True)
class Lake:
    """The storage of a project: a folder or a URL. `folders` maps renamed tables to folders relative to `root`.

    A branch borrows tables of another environment: their folders in that storage are absolute.
    """

    root: str
    folders: Mapping[str, str] = field(default_factory=dict, kw_only=True, compare=False)

    def folder(self, table: str) -> str:
        """Return the absolute folder of a table (`schema.table`) or of a publish stage (`publish/<unit>`)."""
        location = self.location(table)
        return location if is_borrowed(location) else f"{self.root.rstrip('/')}/{location}"

    def location(self, table: str) -> str:
        """Return the folder of a table or publish stage: relative to the root, or absolute for a borrowed table."""
        if table.startswith("publish/"):
            return table
        return self.folders.get(table) or "tables/" + "/".join(table.split("."))

    def history(self, table: str) -> str:
        """Return the absolute folder for the recomputed older states of a MERGE or TEMPORAL table."""
        location = self.location(table)
        below = table.replace(".", "/") if is_borrowed(location) else location.removeprefix("tables/")
        return f"{self.root.rstrip('/')}/history/{below}"

    @property
    def vault_root(self) -> str:
        """The storage with the vaults of tokens."""
        return self.root

    def slice_path(self, label: datetime, claim: int) -> str:
        """Return the folder of the slice that a claim seals for a label, relative to the table's folder."""
        return f"{label_folder(label)}/c={claim}"


def readable_by_queries(root: str) -> list[Path]:
    """Return the local folders of a storage that queries may read. The ledger and its exports are not among them."""
    return [Path(root) / name for name in ("tables", "history", "publish")]


def vault_folder(root: str, subject: str) -> str:
    """Return the absolute folder of the vault with the tokens of a subject."""
    return f"{root.rstrip('/')}/{VAULT}/{subject}"


def vault_subjects(root: str) -> list[str]:
    """Return the subjects that have a vault in a storage."""
    return sorted(folders_in(entry_path(root, VAULT)))


def label_folder(label: datetime) -> str:
    """Return the folder of all slices of a label, relative to the table's folder."""
    return f"{STAGE}/{hive_path(label_of(label))}"


def require_put_if_absent(root: str) -> None:
    """Raise E602 if the storage has no put-if-absent: it cannot create a file only if that does not exist yet.

    Two runners could then commit the same claim. Raises E603 or E609 if the storage cannot be written.
    """
    name = f".latch-{uuid.uuid4().hex}"
    probe, plain = entry_path(root, name), entry_path(root, f"{name}.write")
    try:
        make_folder(probe.parent)
        with open_for_writing(plain):
            pass
    except OSError as error:
        raise WaterclockError(
            "E603",
            "the storage cannot be written",
            where=root,
            why=str(error),
            fix=("allow writing there, or free space"),
        ) from error
    try:
        if not put_if_absent(probe, "first") or put_if_absent(probe, "second"):
            raise _no_put_if_absent_error(root, "an existing file was created a second time")
    except OSError as error:
        raise _no_put_if_absent_error(root, str(error)) from error
    finally:
        remove_file(plain)
        remove_file(probe)


def _no_put_if_absent_error(root: str, why: str) -> WaterclockError:
    return WaterclockError(
        "E602",
        "the storage cannot create a file only if it does not exist",
        where=root,
        why=f"{why}; without it two runners could both commit one claim",
        fix="put the storage on a file system of this machine, or in an object store that supports conditional puts",
    )
