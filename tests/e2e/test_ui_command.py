from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests import stocks

LATER = stocks.HEADER.replace("2026-09-22", "2126-09-22")  # nothing is due, and no Spark is started


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stocks.make(tmp_path_factory.mktemp("ui") / "shop", header=LATER).folder


@contextmanager
def running(*words: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "waterclock", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **environment}
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def address_told(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"http://\S+", line):
            return found.group().rstrip('",')
    raise AssertionError("no address was printed")


class Browser:
    """A client that opens a one-time link and keeps its cookie."""

    def __init__(self, link: str) -> None:
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        self.address = link.partition("?")[0]
        self.entered = self.status(link)

    def status(self, address: str) -> int:
        try:
            with self.opener.open(address, timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def asked(self, path: str = "grid.json") -> int:
        return self.status(self.address + path)

    def told(self, path: str) -> Any:
        with self.opener.open(self.address + path, timeout=60) as answer:
            return json.load(answer)


def asked(address: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_pages_are_served_until_the_process_receives_a_signal(project: Path, end: signal.Signals) -> None:
    with running("ui", "--listen", "0", "--project", str(project)) as process:
        assert Browser(address_told(process)).asked() == 200
        process.send_signal(end)
        assert process.wait(10) == 0


@pytest.mark.parametrize(
    "words", [("ui", "--listen", "0"), ("ui", "--listen", "0", "--json"), ("run", "--watch", "--ui", "0")]
)
def test_a_missing_sandbox_is_reported_at_the_start(tmp_path: Path, words: tuple[str, ...]) -> None:
    folder = stocks.make(tmp_path / "shop", header=LATER).folder
    with running(*words, "--project", str(folder), WATERCLOCK_UNCONFINED="1") as process:
        assert process.stdout is not None
        assert any("run without a sandbox: WATERCLOCK_UNCONFINED is set" in line for line in process.stdout)


def test_the_json_output_contains_address_link_and_port(project: Path) -> None:
    with running("ui", "--listen", "0", "--json", "--project", str(project)) as process:
        assert process.stdout is not None
        told = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")
        assert (Browser(told["link"]).asked(), asked(told["address"])) == (200, 401)
        assert told["port"] > 0


def test_a_run_that_watches_serves_them_beside_its_work(project: Path) -> None:
    with running("run", "--watch", "--ui", "0", "--project", str(project)) as process:
        told = Browser(address_told(process)).told("runs.json")
        assert [(each["command"], each["is_alive"]) for each in told["runners"]] == [("run --watch", True)]
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_others_on_the_network_need_the_token(project: Path) -> None:
    where = ("--listen", "0.0.0.0:0", "--project", str(project))
    with running("ui", *where, WATERCLOCK_UI_TOKEN="s3 cret of a good length") as process:
        link = address_told(process)
        assert "s3" not in link
        port = link.partition("?")[0].rstrip("/").rpartition(":")[2]
        here = f"http://127.0.0.1:{port}/grid.json"
        assert asked(here) == 401
        assert asked(here, Authorization="Bearer s3 cret of a good length") == 200


def test_a_short_token_starts_no_server(project: Path) -> None:
    with running("ui", "--listen", "0", "--project", str(project), WATERCLOCK_UI_TOKEN="s3 cret") as process:
        said, _ = process.communicate(timeout=20)
    assert (process.returncode, "E923" in said, "s3 cret" in said) == (1, True, False)


def test_another_link_opens_another_browser_and_each_opens_one(project: Path, tmp_path: Path) -> None:
    with running("ui", "--listen", "0", "--project", str(project), XDG_RUNTIME_DIR=str(tmp_path)) as process:
        first = address_told(process)
        port = first.partition("?")[0].rstrip("/").rpartition(":")[2]
        another = [sys.executable, "-m", "waterclock", "ui", "--link", "--listen", port]
        environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
        done = subprocess.run(another, capture_output=True, text=True, env=environment, timeout=60, check=True)
        second = done.stdout.strip()
        assert [Browser(link).asked() for link in (first, second)] == [200, 200]
        assert [Browser(link).entered for link in (first, second)] == [401, 401]
        (kept,) = (tmp_path / "waterclock").iterdir()
        assert (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        assert not kept.exists()
    gone = subprocess.run(another, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert (gone.returncode, "E909" in gone.stderr) == (1, True)


@pytest.mark.parametrize("words", [("--now", "yesterday"), ("--now", "2026-11-20T05"), ("--env", "nope")])
def test_invalid_arguments_are_reported_and_start_no_server(project: Path, words: tuple[str, str]) -> None:
    with running("ui", "--listen", "0", "--project", str(project), *words) as process:
        said, _ = process.communicate(timeout=20)
    assert process.returncode == 1
    assert words[1] in said
    assert "the pages are at" not in said


def test_a_port_in_use_is_reported(project: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "waterclock", "ui", "--listen", port, "--project", str(project)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert (done.returncode, "E909" in done.stderr) == (1, True)


def test_a_project_with_errors_is_served_and_shows_them(tmp_path: Path) -> None:
    shop = stocks.make(tmp_path / "shop", flow="TRANSFORM a.b AS SELECT * FROM a.nowhere;\n")
    with running("ui", "--listen", "0", "--project", str(shop.folder)) as process:
        assert Browser(address_told(process)).asked("") == 503


def test_no_project_is_a_card_and_not_a_server(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "waterclock", "ui", "--listen", "0", "--project", str(tmp_path)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, "E244" in done.stderr) == (1, True)


@pytest.mark.spark
@pytest.mark.slow
def test_a_run_in_the_pages_is_watched_and_leads_to_sparks_own_page(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    subprocess.run([sys.executable, "-m", "waterclock", "init", str(folder)], check=True, capture_output=True)
    with (folder / "waterclock.toml").open("a", encoding="utf-8") as file:
        file.write('\n[env.dev.spark.confs]\n"spark.ui.enabled" = "true"\n"spark.ui.port" = "0"\n')
    with running("ui", "--run", "--listen", "0", "--project", str(folder)) as process:
        pages = Browser(address_told(process))
        run = seen(pages, "runs.json", lambda told: told["runs"] and told["runs"][0])
        spark = seen(pages, f"{run['address'][1:]}.json", lambda told: told["spark"])
        assert asked(f"{spark.rstrip('/')}/jobs/") == 200
        made = seen(pages, f"{run['address'][1:]}.json", lambda told: told["batches"] > 0 and told)
        assert made["is_going_on"]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


ENDLESS = "SELECT count(*) FROM range(10000000000) a CROSS JOIN range(10000000000) b WHERE a.id * 7 + b.id * 3 = 5"


@pytest.mark.spark
@pytest.mark.slow
def test_the_first_sigterm_ends_it_under_a_query(project: Path) -> None:
    with running("ui", "--listen", "0", "--project", str(project)) as process:
        pages = Browser(address_told(process))
        assert pages.told("query.json?q=SELECT+1+AS+a")["texts"] == [["1"]]  # Spark has started
        asking = threading.Thread(target=pages.asked, args=(f"query.json?q={quote(ENDLESS)}",), daemon=True)
        asking.start()
        time.sleep(3)
        assert asking.is_alive()
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert time.monotonic() - begun < 20


def seen(pages: Browser, path: str, what: Callable[[Any], Any]) -> Any:
    """Request a page until its content matches."""
    for _ in range(120):
        if found := what(pages.told(path)):
            return found
        time.sleep(0.5)
    raise AssertionError(f"{path} did not tell it within a minute")
