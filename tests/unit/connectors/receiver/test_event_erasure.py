"""Events of erased persons are removed from a stream's sealed files, archived or not; segments are reported."""

from __future__ import annotations

import gzip
from pathlib import Path

from tests.systems import setting_of, unit_of
from waterclock.connectors.original_erasure import OriginalEraser, Subjects
from waterclock.connectors.receiver.connector import ReceiverCollector
from waterclock.flow.declarations import Columns


def test_sealed_files_are_rewritten_and_segments_reported(tmp_path: Path) -> None:
    content = gzip.compress(b'{"_received": 1, "user": "anna"}\n{"_received": 2, "user": "bo"}\n')
    name = "20200101000000-0a-1.jsonl.gz"
    spool, archive = tmp_path / "spool" / "events", tmp_path / "storage" / "archive" / "door" / "events"
    for folder in (spool, archive):
        folder.mkdir(parents=True)
    (spool / name).write_bytes(content)
    (archive / name.replace("-1.", "-2.")).write_bytes(content)
    for state in ("open", "closed", "damaged"):
        (spool / f"{state}-20200101000000-0a-3.seg").write_bytes(b"anna")
    collector = ReceiverCollector(setting_of("door", tmp_path, path="spool"))
    assert isinstance(collector, OriginalEraser)
    subjects = Subjects({"user": None}, {"anna"}.__contains__)
    found = list(collector.erase_originals(unit_of("door", "events"), Columns(), subjects))
    assert sorted((Path(one.path).name, one.removed) for one in found if not one.problem) == [
        (name, 1),
        (name.replace("-1.", "-2."), 1),
    ]
    assert sorted(Path(one.path).name.partition("-")[0] for one in found if one.problem) == [
        "closed",
        "damaged",
        "open",
    ]
    for path in (spool / name, archive / name.replace("-1.", "-2.")):
        assert gzip.decompress(path.read_bytes()) == b'{"_received": 2, "user": "bo"}\n'
