"""The answers of `token`, `session` and `access`: who may do what, and who did."""

from __future__ import annotations

from waterclock.json_models.parts import Answer, AnswerPart, Instant, SortedTexts, TextOrNull


class TokenPart(AnswerPart):
    """An access token, without its value."""

    name: str
    user: str
    """The user who has its rights, as far as the user has them at the moment of use."""
    rights: SortedTexts
    created_at: Instant
    created_by: str
    until: Instant
    """When it ends."""
    revoked_at: Instant | None
    revoked_by: TextOrNull


class NewTokenAnswer(Answer):
    """The created token."""

    token: str
    """Its value, which is stored nowhere and is not shown again."""
    created: TokenPart


class TokensAnswer(Answer):
    """All tokens, oldest first, also those that have ended."""

    tokens: list[TokenPart]


class RevokedTokenAnswer(Answer):
    """The revoked token."""

    revoked: str
    """Its name."""
