"""Verifies ID tokens of an OpenID Connect provider: signature, issuer, audience, times and nonce. Pure logic."""

from __future__ import annotations

import hmac
import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waterclock.permissions.users_and_roles import AttributeClaim, AttributeValue, ClaimType, OidcSettings, is_user_name

if TYPE_CHECKING:
    from joserfc.jwk import ECKey, OKPKey, RSAKey

ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519",
)  # fmt: skip
"""The accepted signatures: only those that need a private key. `none` and HMAC are not among them."""
SKEW = 60
"""The seconds by which the provider's clock may differ from this machine's."""
_ALGORITHM = "the ID token is signed by an algorithm that is not accepted, or not at all"
_MOST_KEYS, _MOST_GROUPS = 100, 10_000
_LONGEST_TEXT, _LARGEST_WHOLE = 1000, 2**63 - 1  # of an attribute: characters, and the largest BIGINT
_VERIFIED = {"email": "email_verified", "phone_number": "phone_number_verified"}
"""Claims that count only if another one is true: before, a person may have entered what belongs to another person."""
_FEWEST_BITS = 2048  # of an RSA key
_HEADER_BYTES, _PAYLOAD_BYTES = 4096, 256 * 1024
_OF_KEY = ("kty", "kid", "alg", "use", "n", "e", "crv", "x", "y")  # never the private parts
_OF_KIND = {"RSA": ("RS", "PS"), "EC": ("ES",), "OKP": ("Ed",)}


class RejectedToken(Exception):
    """An ID token is not valid. The message gives administrators the reason, and contains no text of the token."""


class UnknownKey(RejectedToken):
    """No known key has the id of the token's key: the provider may have new ones."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A person who signed in at the provider, the groups that give rights, and the claims that are attributes."""

    name: str
    groups: tuple[str, ...] = ()
    claims: tuple[tuple[AttributeClaim, AttributeValue], ...] = ()


def keys_of(document: Mapping[str, Any]) -> tuple[RSAKey | ECKey | OKPKey, ...]:
    """Return the keys of a key set that can verify signatures. Keys of unknown kinds are ignored."""
    from joserfc import jwk
    from joserfc.errors import JoseError

    found: list[RSAKey | ECKey | OKPKey] = []
    listed = document.get("keys")
    for each in listed[:_MOST_KEYS] if isinstance(listed, list) else ():
        if not isinstance(each, dict) or str(each.get("kty")) not in _OF_KIND or each.get("use", "sig") != "sig":
            continue
        if each["kty"] == "RSA" and len(str(each.get("n", ""))) * 6 < _FEWEST_BITS:
            continue
        try:
            key = jwk.import_key({name: each[name] for name in _OF_KEY if name in each})
        except (JoseError, ValueError, TypeError, KeyError):
            continue
        if isinstance(key, jwk.RSAKey | jwk.ECKey | jwk.OKPKey):
            found.append(key)
    return tuple(found)


def verify_id_token(
    sent: str, keys: Sequence[RSAKey | ECKey | OKPKey], settings: OidcSettings, *, nonce: str, now: float
) -> Mapping[str, Any]:
    """Verify that the provider signed an ID token for this client and sign-in, and return its claims.

    Raises RejectedToken, or UnknownKey if the key may be in the provider's current key set.
    """
    from joserfc import jwt
    from joserfc.errors import BadSignatureError, ClaimError, JoseError, UnsupportedAlgorithmError
    from joserfc.jws import JWSRegistry

    registry = JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
    registry.max_header_length, registry.max_payload_length = _HEADER_BYTES, _PAYLOAD_BYTES
    try:
        claims = jwt.decode(
            sent.encode("ascii"), lambda token: _find_key(keys, token.headers()), ALGORITHMS, registry
        ).claims
        _claims_registry(settings, now).validate(claims)
    except UnsupportedAlgorithmError:
        raise RejectedToken(_ALGORITHM) from None
    except BadSignatureError:
        raise RejectedToken("the signature of the ID token is not that of the provider's key") from None
    except ClaimError as error:
        raise RejectedToken(
            f"the claim {error.claim[:40]} of the ID token is missing or not the expected one"
        ) from None
    except (JoseError, ValueError, TypeError, KeyError, RecursionError):
        raise RejectedToken("the ID token is not a valid signed token") from None
    audience = claims["aud"]
    if claims.get("azp", settings.client_id) != settings.client_id or (
        isinstance(audience, list) and len(audience) > 1 and "azp" not in claims
    ):
        raise RejectedToken("the ID token was made for another client")
    token_nonce = claims.get("nonce")
    if not isinstance(token_nonce, str) or not hmac.compare_digest(
        token_nonce.encode("utf-8", "replace"), nonce.encode()
    ):
        raise RejectedToken("the nonce of the ID token is not that of this sign-in")
    return claims


def identity_of(claims: Mapping[str, Any], settings: OidcSettings) -> Identity:
    """Return the person that the claims of a verified token name.

    Raises RejectedToken if they name no user, or if a claim that is an attribute has a value of another type.
    """
    claim = settings.user_claim
    name = claims.get(claim)
    if not isinstance(name, str):
        raise RejectedToken(f"the ID token has no text in the claim {claim}: check user_claim and scopes")
    if not is_user_name(name):
        raise RejectedToken(f"the claim {claim} is no name of a user: up to 80 letters, digits and _ . @ + | : -")
    if not _is_verified(claim, claims):
        raise RejectedToken(f"the provider does not state that the value of the claim {claim} is verified")
    claimed = claims.get(settings.group_claim, [])
    groups = [claimed] if isinstance(claimed, str) else claimed if isinstance(claimed, list) else []
    named = {each for each in groups[:_MOST_GROUPS] if isinstance(each, str)}
    values = tuple(
        (each, _attribute_of(claims[each.claim], each))
        for each in dict.fromkeys(settings.attributes.values())
        if claims.get(each.claim) is not None and _is_verified(each.claim, claims)
    )
    return Identity(name, tuple(sorted(named & settings.group_rights.keys())), values)


def _is_verified(claim: str, claims: Mapping[str, Any]) -> bool:
    """Return whether a claim counts: if it is an address or a number, only if the provider has verified it."""
    return claim not in _VERIFIED or claims.get(_VERIFIED[claim]) is True


def _attribute_of(value: object, declared: AttributeClaim) -> AttributeValue:
    """Return the value of a claim as an attribute. Raises RejectedToken if it does not have the declared type."""
    match declared.type, value:
        case ClaimType.BOOLEAN, bool():
            return value
        case ((ClaimType.TEXT | ClaimType.NUMBER), bool()):
            pass
        case ClaimType.NUMBER, int() if abs(value) <= _LARGEST_WHOLE:
            return value
        case ClaimType.NUMBER, float() if math.isfinite(value):
            return value
        case ClaimType.TEXT, str() if len(value) <= _LONGEST_TEXT and not _has_controls(value):
            return value
    limits = {
        ClaimType.TEXT: f"a text of up to {_LONGEST_TEXT} characters without control characters",
        ClaimType.NUMBER: "a number that fits BIGINT or DOUBLE",
        ClaimType.BOOLEAN: "true or false",
    }
    raise RejectedToken(f"the claim {declared.claim[:40]} is not {limits[declared.type]}: check attributes")


def _has_controls(text: str) -> bool:
    """Return whether a text has control characters or halves of surrogate pairs."""
    return any(unicodedata.category(each) in {"Cc", "Cs"} for each in text)


def _find_key(keys: Sequence[RSAKey | ECKey | OKPKey], header: Mapping[str, Any]) -> RSAKey | ECKey | OKPKey:
    """Return the key with the key id of a token, or the only key for its algorithm if the token has no key id."""
    if header.get("alg") not in ALGORITHMS:
        raise RejectedToken(_ALGORITHM)
    fitting = [key for key in keys if str(header["alg"]).startswith(_OF_KIND[key.key_type])]
    kid = header.get("kid")
    if kid is not None:
        fitting = [key for key in fitting if key.kid == kid]
    if not fitting:
        raise UnknownKey("the ID token is signed by a key that the provider does not publish")
    if len(fitting) > 1:
        raise RejectedToken("the ID token does not name its key, and the provider publishes several")
    return fitting[0]


def _claims_registry(settings: OidcSettings, now: float) -> Any:
    from joserfc.jwt import JWTClaimsRegistry

    return JWTClaimsRegistry(
        now=int(now),
        leeway=SKEW,
        iss={"essential": True, "value": settings.issuer},
        aud={"essential": True, "value": settings.client_id},
        sub={"essential": True},
        exp={"essential": True},
        iat={"essential": True},
    )
