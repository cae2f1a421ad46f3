"""The connector of DuckDB databases."""

from __future__ import annotations
