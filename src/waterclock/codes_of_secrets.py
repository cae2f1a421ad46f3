"""Error codes of the keyring and of Vault."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

SECRETS: Mapping[str, Code] = {
    "E920": Code(
        "a keyring or a Vault that gives no secret",
        "The keyring is locked or not there, or Vault does not answer, or refuses the login or the path. What it "
        "answered is in no log. Where Vault is away the batch is tried again.",
    ),
    "E921": Code(
        "the library of a secret store is not installed",
        "The keyring and Vault are asked by libraries that are extras of Waterclock.",
    ),
    "E923": Code(
        "a token that could be guessed",
        "Whoever sends the token of the pages, of the receiver or of the metrics is let in. It has 20 characters or "
        "more, as random as a program makes them.",
    ),
}
