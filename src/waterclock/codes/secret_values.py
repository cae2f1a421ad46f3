"""Error codes of the keyring and of Vault."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

SECRETS: Mapping[str, Code] = {
    "E920": Code(
        "secret store without a result",
        "The keyring is locked or missing, or Vault does not respond, or refuses the login or the path. The response "
        "is never logged. If Vault is unreachable, the batch is tried again.",
    ),
    "E921": Code(
        "missing secret store library", "The keyring and Vault each need a library that is an extra of Waterclock."
    ),
    "E923": Code(
        "weak token",
        "A token for the pages, the receiver or the metrics gives access to every client that sends it. It must have "
        "at least 20 random characters. Generate it with a program.",
    ),
}
