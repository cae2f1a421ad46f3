"""The page on specifications: its features are read, its commands print what it says, its programs run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.console import ROOT, commands_of, differences, session
from waterclock.connectors import capabilities
from waterclock.dpl import load_project
from waterclock.specs.parsing import read_feature
from waterclock.specs.reading import script_of
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
def test_the_page_prints_what_it_says_and_its_programs_run(tmp_path: Path) -> None:
    wrong = []
    with session(tmp_path) as shell:
        for command in commands_of(PAGE):
            printed = shell.run(command.text)
            if missing := differences(command.printed, printed):
                wrong.append("\n".join([f"$ {command.text}", *(f"- {line}" for line in missing), *printed]))
    assert not wrong, "\n\n".join(wrong)

    flights = tmp_path / "flights"
    notebook, tests = (body.replace("/tmp/flights", str(flights)) for body in blocks("py"))
    notebook = notebook.replace('"specs/', f'name="cancelled", files="{flights}/specs/')
    tests = tests.replace('/flights")', '/flights", name="cancelled")')
    (tmp_path / "test_page.py").write_text(tests, encoding="utf-8")
    (tmp_path / "page.py").write_text(f"{notebook}\nassert outcome.is_passed, outcome\n", encoding="utf-8")
    for arguments in (["page.py"], ["-m", "pytest", "-q", "-p", "no:randomly", "test_page.py"]):
        done = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
