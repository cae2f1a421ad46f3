"""Error codes of users, roles, rights, access tokens and sessions."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

ACCESS: Mapping[str, Code] = {
    "E940": Code(
        "missing right",
        "The person has no right to do this. Rights are look, query, run, release, erase, send and administer. A user "
        "has the rights of all their roles, which waterclock.toml declares. An access token can have fewer.",
    ),
    "E941": Code(
        "invalid role or user",
        "The sections [roles] and [users] declare who may do what. A role is a list of rights, and a user has a list "
        "of roles. The name of a right or a role is unknown, or a name is not valid.",
    ),
    "E942": Code(
        "invalid access token",
        "The token cannot be created. It needs a name that no token had before, a declared user, rights that this user "
        "has, and an end in the future.",
    ),
    "E943": Code("unknown access token", "There is no such token, or it was revoked before."),
    "E944": Code(
        "unusable certificate",
        "Pages, events or metrics cannot be served by HTTPS. The certificate or its private key cannot be read, the "
        "two do not belong together, the key has a password, or the certificate has expired.",
    ),
    "E945": Code(
        "sign-in at a provider",
        "People cannot sign in by OpenID Connect: a setting of [sign_in.oidc] is not valid, the provider does not "
        "answer as it should, or its answer has no valid ID token. The person who signs in sees no reason; "
        "`waterclock access` shows it.",
    ),
    "E946": Code(
        "not granted",
        "The person does not see all of a table, and this page or function would show more than is granted, or a form "
        "cannot evaluate the condition of the grant. "
        "Queries of the tables that are granted stay possible.",
    ),
    "E947": Code(
        "the query failed",
        "The query of a person who does not see all tables failed while it ran. The reason is not shown, because it "
        "could contain values that are not granted.",
    ),
    "E382": Code(
        "invalid grant",
        "A GRANT shows rows and columns of tables to roles or users. It names a role, a user or an attribute that "
        "waterclock.toml does not declare, or a view or another object that cannot be granted. Masks and conditions "
        "are deterministic SQL expressions of one row. Each table with a GRANT must be visible to some user. GRANT "
        "EDIT and GRANT APPROVE are for tables that collect a form, without masks. Their conditions compare columns "
        "with literals and attributes, and use IN, IS NULL, AND, OR and NOT.",
    ),
}
