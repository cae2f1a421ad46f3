"""Error codes of users, roles, rights, access tokens and sessions."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

ACCESS: Mapping[str, Code] = {
    "E940": Code(
        "missing right",
        "The person has no right to do this. Rights are look, query, run, release, erase and administer. A user has "
        "the rights of all their roles, which waterclock.toml declares. An access token can have fewer.",
    ),
    "E941": Code(
        "invalid role or user",
        "The sections [roles] and [users] declare who may do what. A role is a list of rights, and a user has a list "
        "of roles. The name of a right or a role is unknown, or a name is not valid.",
    ),
}
