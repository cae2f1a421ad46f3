"""CHANGED is refused for a source type that cannot report changes, with the clause to use instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.language.cases import CAPABILITIES, SETTINGS
from waterclock.dpl.project import load_project
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import Capabilities
from waterclock.flow.enums import Batching


def test_changed_is_refused_for_a_connector_that_cannot_report_changed_windows(tmp_path: Path) -> None:
    (tmp_path / "waterclock.toml").write_text(SETTINGS)
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "flow.dpl").write_text(
        "CREATE CONNECTION landing TYPE files; CREATE CONNECTION ops TYPE mute; CREATE CONNECTION out TYPE files;"
        "COLLECT raw.a PARTITIONED FROM ops.a EVERY DAY START '2024-01-01' BY DATA TIME t LOOKBACK 3 DAYS CHANGED;"
    )
    mute = Capabilities("mute", CAPABILITIES["sqlite"].connection_options, collects=frozenset(Batching))
    with pytest.raises(WaterclockError) as refused:
        load_project(tmp_path, capabilities={**CAPABILITIES, "mute": mute})
    assert "E248 mute cannot report which windows changed" in str(refused.value)
    assert "LOOKBACK 3 DAYS without CHANGED, which reads all windows" in str(refused.value)
