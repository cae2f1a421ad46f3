"""Users, roles and rights: who may see tables, query, run, release, edit, approve, erase, send and administer.

Pure functions.

The project file declares roles, which are lists of rights, and users, who have roles. A project without users has one
person, its owner: the user of the operating system, with all rights.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from waterclock.errors import WaterclockError


class Right(StrEnum):
    """The rights of a person. None contains another one, except that `administer` contains all."""

    LOOK = "look"
    QUERY = "query"
    RUN = "run"
    RELEASE = "release"
    EDIT = "edit"
    """Change rows of master data, or propose changes where these need approval."""
    APPROVE = "approve"
    """Approve and reject changes of master data that other people proposed."""
    ERASE = "erase"
    SEND = "send"
    """Send events to the receiver. An access token can be limited to streams."""
    ADMINISTER = "administer"


ALL_RIGHTS = frozenset(Right)
AttributeValue = str | int | float | bool
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+|:-]{0,79}")


class SignIn(StrEnum):
    """The method by which a person signed in."""

    OWNER = "owner"
    """With the token or a one-time link of the process that serves the pages."""
    TOKEN = "token"  # noqa: S105 - a kind of sign-in
    """With an access token of `waterclock token create`."""
    OIDC = "oidc"
    """At the OpenID Connect provider of the project."""
    COMMAND = "command"
    """As the user of the operating system who runs a command."""


@dataclass(frozen=True, slots=True)
class User:
    """A declared user: their roles, the rights of all of them together, and attributes that rules can refer to."""

    name: str
    rights: frozenset[Right] = frozenset()
    attributes: Mapping[str, object] = field(default_factory=dict)
    roles: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Person:
    """The person who sends a request or runs a command. `token` is the name of the sent access token, or ""."""

    name: str
    rights: frozenset[Right]
    sign_in: SignIn
    attributes: Mapping[str, object] = field(default_factory=dict)
    token: str = ""
    roles: frozenset[str] = frozenset()

    def may(self, right: Right) -> bool:
        """Return whether the person has a right."""
        return right in self.rights


class ClaimType(StrEnum):
    """The type that the value of a claim must have to be an attribute."""

    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"


@dataclass(frozen=True, slots=True)
class AttributeClaim:
    """A claim of the ID token that is an attribute of the person, and the type that its value must have."""

    claim: str
    type: ClaimType = ClaimType.TEXT


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """The OpenID Connect provider at which people sign in, and the meaning of its claims.

    `client_secret` is the name of a secret, or None for a public client. `user_claim` names the person, `group_claim`
    the person's groups. `group_rights` and `group_roles` are the rights and the roles that a group gives. `attributes`
    are the claims that are attributes of the person, by the attribute's name; no other claim is one.
    """

    issuer: str
    client_id: str
    client_secret: str | None = None
    scopes: tuple[str, ...] = ()
    user_claim: str = "sub"
    group_claim: str = "groups"
    group_rights: Mapping[str, frozenset[Right]] = field(default_factory=dict)
    group_roles: Mapping[str, frozenset[str]] = field(default_factory=dict)
    attributes: Mapping[str, AttributeClaim] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AccessRules:
    """The users that a project declares, by name, and its settings for signing in.

    `proxies` are the addresses of reverse proxies whose headers about the client are trusted. Records of accesses are
    kept for the time `keep`.
    """

    users: Mapping[str, User] = field(default_factory=dict)
    proxies: tuple[str, ...] = ()
    keep: timedelta = timedelta(days=400)
    oidc: OidcSettings | None = None

    @property
    def has_people(self) -> bool:
        """Whether other people than the owner can sign in."""
        return bool(self.users) or self.oidc is not None

    def person(
        self, name: str, sign_in: SignIn, *, scope: Collection[Right] = ALL_RIGHTS, token: str = ""
    ) -> Person | None:
        """Return a declared user with the rights that are also in `scope`; None if the user is not declared."""
        user = self.users.get(name)
        if user is None:
            return None
        return Person(name, user.rights & expand_rights(scope), sign_in, user.attributes, token, user.roles)

    def person_of_provider(
        self,
        issuer: str,
        name: str,
        groups: Collection[str],
        claims: Collection[tuple[AttributeClaim, AttributeValue]] = (),
    ) -> Person | None:
        """Return a person who signed in at the provider of `issuer`, with rights and roles of the user and all groups.

        `claims` are attributes if they are still declared. An attribute of the declared user replaces that of a claim.
        None if that is not the provider any more, or neither the user nor one of the groups is declared.
        """
        user = self.users.get(name)
        if self.oidc is None or self.oidc.issuer != issuer:
            return None
        known = [group for group in groups if group in self.oidc.group_rights]
        if user is None and not known:
            return None
        own = User(name) if user is None else user
        rights = own.rights.union(*(self.oidc.group_rights[group] for group in known))
        roles = own.roles.union(*(self.oidc.group_roles.get(group, ()) for group in known))
        values = dict(claims)
        claimed = {key: values[claim] for key, claim in self.oidc.attributes.items() if claim in values}
        return Person(name, expand_rights(rights), SignIn.OIDC, {**claimed, **own.attributes}, roles=roles)

    def administrators(self) -> tuple[str, ...]:
        """Return the names of the users that may administer, sorted."""
        return tuple(sorted(name for name, user in self.users.items() if Right.ADMINISTER in user.rights))


def is_user_name(name: str) -> bool:
    """Return whether a name can be that of a user: the audit trail and the terminal show it without escapes."""
    return _USER.fullmatch(name) is not None


def owner(name: str, sign_in: SignIn = SignIn.OWNER) -> Person:
    """Return the owner of a process: a person with all rights."""
    return Person(name, ALL_RIGHTS, sign_in)


def expand_rights(rights: Collection[Right]) -> frozenset[Right]:
    """Return all rights if `administer` is among the given ones, otherwise the given ones."""
    return ALL_RIGHTS if Right.ADMINISTER in rights else frozenset(rights)


def require_right(by: Person, right: Right, action: str, rules: AccessRules | None = None) -> None:
    """Raise E940 if a person does not have a right. `action` completes the message, as in "may not release a batch"."""
    if by.may(right):
        return
    by_token = f"; the token {by.token} may be limited further" if by.token else ""
    names = rules.administrators()[:3] if rules is not None else ()
    who = " or ".join((*names, "whoever can change waterclock.toml"))
    raise WaterclockError(
        "E940",
        f"{by.name} may not {action}",
        why=f"the right {right} is missing: {by.name} has {', '.join(sorted(by.rights)) or 'none'}{by_token}",
        fix=f"ask {who} to add {right} to a role of {by.name}",
    )
