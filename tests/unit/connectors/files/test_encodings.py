from __future__ import annotations

import gzip
from pathlib import Path
from random import Random

import pytest

from waterclock.connectors.files.file_schemas import shapes_of
from waterclock.connectors.files.reading_options import ReadOptions
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Columns


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_a_damaged_gzip_stream_is_an_error_of_the_file(tmp_path: Path, ending: str) -> None:
    random, path = Random(3), tmp_path / f"a.{ending}.gz"
    packed = bytearray(gzip.compress("".join(f"{random.random()},\n" for _ in range(200)).encode()))
    packed[12:40] = b"\xff" * 28
    path.write_bytes(packed)
    with pytest.raises(WaterclockError, match="it is damaged") as caught:
        shapes_of([str(path)], ReadOptions(), Columns())
    assert (caught.value.code, caught.value.where) == ("E807", str(path))
