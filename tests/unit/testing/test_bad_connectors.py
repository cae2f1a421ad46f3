"""Every requirement of the public suites can fail: a connector with a defect fails the tests of that requirement."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.testing import memory  # so that the inner tests need not import it

pytest_plugins = ["pytester"]

INNER = """
import pytest
from tests.unit.testing.memory import Memory
from waterclock.testing import requirements
from waterclock.testing.{module} import {suite}

@pytest.fixture
def spark():
    return None

class TestIt({suite}):
    @pytest.fixture(params={faults!r})
    def system(self, tmp_path, request, monkeypatch):
        if request.param == "tells late":
            monkeypatch.setattr(requirements, "SOON", 0.05)
        return Memory(request.param, tmp_path)
"""
SECRET, CUT, SCHEMA = "test_a_wrong_secret", "test_an_interrupted_read", "test_the_schema_is_known"
COME, REVISED, NOTHING = (
    "test_the_window_of_a_new_row",
    "test_the_window_of_a_changed_row",
    "test_nothing_has_changed",
)
SEEN, LATER, ASKED = (
    "test_a_completion_mark_is_found_after_it_is_set",
    "test_a_completion_mark_does_not_count_for_a_later_window",
    "test_checking_for_completion_marks_changes_nothing",
)
REFUSALS = {
    fault: {SECRET}
    for fault in (
        "lets anybody in",
        "shows it",
        "shows it in Base64",
        "shows it in what caused the error",
        "names no connection",
        "raises its client's error",
        "tells two errors",
        "tells late",
    )
}
FAULTS: Mapping[tuple[str, str], Mapping[str, set[str]]] = {
    ("connectors", "SnapshotConformance"): {
        **REFUSALS,
        "mends nothing": {SECRET, CUT},
        "gives half": {CUT},
        "loses what was cut": {CUT},
        "explains nothing": {CUT},
        "shows it when it is cut": {CUT},
        "shows it in the manifest": {
            SECRET,
            CUT,
            "test_all_rows_are_read",
            "test_a_snapshot_has_only_the_current_rows",
        },
        "logs it": {SECRET, CUT, "test_all_rows_are_read", "test_a_snapshot_has_only_the_current_rows"},
        "shows it in what it gives": {SCHEMA},
        "says no columns": {SCHEMA},
        "says other columns": {SCHEMA},
    },
    ("connectors", "ArrivalConformance"): {
        "lets anybody in": {SECRET},
        "shows it": {SECRET},
        "archives for a stranger": {SECRET},
        "gives half": {CUT},
        "loses what was cut": {CUT},
        "archives what it reads": {CUT},
    },
    ("connectors", "WindowConformance"): {
        "lets anybody in": {SECRET},
        "shows it": {SECRET},
        "gives half": {CUT},
        "loses what was cut": {CUT},
    },
    ("positions", "PositionConformance"): {
        "lets anybody in": {SECRET},
        "shows it": {SECRET},
        "gives half": {CUT},
        "loses what was cut": {CUT},
    },
    ("deliveries", "DeliveryConformance"): {
        "lets anybody in": {SECRET},
        "shows it": {SECRET},
        "delivers before it is let in": {SECRET},
    },
    ("completeness", "CompletenessConformance"): {
        "lets anybody in": {SECRET},
        "takes a refusal for a missing sign": {SECRET},
        "sees every sign": {SEEN, LATER},
        "sees any sign": {LATER},
        "sees no sign": {SEEN, ASKED},
        "takes signs away": {ASKED},
    },
    ("change_scans", "ChangeScanConformance"): {
        "lets anybody in": {SECRET},
        "says what was never looked at": {"test_windows_that_were_never_read"},
        "says all": {COME, REVISED, NOTHING, "test_a_change_missed"},
        "says none": {COME, REVISED, "test_a_change_missed"},
        "says no why": {COME},
        "remembers looks by itself": {"test_a_scan_does_not_consume_changes", "test_a_change_missed"},
    },
}
CHOSEN = (
    *(SECRET, CUT, SCHEMA, COME, REVISED, NOTHING, SEEN, LATER, ASKED),
    *(
        "test_all_rows_are_read",
        "test_a_snapshot_has_only",
        "test_windows_that_were_never_read",
        "test_a_change_missed",
        "test_a_scan_does_not",
    ),
)
"""Tests of the suites that memory can run: without Spark, and only of its features."""


@pytest.mark.parametrize(("module", "suite"), FAULTS)
@pytest.mark.slow
def test_a_bad_connector_fails_exactly_the_tests_of_its_fault_and_a_good_one_none(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, module: str, suite: str
) -> None:
    assert memory.Memory().fault == ""
    monkeypatch.setenv("PYTEST_ADDOPTS", "")
    wanted = FAULTS[module, suite]
    pytester.makepyfile(INNER.format(module=module, suite=suite, faults=["", *wanted]))
    chosen = " or ".join(CHOSEN)
    run = pytester.inline_run("-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-k", chosen)
    passed, _, failed = run.listoutcomes()
    found: dict[str, set[str]] = {fault: set() for fault in ["", *wanted]}
    for report in failed:
        name, _, fault = report.nodeid.rpartition("::")[2].removesuffix("]").partition("[")
        found[fault].add(name)
    known = {test for tests in wanted.values() for test in tests}
    assert any(report.nodeid.endswith("[]") for report in passed)
    assert {
        fault: {next((it for it in known if name.startswith(it)), name) for name in names}
        for fault, names in found.items()
    } == {"": set(), **wanted}
