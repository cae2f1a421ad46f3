"""The flows of random lives are valid: `check` accepts them, and requires decisions for personal values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.life.drawing import Flow, drawn_flow, statements
from tests.life.keeping import add_apart
from tests.life.people import PEOPLE, SECRET, Apart, Tokens, is_personal
from tests.life.tokens import add_tokens, can_have_tokens
from tests.tiny import CONNECTIONS, TOML
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import check_project

API = 'connections.api = { url = "http://127.0.0.1:9" }\n'


def codes(root: Path, flow: Flow) -> list[tuple[str, str]]:
    """Return the errors of a flow."""
    (root / "flows").mkdir(exist_ok=True)
    (root / "secrets").mkdir(exist_ok=True)
    (root / "secrets" / "pii").write_text(SECRET, encoding="utf-8")
    api = API if any(table.answers for table in flow.values()) else ""
    toml = TOML.format(name="life", storage=".waterclock") + api + PEOPLE
    (root / "waterclock.toml").write_text(toml, encoding="utf-8")
    (root / "flows" / "flow.dpl").write_text(CONNECTIONS + statements(flow), encoding="utf-8")
    _, errors = check_project(root, capabilities=capabilities())
    return [(error.code, error.what) for error in errors]


@pytest.mark.slow
@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(300))
def test_a_drawn_flow_is_legal_and_decides_on_each_personal_value(tmp_path: Path, seed: int) -> None:
    flow = drawn_flow(Random(seed))
    assert codes(tmp_path, flow) == []
    undecided = {name: replace(table, decision="") for name, table in flow.items()}
    personal = [table.of for table in flow.values() if table.kind == "PUBLISH" and is_personal(flow, table.of)]
    assert [code for code, _ in codes(tmp_path, undecided)] == ["E381"] * len(personal)


@pytest.mark.slow
@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(120))
def test_a_flow_with_tokens_is_legal(tmp_path: Path, seed: int) -> None:
    flow = drawn_flow(Random(seed))
    plain = dict(flow)
    add_tokens(Random(seed), flow)
    assert codes(tmp_path, flow) == []
    assert any(table.has(Tokens) for table in flow.values()) == any(map(can_have_tokens, plain.values()))
    refused = {name: table for name, table in plain.items() if table.kind != "PUBLISH" and not can_have_tokens(table)}
    for name, table in refused.items():
        flow[name] = replace(table, parts=[*(it for it in table.parts if not it.of_key), Tokens()], has_texts=True)
        assert "E342" in {code for code, _ in codes(tmp_path, flow)}, name
        flow[name] = replace(table, has_texts=True)


@pytest.mark.slow
@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(120))
def test_a_flow_with_persons_apart_is_legal(tmp_path: Path, seed: int) -> None:
    flow = drawn_flow(Random(seed))
    if seed % 2:
        add_tokens(Random(seed), flow)
    plain = dict(flow)
    add_apart(Random(seed), flow)
    assert [table.has(Apart) for name, table in flow.items() if name not in plain] == [True, False]
    assert {name: flow[name] for name in plain} == plain
    assert codes(tmp_path, flow) == []
