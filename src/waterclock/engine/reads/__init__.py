"""What a batch reads: pinned states as frames, and the joins of FLAT."""

from __future__ import annotations
