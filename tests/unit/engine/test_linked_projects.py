"""Messages of a run about linked projects: errors, but no transient states."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from tests.ledgers import Desk, day, desk, table
from tests.model.flows import at, snapshot
from waterclock.batches.linked_projects import LinkFacts
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import Project, load_project
from waterclock.engine.linked_projects import Links, find_link_problems, link_errors
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Mode
from waterclock.planner.plan import Batch, Status
from waterclock.timelabel.window import Window


@pytest.mark.parametrize("is_passing", [True, False])
def test_only_permanent_problems_of_a_linked_project_are_reported_once_per_table(*, is_passing: bool) -> None:
    wrong = WaterclockError("E838", "the other project cannot be read", transient=is_passing)
    batches = tuple(
        Batch("here.a", Window(at(f"2013-01-0{day}"), at(f"2013-01-0{day + 1}")), Status.WAITING, "") for day in (1, 2)
    )
    found = find_link_problems({"here.a": LinkFacts("up.shop.a", problem=wrong)}, batches)
    assert found == ({} if is_passing else {"here.a": (batches[0], wrong)})


def linked(folder: Path, connection: str, other: str) -> Project:
    for name, text in (
        ("up", other),
        ("here", f"[project]\nname = 'here'\n[env.dev]\nconnections.up = {connection}\n"),
    ):
        (folder / name / "flows").mkdir(parents=True)
        (folder / name / "waterclock.toml").write_text(text)
    flow = "CREATE CONNECTION up TYPE waterclock;\nCOLLECT here.a PARTITIONED FROM up.shop.orders EVERY DAY "
    (folder / "here/flows/a.dpl").write_text(f"{flow}START '2024-01-01' BY DATA TIME timelabel;")
    return load_project(folder / "here", capabilities=capabilities())


@pytest.mark.parametrize("where", ["connection", "file of the other project"])
def test_check_contacts_no_server_of_another_project(tmp_path: Path, where: str) -> None:
    """Its ledger may be named by a connection, or by the other project's own file, which is not ours."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        ledger = f"postgresql://ann@127.0.0.1:{server.getsockname()[1]}/ledger"
        other = "[project]\nname = 'up'\n"
        if where == "connection":
            connection = f"{{ path = '../up', ledger = '{ledger}' }}"
        else:
            connection, other = "{ path = '../up' }", f"{other}[env.dev]\nledger = '{ledger}'\n"
        assert link_errors(linked(tmp_path, connection, other)) == []
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_folder_without_a_project_is_reported(tmp_path: Path) -> None:
    project = linked(tmp_path, "{ path = '../down' }", "[project]\nname = 'up'\n")
    [error] = link_errors(project)
    assert (error.code, "down" in str(error.why)) == ("E833", True)


class Upstream:
    """A collector of another project's table, which compares contents in that project's ledger."""

    def __init__(self, of: Desk) -> None:
        self.of = of

    def contents(self, _unit: object, spans: Sequence[tuple[datetime, datetime]]) -> list[str]:
        return [self.of.ledger.reads.content("orders", low, high) for low, high in spans]


@pytest.mark.parametrize("mode", [Mode.MERGE, Mode.APPEND])
def test_a_state_that_starts_earlier_in_the_other_project_is_collected_again(
    mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    up, here = desk(), desk()
    state = snapshot("orders_here")
    with up.ledger, here.ledger:
        up.apply(table("orders", mode=mode, keys=("id",) if mode is Mode.MERGE else (), start=day(5)))
        up.done("orders", 5)
        here.apply(state)
        read = replace(up.read("orders", 5, 6), table="up.orders", kind="state", changes=None)
        here.done("orders_here", 5, reads={5: [read]})
        links = Links(here.flow, connections=None)  # type: ignore[arg-type]  # nothing is resolved here
        monkeypatch.setattr("waterclock.engine.linked_projects.open_linked_source", lambda *_: (None, Upstream(up)))

        def changed() -> set[datetime]:
            past = up.ledger.reads.snapshot(up.flow)
            link = LinkFacts("up.orders", state.cadence, mode, past=past.of("orders"), sequence=past.sequence)
            return set(links._find_changed_labels(here.ledger, state, link))

        assert not changed()
        up.done("orders", 4, digest="0:0:0")
        assert not changed(), "there are no rows before"
        up.done("orders", 3)
        assert changed() == ({day(5)} if mode is Mode.MERGE else set())
