"""Files are copied unchanged, from and to buckets of a real S3 server."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.shelves import Shelf
from tests.stores import PublishedBucket, fresh_bucket
from tests.systems import PublishedFolder, unit_of
from waterclock.connectors.delivering import DeliveryOutcome
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.files.filesystem import copy_file, entry_path, files_below, read_bytes

pytestmark = pytest.mark.slow


class Struck(Exception):
    pass


@pytest.mark.parametrize("origin", ["folder", "bucket"])
@pytest.mark.parametrize("kind", [PublishedFolder, PublishedBucket], ids=["to a folder", "to a bucket"])
def test_an_interrupted_copy_is_resumed_and_a_corrupted_copy_is_detected(
    tmp_path: Path, origin: str, kind: type[PublishedFolder]
) -> None:
    shelf, out = Shelf(tmp_path), kind(tmp_path)
    drawn = random.Random(3)
    paths = [shelf.file(f"scan {number} ü.bin", drawn.randbytes(number << 20)) for number in (0, 1, 9)]
    one = shelf.delivery(paths)
    originals = {path.name: path.read_bytes() for path in paths}
    if origin == "bucket":
        shelf.move_to(entry_path(fresh_bucket(), "archive"), copy_file)
    deliverer: Any = out.connector.deliverer(out.setting)
    unit = unit_of("out", "copy", format="raw", keep="all")

    def strike(point: str) -> None:
        if point == "deliver.latched":
            raise Struck

    with inject_faults(strike), pytest.raises(Struck):
        deliverer.deliver(unit, [one])
    (stands,) = deliverer.deliver(unit, [one])
    assert (stands.outcome, stands.is_repeat) == (DeliveryOutcome.DELIVERED, True)
    folder = out.folder / "copy"
    assert {found.path: read_bytes(folder / found.path) for found in files_below(folder)} == originals
    assert list(files_below(out.folder / "_waterclock" / "parts")) == []
    assert deliverer.find_loss(unit, "scans", "out.copy", 1) is None
    harmed = bytearray(originals[paths[2].name])
    harmed[1 << 20] ^= 1
    (folder / paths[2].name).write_bytes(bytes(harmed))
    assert "has other content" in deliverer.find_loss(unit, "scans", "out.copy", 1)
    shelf.forget(paths[2].name)
    with pytest.raises(WaterclockError, match="E383"):
        deliverer.deliver(unit, [shelf.delivery(paths, claim=2)])
