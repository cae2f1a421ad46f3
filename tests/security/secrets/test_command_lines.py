"""Secrets are on no command line, which every user of the machine can read."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import time
from html import unescape
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

from waterclock.cli.actions.init import start_empty, today

SCRIPT = """
import sys
from pathlib import Path
from waterclock.engine.spark.session import Sessions
from waterclock.engine.spark.settings import SparkSettings

name = "spark.hadoop.fs.abfs.account.key"
settings = SparkSettings(master="local[1]", confs={name: "canary-4711"}, secrets=frozenset({name}))
sessions = Sessions(work_folder=Path(sys.argv[1]), settings=settings)
try:
    java = sessions.root().sparkContext._jsc.hadoopConfiguration().get("fs.abfs.account.key")
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    print(java, sum(b"org.apache.spark" in line for line in lines) > 0, sum(b"canary-4711" in line for line in lines))
finally:
    sessions.close()
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="command lines are read from /proc")
def test_a_secret_setting_reaches_spark_but_no_command_line(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "work")], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.split() == ["canary-4711", "True", "0"], done.stderr[-2000:]


@pytest.mark.slow
def test_the_browser_gets_its_link_in_a_file_of_this_user_alone(tmp_path: Path) -> None:
    """The link is a session: the first user who opens it acts as this user."""
    start_empty(tmp_path / "shop", today())
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{opened}.new && mv {opened}.new {opened}\n')
    browser.chmod(0o755)
    own = {"DISPLAY": ":0", "BROWSER": f"{browser} %s", "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    command = [sys.executable, "-P", "-m", "waterclock", "ui", "--open", "--listen", "0", "--project", "shop"]
    with subprocess.Popen(command, cwd=tmp_path, env=os.environ | own, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert _comes(opened)
            (address,) = opened.read_text().split()
            assert "link=" not in address
            page = Path(url2pathname(urlsplit(address).path))
            assert stat.S_IMODE(page.stat().st_mode) == 0o600
            assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
            found = re.search('content="0;url=(.*?)"', page.read_text())
            assert found is not None
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?link=[0-9a-f-]+", unescape(found[1]))
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
    assert not page.exists()


def _comes(path: Path) -> bool:
    """Wait up to a minute for a file."""
    end = time.monotonic() + 60
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.1)
    return path.exists()
