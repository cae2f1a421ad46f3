"""Carries out commands with planner, ledger and engine. The views print the results."""

from __future__ import annotations
