"""Reads declarations in Python: loads the files, makes the same statements of them, fingerprints functions."""

from __future__ import annotations
