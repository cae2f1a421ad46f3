"""Options passed to the JVM, for project paths with any characters."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from waterclock.engine.spark.session import _java_options, open_session
from waterclock.errors import WaterclockError


@pytest.mark.parametrize("name", ["a b", "it's", 'dou"ble', "back\\slash", "Zoë 日本", "$HOME `id` 100% *?[x]"])
def test_an_option_stays_one_option_whatever_the_path_holds(tmp_path: Path, name: str) -> None:
    # Spark's launcher splits the line as a shell does, except after a dollar sign
    folder = tmp_path / name
    options = shlex.split(_java_options(folder, folder / "tmp", lasts=False))
    assert f"-Dderby.system.home={folder}" in options
    assert f"-Djava.io.tmpdir={folder / 'tmp'}" in options
    assert all(option.startswith("-") for option in options)


def test_a_work_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WaterclockError) as refused:
        open_session("local[1]", tmp_path / "file" / "spark", {})
    assert (refused.value.code, refused.value.what) == ("E704", "Spark has no work folder")
    assert refused.value.why == "Not a directory"


def test_a_user_without_a_name_on_the_machine_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
    with pytest.raises(WaterclockError) as refused:
        open_session("local[1]", tmp_path, {})
    assert (refused.value.code, refused.value.what) == ("E704", "Spark does not start for a user without a name")
    assert "4000000" in (refused.value.why or "")


def test_a_jvm_that_ends_soon_compiles_late_and_one_that_lasts_as_java_does(tmp_path: Path) -> None:
    brief, lasting = (shlex.split(_java_options(tmp_path, tmp_path / "tmp", lasts=lasts)) for lasts in (False, True))
    assert [option for option in brief if "Tier4" in option]
    assert set(brief) - {option for option in brief if "Tier4" in option} == set(lasting)
