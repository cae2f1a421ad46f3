"""A large project's flow is compiled once and cached, and never reused after a change of its inputs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.language.cases import CAPABILITIES, KNOWN, SETTINGS
from waterclock.dpl import project_cache
from waterclock.dpl.project import Project, load_project
from waterclock.dpl.resolve import compile  # noqa: A004 - the module of that name
from waterclock.errors import ProjectErrors

MANY = "".join(f"TRANSFORM marts.t{n} AS SELECT id, amount FROM raw.orders;\n" for n in range(30))
PROD = (
    SETTINGS
    + '[env.prod]\nconnections.out = { path = "out", token = { secret = "out/token" } }\n'
    + "\n".join(f'connections.{name} = {{ path = "x" }}' for name in ("landing", "ops"))
)


class Place:
    """A project in its own folder, with a cache next to it, and the number of compilations.

    It has 33 tables, which are cached here; otherwise only flows of a hundred tables are.
    """

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root, self.cache, self.compiled = root / "project", root / "cache", 0
        patch.setenv("XDG_CACHE_HOME", str(self.cache))
        patch.setattr(project_cache, "_WORTH_IT", 30)
        patch.setattr(compile, "compile_flow", self._counted(compile.compile_flow))
        self.write("waterclock.toml", PROD)
        self.write("flows/known.dpl", KNOWN)
        self.write("flows/many.dpl", MANY)

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def compiled(*arguments: Any, **named: Any) -> Any:
            self.compiled += 1
            return real(*arguments, **named)

        return compiled

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text, encoding="utf-8")

    def load(self, env: str = "dev") -> Project:
        return load_project(self.root, env=env, capabilities=CAPABILITIES)

    @property
    def kept(self) -> list[Path]:
        return [path for path in self.cache.rglob("*") if path.is_file()]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, monkeypatch)


def test_unchanged_files_are_compiled_once_with_equal_results(place: Place) -> None:
    first, second = place.load(), place.load()
    assert first == second
    assert first.flow.tables["marts.t7"].query == second.flow.tables["marts.t7"].query
    assert place.compiled == 1
    assert len(place.kept) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("flows/many.dpl", MANY.replace("id, amount", "id, 2 * amount AS amount")),
        ("flows/more.dpl", "TRANSFORM marts.more AS SELECT id FROM raw.orders;"),
        ("waterclock.toml", PROD.replace("late_minutes = 15", "late_minutes = 16")),
    ],
)
def test_a_changed_file_is_compiled_again(place: Place, name: str, text: str) -> None:
    before = place.load()
    place.write(name, text)
    after = place.load()
    assert place.compiled == 2
    assert before.flow != after.flow
    assert after == place.load()
    assert place.compiled == 2


def test_a_removed_file_is_noticed(place: Place) -> None:
    place.write("flows/more.dpl", "TRANSFORM marts.more AS SELECT id FROM raw.orders;")
    assert "marts.more" in place.load().flow.tables
    (place.root / "flows/more.dpl").unlink()
    assert "marts.more" not in place.load().flow.tables


def test_a_change_of_waterclocks_code_compiles_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.load()
    monkeypatch.setattr(project_cache, "_SOURCES", ())
    place.load()
    assert place.compiled == 2


def test_every_waterclock_module_loaded_for_compiling_is_part_of_the_cache_key() -> None:
    code = (
        "import sys; from waterclock.dpl import project_cache, project; from waterclock.dpl.resolve import compile; "
        "loaded = [m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'waterclock']; "
        "known = ' '.join(project_cache._code(project_cache._SOURCES)); "
        "print(len(loaded) > 50, [file for file in loaded if file + ' ' not in known])"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout.strip() == "True []"


def test_changed_capabilities_compile_again(place: Place) -> None:
    place.load()
    load_project(place.root, env="dev", capabilities={name: CAPABILITIES[name] for name in ("files", "sqlite")})
    assert place.compiled == 1 + (set(CAPABILITIES) != {"files", "sqlite"})


def test_environments_are_cached_separately_and_a_removed_secret_is_reported(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATERCLOCK_SECRET_OUT_TOKEN", "x")
    for env in ("dev", "prod", "dev", "prod"):
        assert place.load(env).env == env
    assert place.compiled == 2
    monkeypatch.delenv("WATERCLOCK_SECRET_OUT_TOKEN")
    with pytest.raises(ProjectErrors) as raised:
        place.load("prod")
    assert [error.code for error in raised.value.errors] == ["E225"]


def test_a_removed_secret_of_the_ledger_is_reported(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write("waterclock.toml", PROD.replace("[env.prod]\n", '[env.prod]\nledger = { secret = "db" }\n'))
    for name in ("OUT_TOKEN", "DB"):
        monkeypatch.setenv(f"WATERCLOCK_SECRET_{name}", "x")
    assert place.load("prod").ledger == place.load("prod").ledger
    assert place.compiled == 1
    monkeypatch.delenv("WATERCLOCK_SECRET_DB")
    with pytest.raises(ProjectErrors) as raised:
        place.load("prod")
    assert [error.code for error in raised.value.errors] == ["E225"]


def test_the_default_environment_is_cached_separately_from_the_same_one_when_requested(place: Place) -> None:
    chosen = load_project(place.root, capabilities=CAPABILITIES)
    assert chosen == load_project(place.root, capabilities=CAPABILITIES)
    assert place.load(chosen.env) == chosen
    assert place.compiled == 2


@pytest.mark.parametrize("damage", [b"", b"nothing of ours", None])
def test_a_damaged_cache_file_is_ignored_and_replaced(place: Place, damage: bytes | None) -> None:
    first = place.load()
    (kept,) = place.kept
    kept.write_bytes(kept.read_bytes()[:-100] if damage is None else damage)
    assert place.load() == first
    assert place.compiled == 2
    assert place.load() == first
    assert place.compiled == 2


def test_where_nothing_can_be_kept_all_is_as_before(place: Place) -> None:
    place.cache.write_text("a file in the way")
    assert place.load() == place.load()
    assert place.compiled == 2


def test_another_users_file_is_not_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.load()
    mine = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    place.load()
    assert place.compiled == 2


def test_small_projects_and_those_with_python_are_read_each_time(place: Place) -> None:
    place.write("flows/more.py", "import waterclock as wc\n")
    place.load()
    (place.root / "flows/more.py").unlink()
    place.write("flows/many.dpl", "".join(MANY.splitlines(keepends=True)[:20]))
    place.load()
    assert place.kept == []


@pytest.mark.parametrize("tables", [99, 100])
def test_a_hundred_tables_are_worth_a_file(place: Place, monkeypatch: pytest.MonkeyPatch, tables: int) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(place.cache))
    kept = project_cache.CachedProject((), b"", "project")
    project_cache.write_cached_project(place.root, "dev", b"key", kept, tables)
    assert project_cache.read_cached_project(place.root, "dev", b"key") == (kept if tables == 100 else None)


def test_errors_are_reported_on_every_load_and_never_cached(place: Place) -> None:
    place.write("flows/more.dpl", "TRANSFORM marts.more AS SELECT id FROM raw.nothing;")
    for _ in range(2):
        with pytest.raises(ProjectErrors):
            place.load()
    assert place.kept == []


def test_cache_files_that_were_not_used_for_long_are_removed(place: Place) -> None:
    old = place.cache / "waterclock" / "flows" / "old"
    old.parent.mkdir(parents=True)
    old.write_bytes(b"")
    os.utime(old, (0, 0))
    place.load()
    assert old not in place.kept
    assert len(place.kept) == 1
