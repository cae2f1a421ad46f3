"""Resolves the sections `[roles]` and `[users]` of the project file: the rights of each user."""

from __future__ import annotations

import re
from collections.abc import Mapping

from waterclock.dpl.config.model import Config
from waterclock.errors import WaterclockError, did_you_mean
from waterclock.permissions.people import AccessRules, Right, User, expand_rights

_ROLE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,79}")


def resolve_access_rules(config: Config, errors: list[WaterclockError]) -> AccessRules:
    """Return the users of the project file with their rights; append all errors in the sections to `errors`."""
    roles = {name: _rights(config, name, errors) for name in config.roles}
    return AccessRules({name: _user(config, name, roles, errors) for name in config.users})


def _rights(config: Config, role: str, errors: list[WaterclockError]) -> frozenset[Right]:
    path = ("roles", role)
    if not _ROLE.fullmatch(role):
        what = f"{role!r} is not a valid name of a role"
        errors.append(config.place_of_env(path).refuse("E941", what, fix="use letters, digits, _ and -"))
    known = [right.value for right in Right]
    errors.extend(
        config.place_of_env(path).refuse(
            "E941", f"unknown right {right}", why=f"the rights are {', '.join(known)}",
            fix=did_you_mean(right, known, otherwise="leave it out"),
        )
        for right in config.roles[role] if right not in known
    )  # fmt: skip
    return expand_rights([Right(right) for right in config.roles[role] if right in known])


def _user(config: Config, name: str, roles: Mapping[str, frozenset[Right]], errors: list[WaterclockError]) -> User:
    said, path = config.users[name], ("users", name)
    if not _USER.fullmatch(name):
        errors.append(
            config.place_of_env(path).refuse(
                "E941", f"{name!r} is not a valid name of a user", why="the audit trail shows it",
                fix='use up to 80 letters, digits and _ . @ + -, in quotes: [users."anna@example.com"]',
            )
        )  # fmt: skip
    errors.extend(
        config.place_of_env((*path, "roles")).refuse(
            "E941", f"unknown role {role}",
            why=f"the roles are {', '.join(roles)}" if roles else "no role is declared",
            fix=did_you_mean(role, roles, otherwise=f'add {role} = ["look"] below [roles]'),
        )
        for role in said.roles if role not in roles
    )  # fmt: skip
    rights = [right for role in said.roles for right in roles.get(role, ())]
    return User(name, expand_rights(rights), said.attributes)
