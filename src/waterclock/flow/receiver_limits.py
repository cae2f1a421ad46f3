"""The limits of a receiver for the size of requests, in bytes: the defaults of its options, and the largest value."""

from __future__ import annotations

MAX_BODY = 1 << 20  # default of the option max_body
LARGEST_MAX_BODY = 16 << 20
MAX_WAITING = 64 << 20  # default of the option max_waiting
