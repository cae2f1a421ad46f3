"""Seals a slice for another table, label or claim without writing rows: by links to an existing slice's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from waterclock.files.filesystem import entry_path, link_file, make_folder, remove_folder
from waterclock.files.object_stores import is_remote
from waterclock.storage.lake import Lake
from waterclock.storage.slices.manifest import DataFile, Manifest, require_unsealed, seal
from waterclock.storage.slices.row_filter import QUARANTINE


def seal_linked_slice(  # noqa: PLR0913 - each argument is a part of the new manifest
    sealed: Manifest,
    sealed_folder: str,
    *,
    folder: str,
    lake: Lake,
    claim: int,
    label: datetime,
    code: str,
    name: str,
    source: Mapping[str, Any],
    with_quarantine: bool = True,
) -> Manifest:
    """Seal a slice with the same content as another: hard links to its files, or copies if links are impossible.

    Symbolic links of another table are followed: a branch has links to files that its base may remove.
    `with_quarantine`: the new slice also contains the quarantined rows. Cost: no Spark job; a link per file. Raises
    E604 if a slice of the claim is sealed already.
    """
    path = lake.slice_path(label, claim)
    require_unsealed(folder, [path])
    leaf = entry_path(folder, path)
    remove_folder(leaf)
    make_folder(leaf)
    files = _link_files(sealed.files, sealed_folder, folder, path)
    aside = _link_files(sealed.aside if with_quarantine else (), sealed_folder, folder, f"{path}/{QUARANTINE}")
    linked = replace(
        sealed,
        table=name,
        label=label,
        claim=claim,
        slice_path=path,
        files=files,
        aside=aside,
        aside_digest=sealed.aside_digest if with_quarantine else "",
        code=code,
        source=source,
        sealed_at=datetime.now(UTC),
    )
    seal(folder, linked)
    return linked


def _link_files(files: Sequence[DataFile], sealed_folder: str, folder: str, path: str) -> tuple[DataFile, ...]:
    if files:
        make_folder(entry_path(folder, path))
    found = []
    for file in files:
        own = f"{path}/{file.path.rsplit('/', 1)[-1]}"
        source = entry_path(sealed_folder, file.path)
        if sealed_folder != folder and not is_remote(source):
            source = source.resolve()
        link_file(source, entry_path(folder, own))
        found.append(replace(file, path=own))
    return tuple(found)
