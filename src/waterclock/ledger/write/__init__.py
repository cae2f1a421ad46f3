"""What changes a ledger: claims, completions, decisions, declarations, and what they make suspect."""

from __future__ import annotations
