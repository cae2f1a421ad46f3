"""The Chromium of this machine, driven by Playwright, for tests of the pages of `ui`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import CDLL
from functools import lru_cache
from typing import NoReturn

import pytest
from playwright.sync_api import Browser, sync_playwright

_QUIET = (
    "--no-sandbox",  # tests may run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@lru_cache
def chromium() -> str:
    """Return the path of Chromium: that of CHROMIUM, else the system's own.

    If there is none, the test is skipped, except on CI, which skips no tests.
    """
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        _lacking("Chromium")
    if sys.platform == "linux":
        try:
            CDLL("libatomic.so.1")  # required by Playwright's driver
        except OSError:
            _lacking("libatomic")
    return found


def _lacking(what: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(f"no {what} is installed. Fix: run bin/_servers")
    pytest.skip(f"no {what} is installed. Fix: run bin/_servers")


@contextmanager
def browsing(*more: str) -> Iterator[Browser]:
    """Start it headless and without external requests; `more` are arguments of Chromium."""
    path = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*_QUIET, *more])
        yield browser
        browser.close()
