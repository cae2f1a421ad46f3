from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.errors import ProjectErrors, WaterclockError

_FLOW = """
CREATE CONNECTION landing TYPE files;
CREATE CONNECTION out TYPE files{options};
COLLECT web.visits PARTITIONED (id BIGINT) FROM landing.web.visits EVERY DAY BY ARRIVAL TIME;
"""


def errors_of(tmp_path: Path, toml: str, options: str = "") -> list[WaterclockError]:
    (tmp_path / "flows").mkdir(exist_ok=True)
    (tmp_path / "flows" / "flow.dpl").write_text(_FLOW.format(options=options))
    (tmp_path / "waterclock.toml").write_text(f'[project]\nname = "shop"\n[env.prod]\n{toml}\n')
    try:
        load_project(tmp_path, capabilities=capabilities())
    except ProjectErrors as errors:
        return list(errors.errors)
    except WaterclockError as error:
        return [error]
    return []


STORAGE = """storage = "s3://lake/shop"
storage_options = { region = "eu", virtual_hosted_style_request = true }
connections.landing = { path = "s3://lake/new" }
"""


@pytest.mark.parametrize(
    "out",
    [
        'path = "s3://lake/out"',
        'path = "s3://lake/out", region = "eu", virtual_hosted_style_request = true',
        'path = "s3://other/out", region = "us"',
    ],
)
def test_a_bucket_is_reached_in_one_way_by_all_who_name_it(tmp_path: Path, out: str) -> None:
    assert errors_of(tmp_path, f"{STORAGE}connections.out = {{ {out} }}") == []


def test_two_ways_to_one_bucket_are_refused_with_both_places(tmp_path: Path) -> None:
    (error,) = errors_of(tmp_path, f'{STORAGE}connections.out = {{ path = "s3://lake/out", region = "us" }}')
    assert (error.code, error.what, error.where) == (
        "E223",
        "s3://lake has two different configurations",
        "waterclock.toml:7:21",
    )
    assert error.why == (
        "the storage (waterclock.toml:5:1) has another region and virtual_hosted_style_request, "
        "and a bucket has one configuration"
    )


def test_two_connections_that_reach_one_bucket_by_other_credentials_are_refused(tmp_path: Path) -> None:
    toml = """connections.landing = { path = "s3://lake/new", secret_access_key = { secret = "a" } }
connections.out = { path = "data/out", archive = "s3://lake/kept", secret_access_key = { secret = "b" } }"""
    (tmp_path / "secrets").mkdir()
    for name in ("a", "b"):
        (tmp_path / "secrets" / name).write_text(name)
    (error,) = errors_of(tmp_path, toml)
    assert error.where == "waterclock.toml:5:40"
    assert error.why is not None
    assert error.why.startswith("connection landing (waterclock.toml:4:25) has another secret_access_key")


def test_an_option_that_the_connections_store_rejects_is_reported_at_its_position(tmp_path: Path) -> None:
    toml = 'connections.landing = { path = "data/new" }\nconnections.out = { path = "gs://reports" }'
    (error,) = errors_of(tmp_path, toml, " OPTIONS (region 'eu')")
    assert (error.code, error.where) == ("E608", "flows/flow.dpl:3:43")
