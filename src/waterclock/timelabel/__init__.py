"""The clock: labels, windows, cadences and interval sets; pure, it never reads the time (docs/explain/time.md)."""

from __future__ import annotations
