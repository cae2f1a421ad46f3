"""What third parties test their parts of Waterclock with: the same suites that test its own. Needs pytest.

`connectors`    every connector; a collect BY ARRIVAL TIME of items, BY DATA TIME, without BY
`links`         a collect of another project's table
`looks`         a source that tells which windows changed (LOOKBACK … CHANGED)
`signs`         a source that tells that a window is complete (AWAIT)
`demands`       what all of these ask of secrets, and of reads that are cut half-way
`positions`     a collect BY ARRIVAL TIME of a log
`changes`       a collect BY CHANGES
`sealing`       a source that is its own clock, whose items are made as a run asks for them
`deliveries`    a destination
`specs`         the specifications of a project, each scenario as a test
"""

from __future__ import annotations

from pkgutil import iter_modules

import pytest

# a suite that fails in another package's tests shows its values as it does here
pytest.register_assert_rewrite(*(f"{__name__}.{module.name}" for module in iter_modules(__path__)))
