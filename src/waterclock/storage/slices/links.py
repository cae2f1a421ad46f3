"""Stages a sealed slice again elsewhere without writing it: by links to its files, which nothing changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from waterclock.filesystem import at, link_file, make_folder, remove_folder
from waterclock.storage.lake import Lake
from waterclock.storage.slices.manifest import Manifest, already_sealed, is_sealed, seal


def link_slice(  # noqa: PLR0913 - each is a part of what the new manifest says
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
) -> Manifest:
    """Seal a slice that holds what another holds: hard links to its files, or copies where links are not to be had.

    Cost: no Spark job; a link a file.
    Raises  E604 where a slice of the claim is sealed already
    """
    path = lake.slice_path(label, claim)
    if is_sealed(folder, path):
        raise already_sealed(folder, path)
    leaf = at(folder, path)
    remove_folder(leaf)
    make_folder(leaf)
    files = []
    for file in sealed.files:
        bare = file.path.rsplit("/", 1)[-1]
        link_file(at(sealed_folder, file.path), leaf / bare)
        files.append(replace(file, path=f"{path}/{bare}"))
    linked = replace(
        sealed,
        table=name,
        label=label,
        claim=claim,
        slice_path=path,
        files=tuple(files),
        code=code,
        source=source,
        sealed_at=datetime.now(UTC),
    )
    seal(folder, linked)
    return linked
