"""Fingerprints of code are stored in ledgers: the same declarations have the same ones in each release.

After a change that must restate every table, run `UPDATE_CASES=1 python -m pytest tests/language/test_fingerprints.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flights import put_flights
from tests.language.cases import HERE
from tests.language.test_accepted import FOLDER, project_of
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.flow.declarations import Flow

GOLDEN = HERE / "fingerprints.txt"
FLIGHTS = "examples/flights"


def fingerprints_of(flow: Flow) -> Iterator[str]:
    yield f"flow {flow.fingerprint}"
    for name, table in flow.tables.items():
        yield f"{name} {table.fingerprint} {table.code_before}".rstrip()


def golden() -> dict[str, str]:
    texts = GOLDEN.read_text(encoding="utf-8").split("# ") if GOLDEN.exists() else []
    return {name: lines for name, _, lines in (text.partition("\n") for text in texts) if name}


def flow_of(name: str, root: Path) -> Flow:
    if name == FLIGHTS:
        return load_project(put_flights(root / "flights"), capabilities=capabilities()).flow
    return project_of(name, root).flow


@pytest.mark.parametrize("name", [FLIGHTS, *sorted(path.name for path in FOLDER.glob("*.dpl"))])
def test_fingerprints_are_those_of_earlier_releases(name: str, tmp_path: Path) -> None:
    found = "\n".join(fingerprints_of(flow_of(name, tmp_path))) + "\n"
    known = golden()
    if os.environ.get("UPDATE_CASES"):
        known[name] = found
        GOLDEN.write_text("".join(f"# {each}\n{lines}" for each, lines in sorted(known.items())), encoding="utf-8")
    assert found == known[name]
