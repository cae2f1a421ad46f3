"""A ledger that another runner creates at the same moment is not mistaken for a lost one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from waterclock.dpl.project import Project
from waterclock.engine import ledger_opening
from waterclock.engine.ledger_opening import open_ledger, open_or_create_ledger
from waterclock.errors import WaterclockError
from waterclock.operations.project_opening import open_project

if TYPE_CHECKING:
    from pathlib import Path

TOML = '[project]\nname = "demo"\n\n[env.dev]\nstorage = ".waterclock"\n'


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(TOML)
    (tmp_path / "flows" / "a.dpl").write_text("TRANSFORM a.b EVERY DAY START '2013-01-01' AS SELECT 1 AS x;")
    return open_project(tmp_path, "dev")


@pytest.mark.parametrize("is_created", [True, False])
def test_a_ledger_created_during_the_search_for_tables_is_opened(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_created: bool
) -> None:
    refuse_lost = ledger_opening.require_ledger_not_lost

    def first_let_another_run(of: Project) -> None:
        if is_created:
            open_or_create_ledger(of).close()
        (tmp_path / ".waterclock" / "tables" / "a" / "b" / "_delta_log").mkdir(parents=True)
        refuse_lost(of)

    monkeypatch.setattr(ledger_opening, "require_ledger_not_lost", first_let_another_run)
    if is_created:
        ledger = open_ledger(project)
        assert ledger is not None
        ledger.close()
    else:
        with pytest.raises(WaterclockError, match="E421 the ledger is gone"):
            open_ledger(project)
