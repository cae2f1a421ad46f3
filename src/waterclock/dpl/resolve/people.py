"""Resolves the sections `[roles]` and `[users]` of the project file: the rights of each user."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from datetime import timedelta

from waterclock.dpl.config.model import Config
from waterclock.errors import WaterclockError, did_you_mean
from waterclock.permissions.people import AccessRules, Right, User, expand_rights
from waterclock.timelabel.duration import parse_duration

_ROLE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,79}")


def resolve_access_rules(config: Config, errors: list[WaterclockError]) -> AccessRules:
    """Return the users of the project file with their rights; append all errors in the sections to `errors`."""
    roles = {name: _rights(config, name, errors) for name in config.roles}
    users = {name: _user(config, name, roles, errors) for name in config.users}
    return AccessRules(users, _proxies(config, errors), _keep(config, errors))


def _proxies(config: Config, errors: list[WaterclockError]) -> tuple[str, ...]:
    for said in config.sign_in.proxies:
        try:
            ipaddress.ip_network(said)
        except ValueError:
            errors.append(
                config.place_of_env(("sign_in", "proxies")).refuse(
                    "E941", f"{said!r} is not the address of a proxy",
                    why="headers of a proxy that is not named exactly could be sent by anyone",
                    fix='write an IP address or a network: proxies = ["10.0.0.7"]',
                )
            )  # fmt: skip
    return tuple(config.sign_in.proxies)


def _keep(config: Config, errors: list[WaterclockError]) -> timedelta:
    said = config.sign_in.keep_accesses
    try:
        keep = parse_duration(said).to_timedelta()
    except WaterclockError as error:
        keep, why = timedelta(), error.what
    else:
        why = "that is less than a day"
    if keep < timedelta(days=1):
        errors.append(
            config.place_of_env(("sign_in", "keep_accesses")).refuse(
                "E941", f"accesses cannot be recorded for {said}", why=why, fix='write "400 DAYS"'
            )
        )
    return keep


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
    return User(name, expand_rights(rights), said.attributes, frozenset(said.roles))
