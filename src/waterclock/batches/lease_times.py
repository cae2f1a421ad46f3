"""Decides whether a lease or a delay that the ledger stores still runs, also if its clock was set back."""

from __future__ import annotations

from datetime import datetime, timedelta

LONGEST_TURN = timedelta(hours=1)
"""An upper bound of the leases of senders, and of the delays before a next attempt."""


def is_pending(until: datetime | None, now: datetime) -> bool:
    """Return whether a lease or delay is still running at `now`. One that ends over an hour later is ignored.

    Such an end shows that the clock was set back.
    """
    return until is not None and now < until <= now + LONGEST_TURN


def has_lease_expired(until: datetime, now: datetime, lease_seconds: float) -> bool:
    """Return whether a lease that ends at `until` has expired at `now`.

    A live runner extends it three times per lease. If it ends more than two leases from now, the clock was set back
    and the runner has not extended it since.
    """
    return until < now or until - now > 2 * timedelta(seconds=lease_seconds)
