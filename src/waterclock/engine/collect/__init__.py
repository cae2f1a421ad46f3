"""What a source has, and the rows of it that belong to a batch."""

from __future__ import annotations
