"""Sign-in at an OpenID Connect provider: users get their rights, and every forged or foreign response is refused."""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from httpx2 import Response
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey
from sqlglot.tokens import TokenType
from starlette.testclient import TestClient

from tests import stocks
from tests.oidc_provider import CLIENT, EC_KEY, KEY, OTHER_KEY, SECRET, Claims, OidcProvider, running_provider, signed
from tests.pages import TOKEN
from waterclock.batches.access import Access
from waterclock.dpl.query.granted_select import granted_select
from waterclock.dpl.resolve.literals import literal
from waterclock.dpl.syntax.tokens import dialect
from waterclock.errors import WaterclockError
from waterclock.flow.grants import Grant
from waterclock.http.access_tokens import WrongTokens
from waterclock.permissions.users_and_roles import AttributeClaim, OidcSettings, Person, Right, SignIn
from waterclock.ui.app import create_app
from waterclock.ui.live_project import LiveProject
from waterclock.ui.oidc.id_tokens import identity_of
from waterclock.ui.oidc.provider import Provider
from waterclock.ui.people import People
from waterclock.ui.request_guard import Guard
from waterclock.ui.serving import serve_pages

USERS = """
[roles]
viewer = ["look"]
operator = ["look", "run"]
auditor = ["administer"]
[users.anna]
roles = ["viewer"]
attributes = {{ land = "DE" }}
[users."ben@example.com"]
roles = ["operator"]
[sign_in.oidc]
issuer = "{issuer}"
client_id = "waterclock"
{more}
[sign_in.oidc.group_roles]
runners = ["operator"]
chiefs = ["auditor"]
"""
CONFIDENTIAL = 'client_secret = { secret = "oidc/client" }'


class Pages:
    """The pages of a project whose users sign in at a provider."""

    def __init__(self, folder: Path, provider: OidcProvider, more: str = CONFIDENTIAL) -> None:
        self.folder, self.provider = folder, provider
        self.declare(more)
        self.live = LiveProject(folder, now="2026-11-21T01:30Z")
        self.people = People(self.live)
        self.guard = Guard(TOKEN, wrong=WrongTokens(seconds=0))
        self.app = create_app(self.live, self.guard, people=self.people)
        self.since = self.ledger.now()

    def declare(self, more: str) -> None:
        text = stocks.HEADER + USERS.format(issuer=self.provider.issuer, more=more)
        (self.folder / "waterclock.toml").write_text(text)

    @property
    def ledger(self) -> Any:
        found = self.live.ledger()
        assert found is not None
        return found

    def browser(self) -> TestClient:
        headers = {"Accept": "text/html", "Origin": "http://localhost"}
        return TestClient(self.app, base_url="http://localhost", headers=headers, follow_redirects=False)

    def start(self, browser: TestClient) -> str:
        answer = browser.get("/sign-in/start")
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"])

    def sign_in(self, browser: TestClient, **more: str) -> Response:
        """Sign in with a browser, and return the response that accepts or refuses it."""
        back = self.provider.sign_in(self.start(browser), **more)
        return browser.get(back, headers={"Sec-Fetch-Site": "cross-site"})

    def accesses(self) -> tuple[Access, ...]:
        self.people.log.flush()
        found: tuple[Access, ...] = self.ledger.access.list_accesses(since=self.since, who=None, most=50)
        return found

    def reason(self) -> str:
        return next(each.refusal for each in self.accesses() if each.refusal and each.sign_in == "oidc")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = stocks.make(tmp_path_factory.mktemp("oidc") / "shop")
    made.fill(until=stocks.FIRST + timedelta(days=1))
    return made.folder


@pytest.fixture
def provider() -> Iterator[OidcProvider]:
    with running_provider() as running:
        yield running


@pytest.fixture
def pages(folder: Path, provider: OidcProvider, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pages]:
    monkeypatch.setenv("WATERCLOCK_SECRET_OIDC_CLIENT", SECRET)
    made = Pages(folder, provider)
    yield made
    made.live.close()


def is_in(browser: TestClient) -> bool:
    return browser.get("/tables.json").status_code == 200


def test_a_declared_user_signs_in_and_has_the_rights_and_attributes_of_the_user(pages: Pages) -> None:
    browser = pages.browser()
    assert browser.get("/").headers["location"] == "/sign-in"  # a program that does not accept HTML gets 401
    assert browser.get("/", headers={"Accept": "application/json"}).status_code == 401
    assert f'<a href="/sign-in/start">Sign in at 127.0.0.1:{pages.provider.port}</a>' in browser.get("/sign-in").text
    answer = pages.sign_in(browser)
    assert answer.status_code == 200  # a page that redirects by itself, because the cookie is strict
    assert "url=/" in answer.text
    cookies = answer.headers.get_list("set-cookie")
    assert any("waterclock_session=" in each and "HttpOnly" in each and "SameSite=strict" in each for each in cookies)
    assert any('waterclock_sign_in=""' in each and "Max-Age=0" in each for each in cookies)
    assert is_in(browser)
    assert browser.post("/plan", data={"verb": "retry"}).status_code == 403  # anna may only read
    [session] = pages.guard.sessions.current()
    assert (session.who, session.credential.sign_in) == ("anna", "oidc")
    assert [(each.who, each.sign_in, each.action) for each in pages.accesses() if not each.refusal] == [
        ("anna", "oidc", "sign in at the provider")
    ]
    person = pages.people.rules().person_of_provider(pages.provider.issuer, "anna", ())
    assert person is not None
    assert person.attributes == {"land": "DE"}
    assert person.roles == {"viewer"}


def test_groups_add_rights_and_others_than_the_declared_are_forgotten(pages: Pages) -> None:
    pages.provider.who = {"sub": "auth0|12", "groups": ["runners", "all", 7, "x" * 1000]}
    browser = pages.browser()
    pages.sign_in(browser)
    [session] = pages.guard.sessions.current()
    assert session.credential.groups == ("runners",)
    found = pages.people.rules().person_of_provider(pages.provider.issuer, "auth0|12", session.credential.groups)
    assert found is not None
    assert found.rights == {Right.LOOK, Right.RUN}
    assert found.roles == {"operator"}
    assert is_in(browser)
    # one text instead of a list is one group
    pages.provider.who = {"sub": "cleo", "groups": "chiefs"}
    other = pages.browser()
    pages.sign_in(other)
    assert other.get("/access.json").status_code == 200


def test_a_person_without_a_role_is_refused_and_gets_no_session(pages: Pages) -> None:
    pages.provider.who = {"sub": "mallory", "groups": ["guests"]}
    browser = pages.browser()
    answer = pages.sign_in(browser)
    assert answer.status_code == 403
    assert "have no access here" in answer.text
    assert pages.guard.sessions.current() == ()
    assert pages.reason() == "mallory is no declared user, and is in no group of group_roles"


def test_a_session_ends_with_its_user_its_group_and_its_provider(pages: Pages) -> None:
    pages.provider.who = {"sub": "dora", "groups": ["chiefs"]}
    browser = pages.browser()
    pages.sign_in(browser)
    assert is_in(browser)
    file = pages.folder / "waterclock.toml"
    whole = file.read_text()
    file.write_text(whole.replace('chiefs = ["auditor"]\n', ""))
    assert not is_in(browser)
    file.write_text(whole)
    assert not is_in(browser)  # it was ended, not only refused
    pages.sign_in(browser)
    file.write_text(whole.replace(pages.provider.issuer, "https://login.example"))
    assert not is_in(browser)


def test_signing_out_ends_the_session_and_offers_to_sign_out_at_the_provider(pages: Pages) -> None:
    browser = pages.browser()
    pages.sign_in(browser)
    kept = dict(browser.cookies)
    answer = browser.post("/sign-out")
    assert answer.headers["location"] == "/sign-in?out"
    assert '<a href="/sign-in/out">' in browser.get("/sign-in?out").text
    assert browser.get("/sign-in/out").headers["location"] == f"{pages.provider.issuer}/end?client_id={CLIENT}"
    thief = pages.browser()
    thief.cookies.update(kept)
    assert not is_in(thief)
    pages.sign_in(browser)
    assert pages.guard.sessions.revoke() == 1
    assert not is_in(browser)


def test_an_address_names_a_user_only_if_the_provider_has_verified_it(pages: Pages) -> None:
    pages.declare(f'{CONFIDENTIAL}\nuser_claim = "email"\nscopes = ["email", "openid"]')
    pages.provider.who = {"sub": "1", "email": "ben@example.com", "email_verified": True}
    browser = pages.browser()
    assert parse_qs(urlsplit(pages.start(browser)).query)["scope"] == ["openid email"]
    pages.sign_in(browser)
    assert [each.who for each in pages.guard.sessions.current()] == ["ben@example.com"]
    for said in (False, "true", None):
        pages.provider.who["email_verified"] = said
        assert pages.sign_in(pages.browser()).status_code == 403
    assert "verified" in pages.reason()


ATTRIBUTES = f"""{CONFIDENTIAL}
[sign_in.oidc.attributes]
land = "country"
level = {{ claim = "clearance", type = "number" }}
is_staff = {{ claim = "staff", type = "boolean" }}
mail = "email"
"""
VALUES: Claims = {"country": "FR", "clearance": 3, "staff": False, "email": "c@example.com", "email_verified": True}


def person_in(pages: Pages) -> Person:
    """Return the user of the newest session, as each of its requests resolves them."""
    credential = pages.guard.sessions.current()[-1].credential
    # the browser of earlier tests may have left a running event loop in this thread
    with ThreadPoolExecutor(1) as other:
        found = other.submit(anyio.run, pages.people.find, credential).result()
    assert found is not None
    return found


def test_declared_claims_are_attributes_and_no_others(pages: Pages) -> None:
    pages.declare(ATTRIBUTES)
    undeclared = {"land": "DE", "level": 9, "region": "EU", "attributes": {"land": "DE"}, "mail": "x@example.com"}
    pages.provider.who = {"sub": "cleo", "groups": ["runners"], **VALUES, **undeclared}
    assert pages.sign_in(pages.browser()).status_code == 200
    found = person_in(pages)
    assert found.attributes == {"land": "FR", "level": 3, "is_staff": False, "mail": "c@example.com"}
    assert (found.name, *found.roles) == ("cleo", "operator")
    assert found.rights == {Right.LOOK, Right.RUN}
    pages.declare(CONFIDENTIAL)
    assert person_in(pages).attributes == {}


def test_claims_that_are_missing_null_or_not_verified_are_no_attributes(pages: Pages) -> None:
    pages.declare(ATTRIBUTES)
    for missing in (
        {"email": "a@example.com"},
        {"email": "a@example.com", "email_verified": "true"},
        {"country": None},
    ):
        pages.provider.who = {"sub": "cleo", "groups": ["runners"], "clearance": 1.5, **missing}
        assert pages.sign_in(pages.browser()).status_code == 200
        assert person_in(pages).attributes == {"level": 1.5}


def test_an_attribute_of_the_declared_user_replaces_that_of_a_claim(pages: Pages) -> None:
    pages.declare(ATTRIBUTES)
    pages.provider.who = {"sub": "anna", "country": "FR", "clearance": 3}
    assert pages.sign_in(pages.browser()).status_code == 200
    assert person_in(pages).attributes == {"land": "DE", "level": 3}
    # with a token of her own, anna has no claims
    by_token = pages.people.rules().person("anna", SignIn.TOKEN)
    assert by_token is not None
    assert by_token.attributes == {"land": "DE"}


def test_a_changed_declaration_of_an_attribute_takes_effect_in_running_sessions(pages: Pages) -> None:
    pages.declare(ATTRIBUTES)
    pages.provider.who = {"sub": "cleo", "groups": ["runners"], "country": "FR", "nation": "GB", "clearance": 3}
    browser = pages.browser()
    pages.sign_in(browser)
    other_name = ATTRIBUTES.replace("land = ", "region = ").replace('type = "number"', 'type = "text"')
    pages.declare(other_name)
    assert person_in(pages).attributes == {"region": "FR"}
    pages.declare(ATTRIBUTES.replace('"country"', '"nation"'))
    assert person_in(pages).attributes == {"level": 3}  # the claim nation was not declared at the sign-in
    pages.sign_in(browser)
    assert person_in(pages).attributes == {"land": "GB", "level": 3}


WRONG_VALUES: dict[str, Claims] = {
    "number for a text": {"country": 7},
    "boolean for a text": {"country": True},
    "list for a text": {"country": ["FR", "DE"]},
    "object for a text": {"country": {"code": "FR"}},
    "nested objects": {"country": {"a": {"b": [{"c": "FR"}]}}},
    "huge text": {"country": "F" * 1001},
    "control character": {"country": "FR\x00"},
    "line end": {"country": "FR\n"},
    "half of a surrogate pair": {"country": "\ud800"},
    "text for a number": {"clearance": "9"},
    "boolean for a number": {"clearance": True},
    "huge number": {"clearance": 10**30},
    "infinite number": {"clearance": float("inf")},
    "no number": {"clearance": float("nan")},
    "list of a number": {"clearance": [9]},
    "text for a boolean": {"staff": "true"},
    "number for a boolean": {"staff": 1},
    "empty list": {"staff": []},
}


@pytest.mark.parametrize("name", WRONG_VALUES)
def test_a_claim_of_another_type_than_its_attribute_ends_the_sign_in(pages: Pages, name: str) -> None:
    pages.declare(ATTRIBUTES)
    pages.provider.who = {"sub": "cleo", "groups": ["runners"], **VALUES, **WRONG_VALUES[name]}
    pages.provider.sign = lambda claims: signed_by_hand(json.dumps(claims))
    answer = pages.sign_in(pages.browser())
    assert answer.status_code == 403
    assert answer.text.startswith("the sign-in failed: start again")
    [claim] = WRONG_VALUES[name]
    assert f"the claim {claim} is not " in pages.reason()
    assert pages.guard.sessions.current() == ()


def test_claims_and_attributes_that_are_named_like_roles_and_rights_give_none(pages: Pages) -> None:
    names = ("auditor", "administer", "roles", "groups", "rights", "chiefs", "anna")
    attributes = "\n".join(f'{name} = "{name}_claim"' for name in names)
    pages.declare(f'{CONFIDENTIAL}\n[sign_in.oidc.attributes]\n{attributes}\nrole = "auditor"')
    claims = {f"{name}_claim": "auditor" for name in names}
    more: Claims = {"administer": True, "roles": ["auditor"], "rights": ["administer"], "auditor": "administer"}
    pages.provider.who = {"sub": "cleo", "groups": ["runners"], **claims, **more}
    browser = pages.browser()
    assert pages.sign_in(browser).status_code == 200
    found = person_in(pages)
    assert (found.name, *found.roles) == ("cleo", "operator")
    assert found.rights == {Right.LOOK, Right.RUN}
    assert found.attributes["role"] == "administer"
    assert browser.get("/access.json").status_code == 403


@pytest.mark.parametrize(
    "text", ["DE' OR TRUE OR '", "\\' OR TRUE --", "\\", "') OR (1=1", "USER('land')", "${x}", "\u2028'"]
)
def test_the_text_of_a_claim_stays_one_literal_in_the_condition_of_a_grant(text: str) -> None:
    settings = OidcSettings("https://login.example", CLIENT, attributes={"land": AttributeClaim("country")})
    [(_, value)] = identity_of({"sub": "cleo", "country": text}, settings).claims
    grant = Grant(("a.b",), frozenset({"x"}), where="land = USER('land') AND id = 1")
    where = granted_select([grant], ["id", "land"], {"land": literal(value)}).where
    tokens = dialect().tokenize(where or "")
    names = ["(", "land", "=", text, "AND", "id", "=", "1", ")"]
    assert [token.text for token in tokens] == names
    assert tokens[3].token_type is TokenType.STRING


def test_a_public_client_has_no_secret_and_a_secret_can_be_sent_in_the_form(pages: Pages) -> None:
    pages.provider.configuration["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    assert pages.sign_in(pages.browser()).status_code == 200
    pages.declare("")
    pages.provider.is_public = True
    assert pages.sign_in(pages.browser()).status_code == 200


def test_a_signature_by_an_elliptic_curve_is_accepted(pages: Pages) -> None:
    pages.provider.published = [KEY, EC_KEY]
    pages.provider.sign = lambda claims: signed(claims, EC_KEY, "ES256")
    assert pages.sign_in(pages.browser()).status_code == 200


def unsigned(claims: Claims) -> str:
    """Return a token with the algorithm none, which the library itself refuses to create."""
    parts = ({"alg": "none", "kid": "first"}, claims)
    encoded = (base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in parts)
    return ".".join((*encoded, ""))


def signed_with_the_public_key(claims: Claims) -> str:
    """Return a token signed by HMAC with the text of the provider's public key as its key."""
    from hmac import digest

    parts = ({"alg": "HS256", "kid": "first"}, claims)
    text = b".".join(base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in parts)
    mac = base64.urlsafe_b64encode(digest(KEY.as_pem(private=False), text, "sha256")).rstrip(b"=")
    return f"{text.decode()}.{mac.decode()}"


def impersonated(claims: Claims) -> str:
    """Return a token signed by another key that claims the id of the provider's key."""
    return signed(claims, OTHER_KEY, kid="first")


def cut(claims: Claims) -> str:
    """Return a signed token whose claims were changed afterwards."""
    head, _, signature = signed(claims).split(".")
    body = base64.urlsafe_b64encode(json.dumps(claims | {"sub": "ben@example.com"}).encode()).rstrip(b"=").decode()
    return f"{head}.{body}.{signature}"


def with_own_key(claims: Claims) -> str:
    """Return a token that contains the key that signed it."""
    header = {"alg": "RS256", "jwk": OTHER_KEY.as_dict(private=False)}
    return jwt.encode(header, claims, OTHER_KEY, ["RS256"])


def signed_by_hand(claims: str, **header: object) -> str:
    """Return a correctly signed token that the library itself refuses to create."""
    parts = (json.dumps({"alg": "RS256", "kid": "first", **header}), claims)
    text = b".".join(base64.urlsafe_b64encode(each.encode()).rstrip(b"=") for each in parts)
    private = KEY.private_key
    assert private is not None
    signature = private.sign(text, PKCS1v15(), SHA256())
    return f"{text.decode()}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


SIGNATURES: dict[str, tuple[Callable[[Claims], str], str]] = {
    "alg none": (unsigned, "algorithm that is not accepted"),
    "HS256 with the public key": (signed_with_the_public_key, "algorithm that is not accepted"),
    "unknown kid": (lambda claims: signed(claims, OTHER_KEY), "a key that the provider does not publish"),
    "kid of another key": (impersonated, "signature"),
    "changed claims": (cut, "signature"),
    "key in the header": (with_own_key, "signature"),
    "critical header": (
        lambda claims: signed_by_hand(json.dumps(claims), crit=["x"], x=1), "not a valid signed token"
    ),
    "no token": (lambda _: "abc", "not a valid signed token"),
    "not ASCII": (lambda _: "é.é.é", "not a valid signed token"),
    "huge payload": (
        lambda claims: signed_by_hand(json.dumps(claims | {"more": "x" * 300_000})), "not a valid signed token"
    ),
    "list of claims": (lambda _: signed_by_hand("[1]"), "not a valid signed token"),
    "deep claims": (lambda _: signed_by_hand("[" * 100_000), "not a valid signed token"),
}  # fmt: skip


@pytest.mark.parametrize("name", SIGNATURES)
def test_tokens_that_the_provider_did_not_sign_are_refused(pages: Pages, name: str) -> None:
    pages.provider.sign, reason = SIGNATURES[name]
    answer = pages.sign_in(pages.browser())
    assert answer.status_code == 403
    assert answer.text.startswith("the sign-in failed: start again")
    assert reason in pages.reason()
    assert pages.guard.sessions.current() == ()


NOW = time.time
CLAIMS: dict[str, tuple[Callable[[Claims], Claims], str]] = {
    "wrong issuer": (lambda of: of | {"iss": "https://evil.example"}, "claim iss"),
    "issuer with a slash": (lambda of: of | {"iss": of["iss"] + "/"}, "claim iss"),
    "wrong audience": (lambda of: of | {"aud": "another"}, "claim aud"),
    "audiences without ours": (lambda of: of | {"aud": ["a", "b"]}, "claim aud"),
    "several audiences": (lambda of: of | {"aud": [CLIENT, "b"]}, "another client"),
    "authorized for another": (lambda of: of | {"azp": "another"}, "another client"),
    "wrong nonce": (lambda of: of | {"nonce": "another"}, "nonce"),
    "no nonce": (lambda of: {name: of[name] for name in of if name != "nonce"}, "nonce"),
    "nonce as a list": (lambda of: of | {"nonce": [of["nonce"]]}, "nonce"),
    "expired": (lambda of: of | {"exp": int(NOW()) - 61}, "claim exp"),
    "without an end": (lambda of: {name: of[name] for name in of if name != "exp"}, "claim exp"),
    "end as a text": (lambda of: of | {"exp": "2999-01-01"}, "claim exp"),
    "endless": (lambda of: of | {"exp": float("inf")}, "claim exp"),
    "of the future": (lambda of: of | {"iat": int(NOW()) + 70}, "claim iat"),
    "not yet valid": (lambda of: of | {"nbf": int(NOW()) + 70}, "claim nbf"),
    "without a subject": (lambda of: {name: of[name] for name in of if name != "sub"}, "claim sub"),
    "number as a name": (lambda of: of | {"sub": 7}, "claim sub"),
    "markup as a name": (lambda of: of | {"sub": "<b>anna"}, "no name of a user"),
    "line end in a name": (lambda of: of | {"sub": "anna\n"}, "no name of a user"),
    "long name": (lambda of: of | {"sub": "a" * 81}, "no name of a user"),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_tokens_for_other_clients_times_and_sign_ins_are_refused(pages: Pages, name: str) -> None:
    pages.provider.change_claims, reason = CLAIMS[name]
    answer = pages.sign_in(pages.browser())
    assert answer.status_code == 403
    assert reason in pages.reason()
    assert reason not in answer.text
    assert pages.guard.sessions.current() == ()


def test_clocks_may_differ_by_a_minute_and_several_audiences_need_ours_as_the_authorized(pages: Pages) -> None:
    now = int(time.time())
    pages.provider.change_claims = lambda of: of | {"exp": now - 50, "iat": now + 50, "nbf": now + 50}
    assert pages.sign_in(pages.browser()).status_code == 200
    pages.provider.change_claims = lambda of: of | {"aud": [CLIENT, "b"], "azp": CLIENT}
    assert pages.sign_in(pages.browser()).status_code == 200


def test_weak_foreign_and_broken_keys_of_the_provider_are_not_used(pages: Pages) -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weak = RSAKey.generate_key(1024, {"kid": "weak"})
        shared = OctKey.import_key("a secret that is not one, of 32 characters", {"kid": "shared"})
    listed = [
        weak.as_dict(private=False),
        shared.as_dict(),
        {**OTHER_KEY.as_dict(private=False), "use": "enc"},
        {"kty": "RSA", "kid": "broken", "n": "!" * 400, "e": "AQAB"},
        "no key",
        {"kty": ["RSA"]},
        {"kty": "new"},
    ]
    pages.provider.faults["/keys"] = 200, json.dumps({"keys": listed}).encode(), 0
    makers: list[Callable[[Claims], str]] = [
        lambda claims: signed(claims, OTHER_KEY),
        lambda claims: jwt.encode({"alg": "HS256", "kid": "shared"}, claims, shared, ["HS256"]),
    ]
    for maker in makers:
        pages.provider.sign = maker
        assert pages.sign_in(pages.browser()).status_code == 403


def test_a_new_key_of_the_provider_is_found_but_unknown_ones_do_not_make_floods(pages: Pages) -> None:
    assert pages.sign_in(pages.browser()).status_code == 200
    provider = pages.people.provider()
    assert provider is not None
    ahead = [0.0]
    provider.clock = lambda: time.monotonic() + ahead[0]
    pages.provider.sign = lambda claims: signed(claims, OTHER_KEY)
    for _ in range(3):
        assert pages.sign_in(pages.browser()).status_code == 403
    assert pages.provider.asked.count("/keys") == 1
    pages.provider.published = [OTHER_KEY]
    ahead[0] = 61
    assert pages.sign_in(pages.browser()).status_code == 200
    assert pages.provider.asked.count("/keys") == 2
    assert pages.provider.asked.count("/.well-known/openid-configuration") == 1


def test_a_code_and_an_answer_work_once(pages: Pages) -> None:
    browser = pages.browser()
    back = pages.provider.sign_in(pages.start(browser))
    cookies = dict(browser.cookies)
    assert browser.get(back).status_code == 303
    again = pages.browser()
    again.cookies.update(cookies)
    assert again.get(back).status_code == 403
    assert pages.provider.asked.count("/token") == 1
    assert "that this browser started" in pages.reason()
    # a code that the provider has seen before, in a new attempt
    code = parse_qs(urlsplit(back).query)["code"][0]
    fresh = pages.provider.sign_in(pages.start(browser))
    new = parse_qs(urlsplit(fresh).query)["code"][0]
    assert browser.get(fresh.replace(new, code)).status_code == 403
    assert any("invalid_grant" in (each.refusal or "") for each in pages.accesses())
    assert not any("<script>" in (each.refusal or "") for each in pages.accesses())


def test_the_state_of_another_browser_is_refused_before_the_provider_is_contacted(pages: Pages) -> None:
    one, other = pages.browser(), pages.browser()
    back = pages.provider.sign_in(pages.start(one))
    assert other.get(back).status_code == 403  # without a cookie: the link of an attacker
    pages.start(other)
    assert other.get(back).status_code == 403  # with its own cookie
    for sent in ("/sign-in/back", "/sign-in/back?state=", "/sign-in/back?state=%FF&code=x", "/sign-in/back?error=x"):
        assert other.get(sent).status_code == 403
    assert "/token" not in pages.provider.asked
    assert one.get(back).status_code == 303


def test_a_code_stolen_on_the_way_is_of_no_use_without_the_verifier(pages: Pages) -> None:
    victim, thief = pages.browser(), pages.browser()
    back = pages.provider.sign_in(pages.start(victim))
    own = pages.provider.sign_in(pages.start(thief))
    stolen, other = (parse_qs(urlsplit(each).query)["code"][0] for each in (back, own))
    assert thief.get(own.replace(other, stolen)).status_code == 403
    assert "invalid_grant" in pages.reason()


def test_an_answer_in_the_name_of_another_issuer_and_errors_of_the_provider_are_refused(pages: Pages) -> None:
    assert pages.sign_in(pages.browser(), iss="https://evil.example").status_code == 403
    assert "another issuer" in pages.reason()
    assert pages.sign_in(pages.browser(), iss=pages.provider.issuer).status_code == 200
    answer = pages.sign_in(pages.browser(), error="access_denied", error_description="<b>")
    assert answer.status_code == 403
    assert pages.reason() == "the provider answered access_denied"
    pages.sign_in(pages.browser(), error="<b>")
    assert any(each.refusal == "the provider answered an unknown error" for each in pages.accesses())


ANSWERS: dict[str, tuple[str, tuple[int, bytes, float], str]] = {
    "huge configuration": ("/.well-known/openid-configuration", (200, b" " * 600_000, 0), "larger than"),
    "slow configuration": ("/.well-known/openid-configuration", (200, b" " * 600, 0.1), "incomplete after"),
    "no JSON": ("/.well-known/openid-configuration", (200, b"<html>", 0), "without a JSON object"),
    "deep JSON": ("/.well-known/openid-configuration", (200, b"[" * 100_000, 0), "without a JSON object"),
    "error": ("/.well-known/openid-configuration", (500, b"{}", 0), "answered 500"),
    "redirect": ("/.well-known/openid-configuration", (302, b"{}", 0), "answered 302"),
    "huge keys": ("/keys", (200, b" " * 600_000, 0), "larger than"),
    "slow keys": ("/keys", (200, b" " * 600, 0.1), "incomplete after"),
    "huge token": ("/token", (200, b" " * 600_000, 0), "larger than"),
    "slow token": ("/token", (200, b" " * 600, 0.1), "incomplete after"),
    "no token": ("/token", (200, b'{"id_token": 7}', 0), "no ID token"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_huge_slow_and_broken_answers_are_refused_in_time(pages: Pages, name: str) -> None:
    path, answer, reason = ANSWERS[name]
    provider = pages.people.provider()
    assert provider is not None
    provider.seconds = 0.5
    if not path.startswith("/.well"):
        back, browser = "", pages.browser()
        back = pages.provider.sign_in(pages.start(browser))
    pages.provider.faults[path] = answer
    begun = time.monotonic()
    refused = pages.browser().get("/sign-in/start") if path.startswith("/.well") else browser.get(back)
    assert refused.status_code == 403
    assert reason not in refused.text
    assert str(pages.provider.port) not in refused.text
    assert time.monotonic() - begun < 10
    assert reason in pages.reason()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"issuer": "https://evil.example"}, "names another issuer"),
        ({"token_endpoint": "http://evil.example/token"}, "token_endpoint"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "authorization_endpoint"),
        ({"jwks_uri": "file:///etc/passwd"}, "jwks_uri"),
        ({"jwks_uri": None}, "jwks_uri"),
    ],
)
def test_a_configuration_that_leads_elsewhere_is_refused(pages: Pages, changed: Claims, reason: str) -> None:
    pages.provider.configuration = changed
    for _ in range(3):
        assert pages.browser().get("/sign-in/start").status_code == 403
    assert reason in pages.reason()
    assert len(pages.provider.asked) == 1  # after a failure, no request is sent to the provider for some seconds


def test_a_wrong_secret_of_the_client_is_reported_without_it(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATERCLOCK_SECRET_OIDC_CLIENT", "another secret")
    assert pages.sign_in(pages.browser()).status_code == 403
    assert "invalid_client" in pages.reason()
    assert "another secret" not in pages.reason()
    monkeypatch.delenv("WATERCLOCK_SECRET_OIDC_CLIENT")
    assert pages.sign_in(pages.browser()).status_code == 403
    assert any("E225 secret oidc/client does not resolve" in (each.refusal or "") for each in pages.accesses())


def test_sign_ins_at_a_slow_provider_leave_the_pages_alone(pages: Pages) -> None:
    import threading

    pages.provider.faults["/.well-known/openid-configuration"] = 200, b" " * 600, 0.1
    provider = pages.people.provider()
    assert provider is not None
    provider.seconds = 2
    found: list[int] = []
    with TestClient(pages.app, base_url="http://localhost", follow_redirects=False) as shared:
        asking = [
            threading.Thread(target=lambda: found.append(shared.get("/sign-in/start").status_code)) for _ in range(20)
        ]
        for each in asking:
            each.start()
        time.sleep(0.5)
        begun = time.monotonic()
        assert shared.get("/livez", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
        assert time.monotonic() - begun < 1.5
        for each in asking:
            each.join()
    assert found.count(429) == 12
    assert found.count(403) == 8


def test_wrong_answers_of_strangers_take_no_place_of_other_sign_ins(pages: Pages) -> None:
    with (
        TestClient(pages.app, base_url="http://localhost", follow_redirects=False) as shared,
        ThreadPoolExecutor(12) as strangers,
    ):
        wrong = [strangers.submit(shared.get, "/sign-in/back?state=x") for _ in range(12)]
        time.sleep(0.3)
        assert shared.get("/sign-in/start").status_code == 303
        assert {each.result().status_code for each in wrong} == {403}


def test_without_a_declared_provider_there_is_no_such_page(pages: Pages) -> None:
    (pages.folder / "waterclock.toml").write_text(stocks.HEADER)
    browser = pages.browser()
    for path in ("/sign-in/start", "/sign-in/back", "/sign-in/out"):
        assert browser.get(path).status_code == 404
    assert "Sign in at" not in browser.get("/sign-in").text
    assert browser.get("/").status_code == 401


def test_pages_do_not_start_if_nobody_could_sign_in(
    pages: Pages, monkeypatch: pytest.MonkeyPatch, provider: OidcProvider
) -> None:
    monkeypatch.delenv("WATERCLOCK_SECRET_OIDC_CLIENT")
    with pytest.raises(WaterclockError, match="oidc/client"), serve_pages(LiveProject(pages.folder), "127.0.0.1", 0):
        pass
    monkeypatch.setattr("waterclock.ui.oidc.provider.find_spec", lambda name: None if name == "joserfc" else name)
    found = pages.people.rules().oidc
    assert found is not None
    with pytest.raises(WaterclockError) as refused:
        Provider(found, lambda _: SECRET).require_usable()
    assert refused.value.code == "E945"
    assert "joserfc" in (refused.value.why or "")
    assert provider.asked == []


def test_a_browser_signs_in_over_real_connections(pages: Pages) -> None:
    with serve_pages(LiveProject(pages.folder), "127.0.0.1", 0) as served:
        pages.provider.redirects = frozenset({f"http://127.0.0.1:{served.port}/sign-in/back"})

        def ask(path: str, cookie: str = "") -> tuple[int, str, list[str]]:
            with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)) as connection:
                connection.request("GET", path, headers={"Cookie": cookie} if cookie else {})
                answer = connection.getresponse()
                answer.read()
                return answer.status, answer.headers.get("location", ""), answer.headers.get_all("set-cookie") or []

        status, address, [cookie] = ask("/sign-in/start")
        assert (status, f"waterclock_sign_in_{served.port}=" in cookie) == (303, True)
        assert "SameSite=lax" in cookie
        assert "Path=/sign-in" in cookie
        back = urlsplit(pages.provider.sign_in(address))
        status, _, cookies = ask(f"{back.path}?{back.query}", cookie.split(";")[0])
        assert status == 303
        session = next(each for each in cookies if each.startswith("waterclock_session_"))
        assert ask("/tables.json", session.split(";")[0])[0] == 200
        assert ask("/tables.json")[0] == 401
