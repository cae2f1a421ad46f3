"""Parses HTTP response headers: server time, `Retry-After` and the `Link` to the next page. Pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from waterclock.http.client import HttpResponse

RETRYABLE_STATUSES = frozenset({408, 425, 429})
# the quantifiers are possessive, so that any header is parsed in linear time
_LINK = re.compile(r"<([^<>]*+)>((?:\s*+;\s*+[\w*]++\s*+(?:=\s*+(?:\"[^\"]*+\"|[^\s,;\"]++))?+)*+)")
_REL = re.compile(r";\s*rel\s*=\s*(?:\"([^\"]*)\"|([^;,\s]+))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Response(HttpResponse):
    """A complete response of an API."""

    @property
    def is_good(self) -> bool:
        """True if the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def is_not_found(self) -> bool:
        """True if the resource does not exist (404 or 410)."""
        return self.status in {404, 410}

    @property
    def is_retryable(self) -> bool:
        """True if a retry of the same request may succeed: 408, 425, 429 and 5xx except 501 and 505."""
        return self.status in RETRYABLE_STATUSES or (self.status >= 500 and self.status not in {501, 505})

    @property
    def date(self) -> datetime | None:
        """The server's clock, from the header Date, in whole seconds."""
        return date_of(self.headers.get("date"))

    def seconds_to_wait(self, now: datetime) -> float | None:
        """Return the seconds to wait according to Retry-After; None if the header is missing or invalid.

        If Retry-After is a date, it is compared with the header Date, as both are from the server's clock, which may be
        wrong.
        """
        retry_after = self.headers.get("retry-after", "").strip()
        if re.fullmatch(r"\d+(\.\d+)?", retry_after):
            return float(retry_after)
        until = date_of(retry_after)
        return None if until is None else max(0.0, (until - (self.date or now)).total_seconds())

    @property
    def next_link(self) -> str | None:
        """The address of the next page in the header Link; None if there is none."""
        for address, parameters in _LINK.findall(self.headers.get("link", "")):
            rels = " ".join(quoted or plain for quoted, plain in _REL.findall(parameters)).lower().split()
            if "next" in rels:
                return str(address)
        return None


def date_of(text: str | None) -> datetime | None:
    """Parse a date in HTTP format; None if the text is not one."""
    try:
        found = parsedate_to_datetime(text or "")
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None
