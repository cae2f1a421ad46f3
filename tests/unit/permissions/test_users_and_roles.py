from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from waterclock.errors import WaterclockError
from waterclock.permissions.users_and_roles import (
    ALL_RIGHTS,
    AccessRules,
    AttributeClaim,
    ClaimType,
    OidcSettings,
    Person,
    Right,
    SignIn,
    User,
    expand_rights,
    owner,
    require_right,
)

RULES = AccessRules(
    {
        "anna": User("anna", frozenset({Right.LOOK, Right.RUN}), {"land": "DE"}),
        "ben": User("ben", ALL_RIGHTS),
    }
)


def test_no_right_contains_another_except_that_administer_contains_all() -> None:
    for right in Right:
        assert expand_rights([right]) == (ALL_RIGHTS if right is Right.ADMINISTER else {right})


def test_a_token_never_has_a_right_that_its_user_does_not_have() -> None:
    for count in range(len(Right) + 1):
        for scope in itertools.combinations(Right, count):
            person = RULES.person("anna", SignIn.TOKEN, scope=scope, token="nightly")
            assert person is not None
            assert person.rights == {Right.LOOK, Right.RUN} & expand_rights(scope)
    assert RULES.person("anna", SignIn.TOKEN) == Person(
        "anna", frozenset({Right.LOOK, Right.RUN}), SignIn.TOKEN, {"land": "DE"}
    )


def test_a_user_who_is_not_declared_is_no_person() -> None:
    assert RULES.person("cleo", SignIn.TOKEN) is None
    assert AccessRules().person("anna", SignIn.TOKEN) is None


OIDC = OidcSettings(
    "https://login.example",
    "waterclock",
    group_rights={"team": frozenset({Right.LOOK}), "chiefs": ALL_RIGHTS},
    group_roles={"team": frozenset({"analyst", "clerk"}), "chiefs": frozenset({"boss"})},
)


@pytest.mark.parametrize(
    ("name", "groups", "roles"),
    [
        ("anna", (), {"viewer"}),
        ("anna", ("team", "unknown"), {"viewer", "analyst", "clerk"}),
        ("cleo", ("team",), {"analyst", "clerk"}),
        ("cleo", ("team", "chiefs"), {"analyst", "clerk", "boss"}),
        ("analyst", ("chiefs",), {"boss"}),  # names give no role
    ],
)
def test_a_person_of_the_provider_has_the_roles_of_the_user_and_of_the_groups(
    name: str, groups: tuple[str, ...], roles: set[str]
) -> None:
    user = User("anna", frozenset({Right.LOOK}), {"land": "DE"}, frozenset({"viewer"}))
    person = AccessRules({"anna": user}, oidc=OIDC).person_of_provider(OIDC.issuer, name, groups)
    assert person is not None
    assert person.roles == roles
    assert person.attributes == ({"land": "DE"} if name == "anna" else {})


def test_only_claims_that_are_declared_now_are_attributes_and_those_of_the_user_replace_them() -> None:
    land, level = AttributeClaim("country"), AttributeClaim("clearance", ClaimType.NUMBER)
    sent = ((land, "FR"), (level, 3), (AttributeClaim("nation"), "GB"), (AttributeClaim("clearance"), "9"))
    oidc = replace(OIDC, attributes={"land": land, "level": level, "missing": AttributeClaim("other")})
    rules = AccessRules({"anna": User("anna", frozenset({Right.LOOK}), {"land": "DE"})}, oidc=oidc)
    for name, attributes in (("anna", {"land": "DE", "level": 3}), ("cleo", {"land": "FR", "level": 3})):
        person = rules.person_of_provider(OIDC.issuer, name, ("team",), sent)
        assert person is not None
        assert person.attributes == attributes
    assert rules.person_of_provider(OIDC.issuer, "cleo", (), sent) is None  # claims do not create users


def test_the_owner_has_every_right() -> None:
    for right in Right:
        require_right(owner("ops"), right, "do this")


def test_a_missing_right_is_named_with_the_people_who_can_give_it() -> None:
    person = RULES.person("anna", SignIn.TOKEN, scope=[Right.LOOK], token="nightly")
    assert person is not None
    require_right(person, Right.LOOK, "see this")
    with pytest.raises(WaterclockError) as refused:
        require_right(person, Right.RELEASE, "release a batch", RULES)
    assert (refused.value.code, refused.value.what) == ("E940", "anna may not release a batch")
    assert refused.value.why == (
        "the right release is missing: anna has look; the token nightly may be limited further"
    )
    assert refused.value.fix == "ask ben or whoever can change waterclock.toml to add release to a role of anna"
