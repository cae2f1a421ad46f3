"""Sealed slices: written once, each with a manifest; checked, digested and read."""

from __future__ import annotations
