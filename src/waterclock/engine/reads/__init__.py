"""The inputs of a batch: pinned states as frames, and the joins of FLAT."""

from __future__ import annotations
