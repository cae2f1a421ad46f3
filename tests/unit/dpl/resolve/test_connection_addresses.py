"""`check` refuses the url of another kind of database, without connecting, and shows no part of a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import check_project
from waterclock.errors import WaterclockError


def errors_of(folder: Path, kind: str, url: str) -> list[WaterclockError]:
    (folder / "flows").mkdir()
    (folder / "flows" / "a.dpl").write_text(f"CREATE CONNECTION c TYPE {kind} OPTIONS (url '{url}');")
    (folder / "waterclock.toml").write_text('[project]\nname = "shop"\n')
    _, errors = check_project(folder, capabilities=capabilities())[:2]
    return list(errors)


@pytest.mark.parametrize(
    ("kind", "url", "begins"),
    [
        ("postgres", "mysql://ann@db/shop", "mysql://"),
        ("mysql", "db:3306/shop", "no scheme"),
        ("firebird", "postgresql://ann@db/shop", "postgresql://"),
    ],
)
def test_the_url_of_another_kind_of_database_is_refused(tmp_path: Path, kind: str, url: str, begins: str) -> None:
    [error] = errors_of(tmp_path, kind, url)
    assert (error.code, error.what) == ("E223", f"option url begins with {begins}")
    assert (
        error.why
        == {
            "postgres": "a url here begins with postgresql:// or postgres://",
            "mysql": "a url here begins with mysql:// or mariadb://",
            "firebird": "a url here begins with firebird://",
        }[kind]
    )


@pytest.mark.parametrize(
    ("kind", "url"),
    [
        ("postgres", "postgresql://ann@db/shop"),
        ("postgres", "host=db dbname=shop"),
        ("mysql", "MARIADB://ann@db/shop"),
        ("firebird", "firebird://ann@db/shop"),
    ],
)
def test_a_url_of_its_own_kind_is_accepted(tmp_path: Path, kind: str, url: str) -> None:
    assert errors_of(tmp_path, kind, url) == []
