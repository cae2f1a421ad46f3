"""The version of the JSON that commands and pages return."""

from __future__ import annotations

JSON_VERSION = 1  # raised if a key is removed or changes its meaning; a new key does not raise it
