from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from waterclock.errors import WaterclockError
from waterclock.permissions.access_tokens import (
    digest_of_token,
    new_access_token,
    require_end,
    require_name,
    rights_of_token,
)
from waterclock.permissions.users_and_roles import ALL_RIGHTS, AccessRules, Right, User

NOW = datetime(2026, 11, 21, tzinfo=UTC)
RULES = AccessRules(
    {
        "anna": User("anna", frozenset({Right.LOOK, Right.RUN})),
        "ben": User("ben", ALL_RIGHTS),
        "cleo": User("cleo"),
    }
)


def test_tokens_differ_and_only_texts_that_may_be_tokens_have_a_digest() -> None:
    tokens = {new_access_token() for _ in range(50)}
    assert len({digest_of_token(each) for each in tokens}) == 50
    for sent in ("", "secret", f"x{min(tokens)}", f"{min(tokens)}{'x' * 200}"):
        assert digest_of_token(sent) is None


@pytest.mark.parametrize(
    ("said", "user", "rights"),
    [
        (None, "anna", {Right.LOOK, Right.RUN}),
        (" look ,", "anna", {Right.LOOK}),
        ("administer", "ben", {Right.ADMINISTER}),
        ("look,query", "ben", {Right.LOOK, Right.QUERY}),
    ],
)
def test_a_token_has_the_listed_rights_or_all_of_its_user(said: str | None, user: str, rights: set[Right]) -> None:
    assert rights_of_token(said, user, RULES) == rights


@pytest.mark.parametrize(
    ("said", "user", "what", "fix"),
    [
        ("look", "ana", "unknown user ana", "did you mean anna?"),
        ("lok", "anna", "unknown right lok", "did you mean look?"),
        ("look,release", "anna", "anna does not have the right release", "list some of these with --may"),
        ("administer", "anna", "anna does not have the right administer", "another role"),
        ("", "anna", "a token for anna would have no right", "--may"),
        (None, "cleo", "a token for cleo would have no right", "another role"),
    ],
)
def test_a_token_that_would_have_other_rights_is_refused(said: str | None, user: str, what: str, fix: str) -> None:
    with pytest.raises(WaterclockError) as refused:
        rights_of_token(said, user, RULES)
    assert refused.value.code == "E942"
    assert what in refused.value.what
    assert fix in str(refused.value.fix)


def test_no_token_is_without_an_end() -> None:
    assert require_end(None, NOW) == NOW + timedelta(days=90)
    assert require_end(NOW + timedelta(days=1), NOW) == NOW + timedelta(days=1)
    for end in (NOW, NOW - timedelta(days=1)):
        with pytest.raises(WaterclockError, match="is in the past"):
            require_end(end, NOW)


@pytest.mark.parametrize("name", ["", "-x", "a b", "a\n", "x" * 81, "<b>"])
def test_names_that_are_not_plain_are_refused(name: str) -> None:
    assert require_name("nightly-2") == "nightly-2"
    with pytest.raises(WaterclockError, match="is not a valid name"):
        require_name(name)
