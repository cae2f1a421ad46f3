"""Finds credentials in plain text: in addresses of systems, and in lines of a project's files. Pure functions.

Names of settings are compared by their last part, so `auth.token` and `s3.secret_access_key` are found as well.
"""

from __future__ import annotations

import re

_NAMES = (
    "password", "passwd", "pwd", "passphrase", "token", "api_key", "apikey", "auth.key", "client_secret", "secret_key",
    "secret_access_key", "secret_id", "sslpassword", "secret.key",
)  # fmt: skip
_KEYS = r"key\.[\w-]{1,64}"
"""The options of connections of type keys, such as key.2026."""

_NAME = "|".join((*(re.escape(name) for name in _NAMES), _KEYS))
_QUOTED = re.compile(
    rf"(?<![A-Za-z])(?:{_NAME})(?:[\"'`]?\s*[=:]|\s)\s*"
    r"(?P<quote>[\"'])(?P<value>.{0,4000}?)(?:(?P=quote)|$)",
    re.IGNORECASE,
)
_BARE = re.compile(rf"(?<![A-Za-z])(?:{_NAME})\s*=\s*(?P<value>[^\s&'\"{{,)]+)", re.IGNORECASE)
_OF_USER = re.compile(r"://[^/\s:@'\"]{0,200}:(?P<value>[^\s'\"]{1,500})@")
_SETTING = re.compile(rf"(?:^|[\s?&;])(?:{_NAME})\s*=\s*[^\s&;]", re.IGNORECASE)
_USER = re.compile(r"://[^/\s:@]*:[^\s]+@")
# addresses of services whose webhooks have their key in the path
_HOOK = re.compile(
    r"://(?:hooks\.slack\.com|(?:[\w-]+\.)?discord(?:app)?\.com/api/webhooks|[\w-]+\.webhook\.office\.com)/"
    r"(?P<value>[^\s'\"]+)",
    re.IGNORECASE,
)
# names of Spark and Hadoop, as spark.ssl.keyPassword and fs.azure.account.key.HOST
_CONF = r"(?:\w(?:password|passphrase|token)|\.secret|fs\.azure\.(?:account\.key|sas)\.[\w.-]{1,300}+)"
_OF_CONF = re.compile(rf"{_CONF}$", re.IGNORECASE)
_QUOTED_CONF = re.compile(
    rf"{_CONF}[\"']?\s*=\s*(?P<quote>[\"'])(?P<value>.{{0,4000}}?)(?:(?P=quote)|$)", re.IGNORECASE
)
_SWITCHES = frozenset({"true", "false"})


def is_credential(name: str) -> bool:
    """Return whether a setting with this name contains a credential."""
    plain = name.lower()
    is_key = re.fullmatch(_KEYS, plain) is not None
    return is_key or any(plain == known or plain.endswith((f".{known}", f"_{known}")) for known in _NAMES)


def has_password(address: str) -> bool:
    """Return whether an address contains a password: after its user, as a parameter, or as one of libpq's settings."""
    return bool(_USER.search(address) or _SETTING.search(address))


def has_key(address: str) -> bool:
    """Return whether an address contains a password, or is that of a webhook with its key in the path."""
    return has_password(address) or bool(_HOOK.search(address))


def is_credential_conf(name: str, value: str) -> bool:
    """Return whether a setting of Spark or Hadoop contains a credential."""
    return value.lower() not in _SWITCHES and (is_credential(name) or bool(_OF_CONF.search(name)))


def hide_credentials(line: str) -> str:
    """Return a line of a project's file with its credentials replaced by stars; its length does not change."""
    for pattern in (_QUOTED, _QUOTED_CONF, _OF_USER, _HOOK, _BARE):
        line = pattern.sub(_mask_match, line)
    return line


def _mask_match(match: re.Match[str]) -> str:
    start, end = match.span("value")
    begin = match.start()
    whole = match[0]
    return f"{whole[: start - begin]}{'*' * (end - start)}{whole[end - begin :]}"
