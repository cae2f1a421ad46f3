"""What third parties test their parts of Waterclock with: the same suites that test its own. Needs pytest."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    "waterclock.testing.connectors", "waterclock.testing.deliveries", "waterclock.testing.positions"
)
