"""Tells people of what does not go on by itself: root causes, rules, messages, and the targets that take them."""

from __future__ import annotations
