"""Conformance suites for third-party connectors: the same suites that test Waterclock's own. Needs pytest.

`connectors`    every connector; a collect BY ARRIVAL TIME of items, BY DATA TIME, without BY
`links`         a collect of a linked project's table
`change_scans`  a source that reports which windows changed (LOOKBACK … CHANGED)
`completeness`  a source that reports that a window is complete (AWAIT)
`requirements`  tests in all these suites that secrets are not shown, and that an interrupted read returns nothing
`positions`     a collect BY ARRIVAL TIME of a log
`changes`       a collect BY CHANGES
`sealing`       a source that is its own clock, and whose items are created when a run requests them
`deliveries`    a destination
`specs`         the specifications of a project, each scenario as a test
"""

from __future__ import annotations

from pkgutil import iter_modules

import pytest

# pytest then shows the values of failed assertions of the suites in other packages, too
pytest.register_assert_rewrite(*(f"{__name__}.{module.name}" for module in iter_modules(__path__)))
