"""What every test of the project shares: a repeatable hypothesis profile for CI."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# CI repeats a run exactly; at a desk the examples are new each time. The machine's speed is no finding.
settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("desk", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci" if os.environ.get("CI") else "desk")
