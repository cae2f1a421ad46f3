"""The Chromium of this machine, driven by Playwright: what the pages of `ui` are tried in."""

from __future__ import annotations

import os
import shutil
from functools import lru_cache
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

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
        if os.environ.get("CI"):
            pytest.fail("no Chromium is installed; bin/_servers installs one")
        pytest.skip("no Chromium is installed: bin/_servers says what to install")
    return found


def launch(playwright: Playwright, *more: str) -> Browser:
    """Start it without a window, and without a word to anybody outside; `more` are arguments of Chromium."""
    return playwright.chromium.launch(executable_path=chromium(), args=[*_QUIET, *more])
