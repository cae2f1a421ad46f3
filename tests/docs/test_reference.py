from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.connectors.registry import capabilities
from waterclock.dpl.config.environment import Environment, SparkSection
from waterclock.dpl.config.model import (
    Defaults,
    _File,
    _ProjectSection,
)
from waterclock.dpl.config.sections import MaintenanceSection, OidcSection, SignInSection, UserSection
from waterclock.dpl.resolve.alerts import _RULE_KEYS, _SECTION_KEYS, _TARGET_KEYS
from waterclock.dpl.resolve.openlineage import _KEYS as OPENLINEAGE_KEYS
from waterclock.error_codes.catalog import CODES
from waterclock.ledger.read.status import STATUS_TABLES
from waterclock.permissions.users_and_roles import Right

if TYPE_CHECKING:
    from pydantic import BaseModel

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
SETTINGS = (REFERENCE / "settings.md").read_text(encoding="utf-8")
SOURCES = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py"))]


def rows_of(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading, without its header row and without backticks."""
    below = page[page.index(f"\n## {heading}\n") + 1 :]
    lines = re.search(r"(?:^\|.*\n?)+", below, re.MULTILINE)
    assert lines is not None
    return [[cell.strip().strip("`") for cell in line.split("|")[1:-1]] for line in lines[0].splitlines()[2:]]


def test_every_setting_is_documented_and_no_other() -> None:
    models: dict[str, type[BaseModel]] = {"project": _ProjectSection, "defaults": Defaults, "env": Environment}
    assert set(_File.model_fields) == {
        *models,
        "vars",
        "pools",
        "alerts",
        "openlineage",
        "roles",
        "users",
        "sign_in",
        "maintenance",
    }
    for heading, model in models.items():
        assert [row[0] for row in rows_of(SETTINGS, heading)] == [
            field.alias or name for name, field in model.model_fields.items()
        ]
    assert all(f"\n## {heading}\n" in SETTINGS for heading in _File.model_fields)


def test_every_setting_of_alerts_is_documented_and_no_other() -> None:
    rows = {row[0].partition(".")[0]: row[1] for row in rows_of(SETTINGS, "alerts")}
    assert set(rows) == set(_SECTION_KEYS)
    assert all(key in rows["targets"] for key in _TARGET_KEYS)
    assert all(key in rows["rules"] for key in set(_RULE_KEYS) - set(_SECTION_KEYS))


def test_every_setting_of_openlineage_is_documented_and_no_other() -> None:
    assert [row[0] for row in rows_of(SETTINGS, "openlineage")] == ["url", "token", "file", "namespace"]
    assert set(OPENLINEAGE_KEYS) == {"url", "token", "file", "namespace"}


def test_every_setting_of_people_and_maintenance_and_every_right_is_documented() -> None:
    assert [row[0] for row in rows_of(SETTINGS, "roles")] == [right.value for right in Right]
    assert [row[0] for row in rows_of(SETTINGS, "users")] == list(UserSection.model_fields)
    assert [row[0] for row in rows_of(SETTINGS, "sign_in")] == list(SignInSection.model_fields)
    assert [row[0] for row in rows_of(SETTINGS, "maintenance")] == list(MaintenanceSection.model_fields)
    of_provider = SETTINGS.partition("`[sign_in.oidc]`")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", of_provider, re.MULTILINE) == list(OidcSection.model_fields)


def test_every_setting_of_spark_is_documented_and_no_other() -> None:
    below = SETTINGS[SETTINGS.index("Where Spark runs, `[env.prod.spark]`:") :]
    assert [row[0] for row in rows_of("\n## spark\n" + below, "spark")] == list(SparkSection.model_fields)


def test_defaults_of_settings_are_those_of_the_code() -> None:
    said = {row[0]: row[2] for row in rows_of(SETTINGS, "env")}
    for name in ("storage", "secrets", "publish"):
        assert said[name] == str(Environment.model_fields[name].default).removeprefix("'").replace("False", "false")


def test_every_variable_of_the_environment_is_documented() -> None:
    scripts = [path.read_text(encoding="utf-8") for path in (ROOT / "bin").iterdir()]
    used = {name for text in [*SOURCES, *scripts] for name in re.findall(r"\bWATERCLOCK_[A-Z]+(?:_[A-Z]+)*\b", text)}
    listed = {row[0] for row in rows_of(SETTINGS, "Environment variables")}
    secrets = {name for name in used if name.startswith("WATERCLOCK_SECRET")}
    assert used - secrets <= listed
    assert {name for name in listed if name.startswith("WATERCLOCK_")} - {"WATERCLOCK_SECRET_<NAME>"} <= used


def test_every_code_in_the_sources_is_explained_and_every_explained_one_is_raised() -> None:
    raised = {code for text in SOURCES for code in re.findall(r'"([EW]\d{3})"(?!: Code)', text)}
    assert raised == set(CODES)


def test_every_code_has_its_heading() -> None:
    page = (REFERENCE / "errors.md").read_text(encoding="utf-8")
    assert re.findall(r"^### ([EW]\d{3}): ", page, re.MULTILINE) == sorted(CODES, key=list(CODES).index)


def test_the_columns_of_the_ledger_s_tables_are_those_of_the_code() -> None:
    page = (REFERENCE / "ledger.md").read_text(encoding="utf-8")
    for name, columns in STATUS_TABLES.items():
        assert {row[0]: row[1] for row in rows_of(page, f"waterclock.{name}")} == dict(columns)


def test_every_connector_and_option_has_its_place() -> None:
    page = (REFERENCE / "connectors.md").read_text(encoding="utf-8")
    for name, known in capabilities().items():
        section = page[page.index(f"\n## {name}\n") :]
        for options in (known.connection_options, known.collect_options, known.publish_options):
            assert all(f"| `{option}` |" in section for option in options)
