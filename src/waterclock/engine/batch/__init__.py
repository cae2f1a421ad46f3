"""The life of a batch: made, sealed, audited, committed, recorded; tried again, taken over, published."""

from __future__ import annotations
