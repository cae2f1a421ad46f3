from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import tomllib
from itertools import count
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import waterclock

ROOT = Path(__file__).parents[2]

# concatenated here, so that this file does not contain the names it searches for
REGISTRY_HOSTS = [
    *("pypi" + ".org", "python" + "hosted", "maven" + ".org", "repo1" + ".", "maven" + "-central", "jcenter" + "."),
    *("npm" + "js", "crates" + ".io", "proxy.golang" + ".org", "deb.debian" + ".org", "conda" + ".io"),
]
MACHINE_PATHS = ["/" + "root/", "/" + "work/"]


def committed_texts() -> dict[str, str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    texts = {}
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if path.is_file() and path.stat().st_size < 5_000_000:
            texts[name] = path.read_bytes().decode("utf-8", "replace")
    return texts


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    found = committed_texts()
    assert "pyproject.toml" in found
    return found


@pytest.mark.parametrize("unwanted", REGISTRY_HOSTS + MACHINE_PATHS, ids=count())
def test_no_committed_file_names_a_registry_host_or_a_path_of_one_machine(texts: dict[str, str], unwanted: str) -> None:
    naming = [name for name, text in texts.items() if unwanted in text]
    assert naming == []


def imported_by(statement: str) -> set[str]:
    code = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


def test_import_waterclock_loads_no_heavy_package() -> None:
    heavy = {"pyspark", "sqlalchemy", "alembic", "deltalake", "pyarrow", "pydantic", "sqlglot", "pandas"}
    assert imported_by("import waterclock") & heavy == set()


def test_the_version_is_the_package_s() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert waterclock.__version__ == project["version"]


def test_the_locks_hold_each_dependency_with_hashes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    of_the_site = project["dependency-groups"].pop("docs")
    wishes = [
        *project["project"]["dependencies"],
        *(wish for of in project["dependency-groups"].values() for wish in of),
    ]
    locked = {}
    for path, wished in (("requirements.lock", wishes), ("docs/site/requirements.lock", of_the_site)):
        entries = (ROOT / path).read_text(encoding="ascii").replace("\\\n", "").splitlines()
        assert all("--hash=sha256:" in entry for entry in entries)
        locked[path] = {entry.partition(" ")[0] for entry in entries}
        names = {entry.partition("==")[0] for entry in locked[path]}
        assert {re.split(r"[\[=><]", wish, maxsplit=1)[0] for wish in wished} <= names
    of_both = {entry.partition("==")[0] for entry in locked["requirements.lock"]}
    shared = {entry for entry in locked["docs/site/requirements.lock"] if entry.partition("==")[0] in of_both}
    assert shared <= locked["requirements.lock"], "the site is built with the libraries that the package is tested with"


def test_the_lock_has_versions_that_the_dependencies_admit() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="ascii")
    locked = dict(re.findall(r"^([\w.-]+)==([^\s;]+)", lock, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wishes = [Requirement(wish) for wish in project["dependencies"]]
    assert [wish.name for wish in wishes if locked[wish.name] not in wish.specifier] == []
    [arrow] = [wish for wish in wishes if wish.name == "pyarrow"]
    assert "23.0.0" not in arrow.specifier, "CVE-2026-25087 was fixed in 23.0.1"


def test_the_classifiers_name_the_supported_pythons() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    supported = SpecifierSet(project["requires-python"])
    named = [version for one in project["classifiers"] if (version := one.rpartition(":: ")[2]).startswith("3.")]
    assert named == [version for version in (f"3.{minor}" for minor in range(8, 30)) if version in supported]


def test_a_release_has_absolute_links_and_urls_for_the_page_of_the_package() -> None:
    release = runpy.run_path(str(ROOT / "bin" / "release"))
    where = "https://code.example/team/waterclock"
    page = release["absolute_links"]((ROOT / "README.md").read_text(encoding="utf-8"), where, "0.1.0")
    assert all(link.startswith(f"{where}/") for link in re.findall(r"\]\(([^)]*)\)", page))
    assert "![The grid in a browser" in page
    assert f"({where}/raw/0.1.0/docs/images/ui-grid.png)" in page
    assert f"[CONTRIBUTING]({where}/blob/0.1.0/CONTRIBUTING.md)" in page
    text = release["with_urls"]((ROOT / "pyproject.toml").read_text(encoding="utf-8"), where, "0.1.0")
    urls = tomllib.loads(text)["project"]["urls"]
    assert urls["Repository"] == where
    assert all(url.startswith(where) for url in urls.values())


def test_scenario_y_all_packages_come_from_the_registry_that_pip_is_configured_with() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project, build = declared["project"], declared["build-system"]
    groups = [*project["optional-dependencies"].values(), *declared["dependency-groups"].values()]
    wishes = [*project["dependencies"], *build["requires"], *(wish for group in groups for wish in group)]
    assert [wish for wish in wishes if "@" in wish or "://" in wish] == []
    assert not {"sources", "index", "find-links"} & set(declared["tool"]["uv"])
    assert "backend-path" not in build, "no code of ours runs while it is built, and none can fetch anything"
    lock = (ROOT / "requirements.lock").read_text(encoding="ascii")
    assert "://" not in lock
    assert all("==" in entry.partition(" --hash")[0] for entry in lock.replace("\\\n", "").splitlines())


def test_the_jars_fit_the_pinned_spark() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="ascii")
    assert "\npyspark==4.2.0 " in lock
    dependencies = ET.parse(ROOT / "src/waterclock/engine/spark/ivy.xml").getroot().iter("dependency")
    coordinates = {(one.get("name"), one.get("rev"), one.get("transitive")) for one in dependencies}
    assert coordinates == {("delta-spark_4.2_2.13", "4.4.0", "false"), ("delta-storage", "4.4.0", "false")}
