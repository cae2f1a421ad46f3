"""The page of personal data: the output of `waterclock pii`, with links to tables and to lineage."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.unit.cli.conftest import ask
from waterclock.json_models.version import JSON_VERSION

FLOW = """
CREATE CONNECTION land TYPE files OPTIONS (path 'in'); CREATE CONNECTION out TYPE files OPTIONS (path 'out');
COLLECT raw.people PARTITIONED (id BIGINT, email STRING TAGS (pii), phone STRING TAGS ({phone}), pages INT)
  FROM land.people EVERY DAY START '2024-01-01' BY ARRIVAL TIME;
TRANSFORM marts.people PARTITIONED AS SELECT id, lower(email) AS mail FROM raw.people;
PUBLISH marts.people (id, mail TAGS (pii)) TO out.people;
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text('[project]\nname = "x"\n')
    (tmp_path / "flows" / "all.dpl").write_text(FLOW.replace(" TAGS ({phone})", ""))
    return tmp_path


@pytest.fixture
def page(folder: Path, served: Callable[..., TestClient]) -> TestClient:
    return served(folder)


@pytest.mark.parametrize("selected", ["", "marts.*"])
def test_its_json_is_the_answer_of_the_command(folder: Path, page: TestClient, selected: str) -> None:
    told = page.get("/pii.json", params={"t": selected}).json()
    printed = json.loads(ask("pii", *selected.split(), "--project", str(folder), "--json").stdout)
    assert {key: told[key] for key in printed} == printed
    assert printed["version"] == JSON_VERSION
    assert [each["table"] for each in told["tables"]] == (
        ["marts.people"] if selected else ["raw.people", "marts.people", "out.people"]
    )


def test_each_column_leads_to_its_table_and_its_lineage(page: TestClient) -> None:
    text = page.get("/pii").text
    assert '4 columns with personal data, <em class="is-warned">1 declaration missing</em>' in text
    assert "TAGS (pii); name of kind email" in text
    assert "phone TAGS (pii), or TAGS (no_pii)" in text
    links = [unescape(each) for each in re.findall(r'<td><a href="([^"]+)"', text)]
    assert links == [
        "/tables/raw.people", "/lineage/raw.people?column=email", "/tables/raw.people",
        "/lineage/raw.people?column=phone", "/tables/marts.people", "/lineage/marts.people?column=mail",
        "/tables/out.people", "/lineage/out.people?column=mail",
    ]  # fmt: skip
    assert {page.get(link).status_code for link in links} == {200}


def test_it_is_a_part_of_quality_in_the_menu(page: TestClient) -> None:
    text = page.get("/pii", params={"t": "raw.*"}).text
    assert '<a href="/pii?t=raw.%2A" aria-current="page">Personal data</a>' in text
    assert '<a href="/quality?t=raw.%2A" aria-current="page">Quality</a>' in text
    assert 'href="/pii"' in page.get("/quality").text


def test_nothing_missing_and_nothing_found(folder: Path, page: TestClient) -> None:
    (folder / "flows" / "all.dpl").write_text(FLOW.format(phone="no_pii"))
    assert "3 columns with personal data, nothing is missing" in page.get("/pii").text
    (folder / "flows" / "all.dpl").write_text(FLOW.format(phone="no_pii").replace("TAGS (pii)", "TAGS (no_pii)"))
    assert "No personal data found" in page.get("/pii").text


def test_a_table_that_does_not_exist_is_not_found(page: TestClient) -> None:
    refused = page.get("/pii.json", params={"t": "raw.nobody"})
    assert (refused.status_code, refused.json()["errors"][0]["code"]) == (404, "E511")
