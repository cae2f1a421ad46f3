"""A process that is killed within `apply` writes all of a batch or nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from tests.forms import BEGIN, KINDS, PRODUCTS, place_of, save, version_of
from waterclock.connectors.forms.history import iterate_rows, list_changes, rows_as_of

POINTS = ["forms.batch", "forms.changes", "forms.deletes", "forms.rows", "forms.done"]
_KILLED = """
import json, os, signal, sys
from pathlib import Path
from tests.forms import PRODUCTS, FormsPlace
from waterclock.connectors.forms.changes import Edit, apply
from waterclock.flow.form_rights import FormRights
from waterclock.connectors.interface import Setting
from waterclock.faults import inject_faults

options, folder, point, version = json.loads(sys.argv[1])
place = FormsPlace(Setting("forms", options, Path(folder), Path(folder) / "storage" / "archive"))
edits = [Edit(("S1",), None, version), Edit(("S2",), {"sku": "B"}, None), Edit(("S3",), {"sku": "C"}, None)]
with inject_faults(lambda at: os.kill(os.getpid(), signal.SIGKILL) if at == point else None):
    apply(place.database, PRODUCTS, by=FormRights("ada"), why="killed", edits=edits)
"""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_batch_is_whole_or_not_there(tmp_path: Path, kind: str, point: str) -> None:
    place = place_of(kind, tmp_path)
    save(place.database, "S1", {"sku": "A"})
    arguments = [dict(place.setting.options), str(tmp_path), point, version_of(place.database, "S1")]
    killed = subprocess.run([sys.executable, "-c", _KILLED, json.dumps(arguments)], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    current = {row.key: row.content for row in iterate_rows(place.database, PRODUCTS)}
    assert current == rows_as_of(place.database, PRODUCTS, BEGIN + timedelta(days=1))
    assert sorted(current) == (["S2", "S3"] if point == "forms.done" else ["S1"])
    assert len(list_changes(place.database, PRODUCTS, ("S2",))) == (point == "forms.done")
    if point != "forms.done":  # the next writer is not blocked
        save(place.database, "S4", {"sku": "D"})
