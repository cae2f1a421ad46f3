"""The clock: labels, windows, cadences and interval sets; pure, it never reads the time (ARCHITECTURE 3)."""

from __future__ import annotations
