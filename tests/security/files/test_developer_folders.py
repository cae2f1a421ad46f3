"""Developer tools do not use folders in /var/tmp that another user created."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.security.strangers import MALLORY, give, meeting_place, needs_root

BIN = Path(__file__).parents[3] / "bin"


@needs_root
@pytest.mark.parametrize("how", ["of another user", "writable", "a link"])
@pytest.mark.parametrize("tool", ["lowest", "fresh"])
def test_a_folder_of_another_user_is_refused(tool: str, how: str) -> None:
    if tool == "fresh" and shutil.which("debootstrap") is None:
        pytest.skip("needs debootstrap")
    with meeting_place() as place:
        trace, folder = place / "trace", place / "prepared"
        for program in (folder / "bin/python", folder / "bookworm/bin/sh"):
            program.parent.mkdir(parents=True)
            program.write_text(f"#!/bin/sh\ntouch {trace}\n")
            program.chmod(0o755)
        given = folder
        if how == "writable":
            folder.chmod(0o777)
        else:
            give(folder, MALLORY)
        if how == "a link":
            given = place / "link"
            given.symlink_to(folder)
        environment = os.environ | {f"WATERCLOCK_{tool.upper()}": str(given)}
        command: list[Path | str] = [BIN / tool, *(["debian-12", "--", "true"] if tool == "fresh" else ["tests/none"])]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, trace.exists()) == (2, False)
        assert f"another user can change {given}" in done.stderr
        assert not list(folder.glob("l*"))
