"""States that slices are folded into: MERGE and TEMPORAL, restated in place."""

from __future__ import annotations
