"""Waterclock declares time-labelled data flows and carries them out on Spark and Delta."""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = ["__version__"]
