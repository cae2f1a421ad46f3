"""A waterclock.toml of any content is refused with an error; that of a linked project may belong to another user."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.systems import setting_of
from waterclock.connectors.waterclock.project_location import locate_project
from waterclock.dpl.config.model import read_config
from waterclock.errors import WaterclockError

START = '[project]\nname = "shop"\n[env.dev]\nstorage = ".waterclock"\n[vars]\n'
HOSTILE = {
    "lists": f"{START}a = {'[' * 50_000}{']' * 50_000}",
    "tables": f"{START}a = {'{b = ' * 5_000}1{'}' * 5_000}",
    "keys": f"{START}[vars.{'.'.join(['a'] * 5_000)}]",
    "digits": f"{START}a = {'9' * 5_000}",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_an_own_file_is_not_valid(text: str) -> None:
    config, (error,) = read_config(text, env=None)
    assert (config, error.code) == (None, "E240")
    assert len(error.render()) < 2_000


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_linked_project_is_not_found(tmp_path: Path, text: str) -> None:
    (tmp_path / "waterclock.toml").write_text(text)
    with pytest.raises(WaterclockError) as refused:
        locate_project(setting_of("other", tmp_path, path="."))
    assert refused.value.code == "E833"
