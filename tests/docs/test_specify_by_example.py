"""The page on specifications: its features are read, its commands print the output shown, and its programs run.

The commands and the notebook use the existing session; pytest is a process with its own Spark.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.console import ROOT, commands_of, failures, session
from tests.flights import put_flights
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.specs.feature_files import read_feature
from waterclock.specs.step_resolution import script_of
from waterclock.specs.steps import VOCABULARY

PAGE = (ROOT / "docs" / "howto" / "specify-by-example.md").read_text(encoding="utf-8")
FLIGHTS = ROOT / "examples" / "flights"
_BLOCK = re.compile(r"^```(gherkin|py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [body for said, body in _BLOCK.findall(PAGE) if said == language]


@pytest.mark.parametrize("body", blocks("gherkin"), ids=range(len(blocks("gherkin"))))
def test_features_on_the_page_are_right_for_the_flights(body: str) -> None:
    flow = load_project(FLIGHTS, capabilities=capabilities()).flow
    feature, errors = read_feature(body, "page.feature")

    assert errors == ()
    assert feature is not None
    assert [script_of(scenario, flow)[1] for scenario in feature.scenarios if script_of(scenario, flow)[1]] == []


def test_the_page_names_every_step_and_no_other() -> None:
    listed = {step.replace("T ", "TABLE ", 1) for step in re.findall(r"^\| `(T .*?)` \|", PAGE, re.MULTILINE)}
    listed |= {step.replace(" T ", " TABLE ", 1) for step in re.findall(r"^\| `(the .*?)` \|", PAGE, re.MULTILINE)}

    assert listed == set(VOCABULARY)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_the_commands_of_the_page_print_its_documented_output_and_its_notebook_runs(tmp_path: Path) -> None:
    with session(tmp_path, is_warm=True) as shell:
        wrong = failures(commands_of(PAGE), shell)
    assert not wrong, "\n\n".join(wrong)

    notebook, _ = programs(tmp_path / "flights")
    names: dict[str, Any] = {}
    exec(notebook.replace('"specs/', f'name="cancelled", files="{tmp_path}/flights/specs/'), names)
    assert names["outcome"].is_passed, names["outcome"]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.soak
def test_the_page_s_tests_run_under_pytest(tmp_path: Path) -> None:
    put_flights(tmp_path / "flights")
    _, tests = programs(tmp_path / "flights")
    (tmp_path / "test_page.py").write_text(
        tests.replace('/flights")', '/flights", name="cancelled")'), encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "test_page.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def programs(flights: Path) -> tuple[str, str]:
    """Return the page's notebook and its tests, on a project in a folder."""
    notebook, tests = (body.replace("/tmp/flights", str(flights)) for body in blocks("py"))
    return notebook, tests
