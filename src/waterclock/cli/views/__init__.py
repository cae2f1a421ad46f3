"""What a person or a script is shown: text for a terminal, and JSON."""

from __future__ import annotations
