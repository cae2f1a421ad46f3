"""The certificate with which a server is reached by HTTPS, and its check before the server starts."""

from __future__ import annotations

import ssl
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from waterclock.errors import WaterclockError

_BEGINNING = b"-----BEGIN CERTIFICATE-----"
_FIX = "give the certificate with --certificate, and its private key without a password with --key"


@dataclass(frozen=True, slots=True)
class Certificate:
    """The files of a server's certificate, with its chain, and of its private key, both as PEM."""

    file: Path
    key: Path

    def require_usable(self) -> None:
        """Raise E944 if a file cannot be read, if certificate and key do not match, or if clients would refuse it.

        Clients refuse a certificate that has expired. Whether they trust its authority is not checked.
        """
        for file in (self.file, self.key):
            try:
                file.open("rb").close()
            except OSError as error:
                raise _unusable(file, error.strerror or str(error), _FIX) from error
        server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            server.load_cert_chain(self.file, self.key, _refuse_password)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise _unusable(self.file, f"{self.key} is the key of another certificate", _FIX) from error
            if _BEGINNING not in _head_of(self.file) and _BEGINNING in _head_of(self.key):
                raise _unusable(self.key, "it is a certificate, not a key", "exchange the two files") from error
            raise _unusable(self.file, f"it is not PEM: {error}", _FIX) from error
        except (OSError, ValueError) as error:
            raise _unusable(self.key, str(error), _FIX) from error
        if why := self._why_refused(server):
            raise _unusable(self.file, f"clients would refuse it: {why}", "renew it, then start again")

    def _why_refused(self, server: ssl.SSLContext) -> str:
        """Return why a client that trusts this certificate alone refuses it; "" if it does not."""
        try:
            check_handshake(server, self.file)
        except ssl.SSLCertVerificationError as error:
            return error.verify_message
        except ssl.SSLError as error:
            return str(error)
        return ""


def check_handshake(server: ssl.SSLContext, certificate: str | Path) -> None:
    """Do a TLS handshake within this process, with a client that trusts only this certificate.

    Raises SSLCertVerificationError if the client refuses the certificate, SSLError for other failures.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(certificate)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True)
    for end in ends * 2:
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()


def _head_of(file: Path) -> bytes:
    with file.open("rb") as read:
        return read.read(1 << 20)


def _refuse_password() -> str:
    raise ValueError("the private key has a password")


def _unusable(file: Path, why: str, fix: str) -> WaterclockError:
    return WaterclockError(
        "E944", "nothing can be served by HTTPS with this certificate", where=str(file), why=why, fix=fix
    )
