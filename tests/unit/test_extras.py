from __future__ import annotations

import importlib.util
import shlex
import shutil
import sys
from importlib import metadata
from pathlib import Path

import pytest

from waterclock.extras import extra_install_command, package_install_command

EXTRAS = sorted(metadata.metadata("waterclock").get_all("Provides-Extra") or ())


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_installed_by_its_libraries_and_never_by_our_name(extra: str) -> None:
    command = shlex.split(extra_install_command(extra))
    requirements = command[command.index("install") + 1 :]
    assert [each for each in requirements if any(sign in each for sign in "<>=")], command
    assert not any(each.startswith("waterclock") for each in requirements)


def test_all_libraries_of_an_extra_are_named() -> None:
    assert shlex.split(extra_install_command("excel"))[-2:] == ["openpyxl>=3.1,<4", "python-calamine>=0.6,<1"]


def test_an_environment_without_pip_is_served_by_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert package_install_command("a>=1") == f"uv pip install --python {shlex.quote(sys.prefix)} 'a>=1'"


def test_an_environment_that_is_not_active_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(shutil, "which", lambda _: str(tmp_path / "pip"))
    assert package_install_command("a") == f"{shlex.quote(sys.executable)} -m pip install a"
    monkeypatch.setattr(shutil, "which", lambda _: str(Path(sys.executable).parent / "pip"))
    assert package_install_command("a") == "pip install a"


def test_sources_that_are_not_installed_name_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    def requires(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    assert extra_install_command("excel") == "pip install '.[excel]' in the checkout of Waterclock"
