"""Resolves the sections `[roles]`, `[users]` and `[sign_in]` of the project file: users, their rights, and sign-in."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from urllib.parse import urlsplit

from waterclock.dpl.config.model import Config
from waterclock.dpl.config.secret_setting import SecretSetting
from waterclock.errors import WaterclockError
from waterclock.permissions.users_and_roles import (
    AccessRules,
    AttributeClaim,
    ClaimType,
    OidcSettings,
    Right,
    User,
    expand_rights,
    is_user_name,
)
from waterclock.similar_names import did_you_mean
from waterclock.timelabel.duration import parse_duration

_ROLE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}")  # of RFC 6749


def resolve_access_rules(config: Config, errors: list[WaterclockError]) -> AccessRules:
    """Return the users and sign-in settings of the project file. Append all errors in the sections to `errors`.

    An invalid entry gives no right: an unknown role is left out, and an invalid provider is None.
    """
    roles = {name: _rights(config, name, errors) for name in config.roles}
    users = {name: _user(config, name, roles, errors) for name in config.users}
    return AccessRules(users, _proxies(config, errors), _keep(config, errors), _oidc(config, roles, errors))


def _oidc(config: Config, roles: Mapping[str, frozenset[Right]], errors: list[WaterclockError]) -> OidcSettings | None:
    section, path = config.sign_in.oidc, ("sign_in", "oidc")
    if section is None:
        return None
    for group, names in section.group_roles.items():
        _check_roles(config, (*path, "group_roles", group), names, roles, errors)
    before = len(errors)

    def refuse(key: str, what: str, *, why: str | None = None, fix: str) -> None:
        errors.append(config.place_of_env((*path, key)).refuse("E945", what, why=why, fix=fix))

    if why := _refuse_issuer(section.issuer):
        refuse("issuer", "the issuer is not an address of a provider", why=why, fix='write "https://login.example"')
    if not section.client_id:
        refuse("client_id", "client_id is empty", fix="write the id that the provider gave to Waterclock")
    for scope in section.scopes:
        if not _SCOPE.fullmatch(scope):
            refuse("scopes", f"{scope!r} is not a scope", fix='write each scope alone: ["email", "groups"]')
    for name, attribute in section.attributes.items():
        if not attribute.claim:
            fix = f'name the claim of the ID token: attributes.{name} = "..."'
            refuse("attributes", f"the attribute {name} has no claim", fix=fix)
    if len(errors) > before:
        return None
    secret = section.client_secret.secret if isinstance(section.client_secret, SecretSetting) else None
    rights = {
        group: expand_rights([right for name in names for right in roles.get(name, ())])
        for group, names in section.group_roles.items()
    }
    given = {group: frozenset(names) for group, names in section.group_roles.items()}
    attributes = {name: AttributeClaim(each.claim, ClaimType(each.type)) for name, each in section.attributes.items()}
    return OidcSettings(
        section.issuer,
        section.client_id,
        secret,
        tuple(section.scopes),
        section.user_claim,
        section.group_claim,
        rights,
        given,
        attributes,
    )


def _refuse_issuer(issuer: str) -> str | None:
    """Return the reason why a text is not a valid issuer URL; None if it is one."""
    try:
        parts = urlsplit(issuer)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "it is not an address"
    if not host or parts.username is not None or parts.query or parts.fragment or not issuer.isascii():
        return "an issuer is an address without user, query and fragment"
    if parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK):
        return None
    return "over http://, anyone on the way could sign in as any user; it is accepted for loopback only"


def _proxies(config: Config, errors: list[WaterclockError]) -> tuple[str, ...]:
    for proxy in config.sign_in.proxies:
        try:
            ipaddress.ip_network(proxy)
        except ValueError:
            errors.append(
                config.place_of_env(("sign_in", "proxies")).refuse(
                    "E941", f"{proxy!r} is not the address of a proxy",
                    why="headers of a proxy that is not named exactly could be sent by anyone",
                    fix='write an IP address or a network: proxies = ["10.0.0.7"]',
                )
            )  # fmt: skip
    return tuple(config.sign_in.proxies)


def _keep(config: Config, errors: list[WaterclockError]) -> timedelta:
    text = config.sign_in.keep_accesses
    try:
        keep = parse_duration(text).to_timedelta()
    except WaterclockError as error:
        keep, why = timedelta(), error.what
    else:
        why = "that is less than a day"
    if keep < timedelta(days=1):
        errors.append(
            config.place_of_env(("sign_in", "keep_accesses")).refuse(
                "E941", f"accesses cannot be recorded for {text}", why=why, fix='write "400 DAYS"'
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
    section, path = config.users[name], ("users", name)
    if not is_user_name(name):
        errors.append(
            config.place_of_env(path).refuse(
                "E941", f"{name!r} is not a valid name of a user", why="the audit trail shows it",
                fix='use up to 80 letters, digits and _ . @ + | : -, in quotes: [users."anna@example.com"]',
            )
        )  # fmt: skip
    _check_roles(config, (*path, "roles"), section.roles, roles, errors)
    rights = [right for role in section.roles for right in roles.get(role, ())]
    return User(name, expand_rights(rights), section.attributes, frozenset(section.roles))


def _check_roles(
    config: Config,
    path: tuple[str, ...],
    names: Sequence[str],
    roles: Mapping[str, frozenset[Right]],
    errors: list[WaterclockError],
) -> None:
    errors.extend(
        config.place_of_env(path).refuse(
            "E941", f"unknown role {role}",
            why=f"the roles are {', '.join(roles)}" if roles else "no role is declared",
            fix=did_you_mean(role, roles, otherwise=f'add {role} = ["look"] below [roles]'),
        )
        for role in names if role not in roles
    )  # fmt: skip
