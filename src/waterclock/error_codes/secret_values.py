"""Error codes of secrets in project files, of the keyring and Vault, and of tokens."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

SECRETS: Mapping[str, Code] = {
    "E333": Code(
        "credential in a project file",
        "A password, a key or a token is written in a file of the project, so every reader of the file can see it. "
        "Refer to it by the name of a secret, and store its value elsewhere. The error shows no part of the value.",
    ),
    "E920": Code(
        "secret store without a result",
        "The keyring is locked or missing. Or Vault does not respond, or refuses the login or the path. The response "
        "is never logged. If Vault is unreachable, the batch is tried again.",
    ),
    "E921": Code(
        "missing secret store library", "The keyring and Vault each need a library that is an extra of Waterclock."
    ),
    "E923": Code(
        "weak token",
        "A token for the pages, the receiver or the metrics gives access to every client that sends it. It must have "
        "at least 20 random characters. Generate it with a program, as the error shows.",
    ),
    "E924": Code(
        "weak key",
        "A secret of a connection of type keys is too short, or has too few different characters. Whoever guesses it "
        "can compute hashes and read encrypted texts. Generate it with a program, as the error shows.",
    ),
}
