"""Changes to a ledger: claims, completions, decisions, declarations, and the suspects that result from them."""

from __future__ import annotations
