from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from waterclock.connectors import registry
from waterclock.connectors.interface import Setting
from waterclock.connectors.registry import BUILT_IN, GROUP
from waterclock.errors import WaterclockError

ROOT = Path(__file__).parents[3]


def test_all_built_in_types_load() -> None:
    assert set(BUILT_IN) <= set(registry.capabilities())


def test_the_package_names_the_same_entry_points_as_the_registry() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"][GROUP] == dict(BUILT_IN)


def test_an_unknown_type_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(WaterclockError) as caught:
        registry.connector("sqllite")
    assert caught.value.code == "E801"
    assert caught.value.fix == "did you mean sqlite?"


def test_capabilities_are_registered_under_the_name_of_their_type() -> None:
    assert all(can.type == name for name, can in registry.capabilities().items())


def test_a_setting_shows_none_of_its_secrets(tmp_path: Path) -> None:
    assert "hunter2" not in repr(Setting("ops", {"password": "hunter2"}, tmp_path, tmp_path))
