"""The flights example with storage, landing folder and a destination in buckets; only its project file differs."""

from __future__ import annotations

import gzip
import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import s3
from tests.flights import Digests, digests, prepared, run, troubles
from tests.stores import fresh_bucket
from tests.unit.cli.conftest import ask
from waterclock.files.filesystem import copy_file, entry_path, files_below, read_bytes

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def in_buckets(root: Path, days: int) -> tuple[Path, str]:
    """Prepare the example with all files in two buckets; return its folder and the storage's bucket."""
    lake, drop = fresh_bucket(), fresh_bucket()
    said = ", ".join(
        f'{name} = "{value}"' for name, value in s3.server().options().items() if name != "secret_access_key"
    )
    secret = 'secret_access_key = { secret = "s3" }'
    folder = prepared(
        root,
        f"""
[env.prod]
storage = "{lake}/flights"
storage_options = {{ {said}, {secret} }}
publish = true
connections.landing = {{ path = "{drop}/new", {said}, {secret} }}
connections.ops = {{ path = "data/ops.sqlite" }}
connections.reports = {{ path = "data/reports-prod.sqlite", create = true }}
connections.out = {{ path = "{lake}/out" }}
""",
        days=days,
    )
    (folder / "secrets").mkdir()
    (folder / "secrets" / "s3").write_text(s3.server().options()["secret_access_key"])
    landed = folder / "data" / "new"
    for file in files_below(landed):
        copy_file(landed / file.path, entry_path(drop, "new", file.path))
    return folder, lake


def published(folder: Path) -> dict[str, list[bytes]]:
    """Return the lines of a destination's files in order, by path; its records are next to them."""
    paths = [file.path for file in files_below(folder) if not file.path.startswith("_")]
    return {path: sorted(gzip.decompress(read_bytes(folder / path)).splitlines()) for path in paths}


@pytest.mark.parametrize("days", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_a_flow_in_buckets_yields_the_same_digests_as_in_folders_despite_an_outage(
    tmp_path: Path, at_home: Callable[[int], tuple[Path, Digests]], days: int
) -> None:
    """The store is down for a while in between: the run waits or reports it, and the next run continues."""
    folder, home = at_home(days)
    away, lake = in_buckets(tmp_path, days)
    process = run(away, days)
    while process.poll() is None and not any(status == "done" for status, _ in digests(away).values()):
        time.sleep(0.2)
    assert process.poll() is None
    s3.server().stop(signal.SIGKILL)
    time.sleep(5)
    s3.server().start()
    said, _ = process.communicate(timeout=600)
    if process.returncode:
        assert "the object store cannot be reached" in said
        again = run(away, days)
        said, _ = again.communicate(timeout=600)
        assert again.returncode == 0, said
    found = digests(away)
    assert troubles(away) == {}, said
    assert {status for status, _ in found.values()} == {"done"}
    assert found == home
    assert published(entry_path(lake, "out")) == published(folder / "data" / "out-prod") != {}
    assert not (away / ".waterclock" / "tables").exists()


@pytest.mark.usefixtures("spark")
def test_the_store_is_tried_before_a_run(tmp_path: Path) -> None:
    folder, lake = in_buckets(tmp_path, 1)
    assert _tried(folder)[f"storage {lake}/flights"] == "can be written, and supports conditional puts"
    (folder / "secrets" / "s3").write_text("not the secret")
    told = _tried(folder)[f"storage {lake}/flights"]
    assert "the object store cannot be reached" in told
    assert "refuses this user" in told


def _tried(folder: Path) -> dict[str, str]:
    done = ask("check", "--connect", "--json", "--env", "prod", "--project", str(folder))
    told: dict[str, Any] = json.loads(done.stdout)
    return {
        f"{each['kind']} {each['name']}": each["description"] if each["ok"] else str(each)
        for each in told["connections"]
    }
