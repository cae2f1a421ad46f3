from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.dpl.python.loader import forget, isolate_imports, project_modules, run_file

if TYPE_CHECKING:
    import pytest


def lay(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def test_two_projects_with_modules_of_one_name_do_not_see_each_other(tmp_path: Path) -> None:
    found = []
    for name in ("one", "other"):
        root = lay(
            tmp_path / name, flows__a="from flows.b import NAME\nimport c\n", flows__b=f"NAME = {name!r}\n", c=""
        )
        with isolate_imports(root):
            found.append(run_file(root / "flows" / "a.py", root).NAME)
    assert found == ["one", "other"]


def test_nothing_is_left_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = lay(tmp_path, flows__a="import flows.b\nimport sys\nsys.path.append('x')\nprint('hello')\n", flows__b="")
    path, modules = list(sys.path), set(sys.modules)
    with isolate_imports(root):
        run_file(root / "flows" / "a.py", root)
        assert {module.__name__ for module in project_modules(root)} == {"flows.b"}
    assert (sys.path, set(sys.modules)) == (path, modules)
    assert not list(root.rglob("__pycache__"))
    assert capsys.readouterr() == ("", "hello\n")


def test_previously_imported_modules_are_restored_after_loading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = lay(tmp_path, a="import b\nNAME = b.NAME\n", b="NAME = 1\n")
    monkeypatch.syspath_prepend(str(root))
    with isolate_imports(root):
        run_file(root / "a.py", root)
    monkeypatch.setitem(sys.modules, "b", sys)
    with isolate_imports(root):
        assert run_file(root / "a.py", root).NAME == 1
    assert sys.modules["b"] is sys


def test_relative_imports_mean_the_files_beside(tmp_path: Path) -> None:
    root = lay(tmp_path, flows__daily__a="from .b import NAME\nfrom ..c import OTHER\n", flows__daily__b="NAME = 1\n")
    lay(root, flows__c="OTHER = 2\n")
    with isolate_imports(root):
        module = run_file(root / "flows" / "daily" / "a.py", root)
    assert (module.NAME, module.OTHER) == (1, 2)


def test_dataclasses_find_their_module_while_a_file_runs(tmp_path: Path) -> None:
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass, InitVar\n"
        "@dataclass\nclass A:\n    b: InitVar[int]\n    c: int = 1\n"
    )
    root = lay(tmp_path, flows__a=text)
    with isolate_imports(root):
        assert run_file(root / "flows" / "a.py", root).A(1).c == 1


def test_a_change_is_seen_at_once(tmp_path: Path) -> None:
    for name in ("one", "two"):
        root = lay(tmp_path, a="from b import NAME\n", b=f"NAME = {name!r}\n")
        with isolate_imports(root):
            found = run_file(root / "a.py", root).NAME
            assert found == name


def test_forgotten_modules_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = []
    for name in ("one", "two"):
        root = lay(tmp_path, forgotten_a="from forgotten_b import NAME\n", forgotten_b=f"NAME = {name!r}\n")
        forget(root)
        found.append(run_file(root / "forgotten_a.py", root).NAME)
    assert found == ["one", "two"]
    forget(tmp_path)
    assert "forgotten_b" not in sys.modules
