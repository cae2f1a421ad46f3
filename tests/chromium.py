"""The Chromium of this machine, driven by Playwright: what the pages of `ui` are tried in."""

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

    A machine without it skips the test, but for CI, where nothing is left out.
    """
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        _lacking("Chromium")
    if sys.platform == "linux":
        try:
            CDLL("libatomic.so.1")  # what Playwright's driver is linked against
        except OSError:
            _lacking("libatomic")
    return found


def _lacking(what: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(f"no {what} is installed; bin/_servers installs it")
    pytest.skip(f"no {what} is installed: bin/_servers says what to install")


@contextmanager
def browsing(*more: str) -> Iterator[Browser]:
    """Start it without a window, and without a word to anybody outside; `more` are arguments of Chromium."""
    path = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*_QUIET, *more])
        yield browser
        browser.close()
