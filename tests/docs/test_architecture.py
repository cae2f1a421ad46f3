"""The map of docs/architecture.md, the recipes of CONTRIBUTING.md and docstrings of packages name existing modules."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "waterclock"
OVERVIEW = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
MAP = OVERVIEW.partition("## Modules")[2].partition("## Files")[0]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPES = CONTRIBUTING.partition("## Where to add code")[2].partition("\n## ")[0]
TOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
CONTRACTS = {contract["id"]: contract for contract in TOOLS["importlinter"]["contracts"]}
CONNECTORS = [f"connectors/{path.parent.name}" for path in sorted(SOURCE.glob("connectors/*/__init__.py"))]
_CODE = re.compile(r"`([^`]+)`")
_PATH = re.compile(r"[\w/.*<>-]*\w(/|\.py|\.css|\.toml)[\w/.*<>-]*")
_NAME = re.compile(r"[A-Za-z_]\w*(\.[a-z_]\w*)*")
_DEFINED = re.compile(r"^ *(?:def|class) (\w+)", re.MULTILINE)
DEFINED = {name for path in SOURCE.rglob("*.py") for name in _DEFINED.findall(path.read_text(encoding="utf-8"))}


@dataclass
class Resolved:
    """The files that a text names, and the names that were not found.

    A name without a folder is looked up in the last folder that was named, and then among functions and classes.
    """

    base: Path = SOURCE
    files: list[Path] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, text: str, base: Path = SOURCE) -> Resolved:
        found, names = cls(base), list[str]()
        folders = [base]
        for name in _CODE.findall(text):
            if files := found._resolve(name, folders):
                found.files += files
                folders.insert(0, files[0] if files[0].is_dir() else files[0].parent)
            elif _PATH.fullmatch(name):
                found.wrong.append(name)
            elif _NAME.fullmatch(name):
                names.append(name)
        sources = "".join(found._texts())
        known = {*DEFINED, *re.findall(r"\w+", sources), *(path.stem for path in SOURCE.iterdir()), "waterclock"}
        found.wrong += [name for name in names if not known.issuperset(name.split("."))]
        return found

    def _resolve(self, name: str, folders: list[Path]) -> list[Path]:
        pattern = re.sub(r"<\w+>", "*", name.rstrip("/"))
        if not re.fullmatch(r"[\w/.*-]+", pattern) or not re.search(r"[a-z]", pattern):
            return []
        places = [*folders, SOURCE, ROOT]
        if re.search(r"[/.]", name):
            within = [next(place.rglob(pattern), None) for place in folders] if "/" not in pattern else []
            found = [sorted(place.glob(pattern)) or sorted(place.glob(f"{pattern}.py")) for place in places]
            return next((files for files in found if files), [file for file in within if file is not None][:1])
        return [file for file in (folders[0] / f"{name}.py",) if file.exists()]

    def _texts(self) -> Iterator[str]:
        for file in self.files:
            for path in sorted(file.rglob("*.py")) if file.is_dir() else [file]:
                yield path.read_text(encoding="utf-8")


def rows_of_the_map() -> Iterator[tuple[str, Resolved]]:
    for section in re.split(r"^### ", MAP, flags=re.MULTILINE)[1:]:
        base = SOURCE / "connectors" if section.startswith("Connectors") else SOURCE
        for row in re.findall(r"^\| (?!Subject|---)(.*) \|$", section, re.MULTILINE):
            yield row, Resolved.of(row.replace("\\|", "/"), base)


def test_the_architecture_map_names_only_existing_modules() -> None:
    assert {row: found.wrong for row, found in rows_of_the_map() if found.wrong} == {}


def test_the_map_names_each_module_at_most_once() -> None:
    counts = Counter(file for _, found in rows_of_the_map() for file in {*found.files} if file.suffix == ".py")
    assert [str(file.relative_to(SOURCE)) for file, count in counts.items() if count > 1] == []
    assert len(counts) > 150


def test_contributing_recipes_name_only_existing_modules() -> None:
    steps = re.split(r"^(?:\d\.|\*\*)", RECIPES, flags=re.MULTILINE)
    assert {step: found.wrong for step in steps if (found := Resolved.of(step)).wrong} == {}


def test_contributing_lists_the_layers_in_their_order() -> None:
    layers = [re.findall(r"\w+", layer) for layer in CONTRACTS["layers"]["layers"]]
    level = {name: number for number, layer in enumerate(layers) for name in layer}
    [sentence] = re.findall(r"Imports go downward only: ([^.]*)\.", CONTRIBUTING)
    named = [word for word in re.findall(r"\w+", sentence) if word in level]
    assert [level[name] for name in named] == sorted(level[name] for name in named)
    assert {name for name in level if (SOURCE / name).is_dir()} <= {*named}


@pytest.mark.parametrize("page", [CONTRIBUTING, OVERVIEW], ids=["contributing", "architecture"])
def test_pages_list_the_packages_without_spark_and_databases(page: str) -> None:
    [sentence] = re.findall(r"([^.]*) import\s+neither Spark nor a database", page)
    pure = {name.removeprefix("waterclock.") for name in CONTRACTS["pure"]["source_modules"]}
    assert {*_CODE.findall(sentence)} == pure


STARTS = ["dpl/query", "planner", "storage/slices", "engine/maintenance"]


@pytest.mark.parametrize("package", ["specs", "connectors", *CONNECTORS, *STARTS])
def test_docstrings_of_packages_name_their_modules(package: str) -> None:
    folder = SOURCE / package
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    known = {path.stem for place in (folder, SOURCE / "connectors") for path in place.iterdir()}
    names = [name for name in _CODE.findall(docstring) if re.fullmatch(r"[a-z_0-9]+", name)]
    paths = [name for name in _CODE.findall(docstring) if "/" in name]
    assert [name for name in names if name not in known] == []
    assert [path for path in paths if not (SOURCE / f"{path}.py").exists()] == []
    assert package != "specs" or {"document", "spec_runner", "page"} <= {*names}
