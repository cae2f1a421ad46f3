"""Creates access tokens, and checks their names, ends and rights. Pure functions."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Collection
from datetime import datetime, timedelta

from waterclock.errors import WaterclockError
from waterclock.permissions.users_and_roles import AccessRules, Right, expand_rights
from waterclock.similar_names import did_you_mean

PREFIX = "wct_"
"""The start of each token, by which scanners of code and logs recognize one."""
SEND_TO = f"{Right.SEND}:"
"""The start of a scope that limits the right to send to one stream: `send:connection/stream`."""
DAYS = 90
"""The days after which a token expires by default."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}")
_LENGTH = 200  # characters of a text that may be a token


def new_access_token() -> str:
    """Return the value of a new token. It cannot be guessed, so that its digest needs no salt and no slow hash."""
    return f"{PREFIX}{secrets.token_urlsafe(32)}"


def digest_of_token(sent: str) -> str | None:
    """Return the digest of a text that may be an access token, or None if it cannot be one."""
    if not sent.startswith(PREFIX) or len(sent) > _LENGTH:
        return None
    return hashlib.sha256(sent.encode("utf-8", "surrogateescape")).hexdigest()


def require_name(name: str) -> str:
    """Return the name of a token. Raises E942 if it is not a valid one."""
    if not _NAME.fullmatch(name):
        raise WaterclockError(
            "E942", f"{name[:80]!r} is not a valid name of a token", why="lists and the record of accesses show it",
            fix="use up to 80 letters, digits and _ . -",
        )  # fmt: skip
    return name


def streams_of_token(requested: str | None, streams: Collection[str]) -> tuple[str | None, tuple[str, ...]]:
    """Split the value of `--may` into rights and streams: `look,send:a.b` into `look,send` and `a.b`.

    Without a stream, the right `send` applies to all streams. Raises E942 for an unknown stream, or for `send` both
    with and without one.
    """
    names = [part.strip() for part in (requested or "").split(",")]
    found = sorted({name.removeprefix(SEND_TO) for name in names if name.startswith(SEND_TO)})
    if not found:
        return requested, ()
    for stream in found:
        if stream not in streams:
            raise WaterclockError(
                "E942", f"unknown stream {stream[:80]}",
                why=f"the streams are {', '.join(sorted(streams))}" if streams else "no table collects events",
                fix=did_you_mean(stream, streams, otherwise="write send:CONNECTION/STREAM"),
            )  # fmt: skip
    if Right.SEND in names:
        raise WaterclockError(
            "E942", "send is listed with a stream and without one", why="without a stream it allows all of them",
            fix="leave one of them out",
        )  # fmt: skip
    return ",".join((*(name for name in names if not name.startswith(SEND_TO)), Right.SEND)), tuple(found)


def rights_of_token(requested: str | None, user: str, rules: AccessRules) -> frozenset[Right]:
    """Return the rights of a token for a user: the listed ones, or else all that the user has now.

    Raises E942 for an unknown user or right, for a right that the user does not have, and if the token would have no
    right.
    """
    if user not in rules.users:
        raise WaterclockError(
            "E942", f"unknown user {user}",
            why=f"the users are {', '.join(rules.users)}" if rules.users else "the project declares no users",
            fix=did_you_mean(user, rules.users, otherwise=f"add [users.{user}] and its roles to waterclock.toml"),
        )  # fmt: skip
    has, known = rules.users[user].rights, [right.value for right in Right]
    if requested is None:
        found: Collection[Right] = has
    else:
        names = [part.strip() for part in requested.split(",") if part.strip()]
        for name in names:
            if name not in known:
                raise WaterclockError(
                    "E942", f"unknown right {name}", why=f"the rights are {', '.join(known)}",
                    fix=did_you_mean(name, known, otherwise="leave it out"),
                )  # fmt: skip
        found = [Right(name) for name in names]
    missing = expand_rights(found) - has
    if missing or not found:
        more = ", ".join(sorted(missing))
        raise WaterclockError(
            "E942", f"{user} does not have the right {more}" if missing else f"a token for {user} would have no right",
            why=f"a token never has more rights than its user: {user} has {', '.join(sorted(has)) or 'none'}",
            fix=f"list some of these with --may, or give {user} another role",
        )  # fmt: skip
    return frozenset(found)


def require_end(until: datetime | None, now: datetime) -> datetime:
    """Return the instant at which a token expires, by default after 90 days. Raises E942 if it is not in the future."""
    if until is None:
        return now + timedelta(days=DAYS)
    if until <= now:
        raise WaterclockError("E942", "the end of the token is in the past", fix="write a date in the future")
    return until
