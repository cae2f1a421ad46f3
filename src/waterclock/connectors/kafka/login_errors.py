"""Builds the errors for logins and certificates that a Kafka cluster or its client refuses.

After a refused login the client waits until its timeout, and reports the refusal only to its error callback. For a
certificate it reports no reason, only that the verification failed. So the TLS handshake is repeated in Python, which
reports the reason. Errors contain no secret.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.errors import WaterclockError
from waterclock.http.server_certificate import check_handshake

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, KafkaException

_ERROR_TEXT = re.compile(r"^\w+://(?P<at>[^/\s]+)/\S+: (?P<message>.*?)(?: \(after \d+ms.*\))?$", re.DOTALL)
_TIMEOUTS = frozenset({"_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT_QUEUE"})
_HANDSHAKE_SECONDS = 3.0
_EXPIRED, _OTHER_NAME, _OTHER_ADDRESS = 10, 62, 64  # of OpenSSL
_ALERT, _UNVERIFIED = "alert", "verify failed"
_FILES = {"ca": "ssl.ca.location", "certificate": "ssl.certificate.location", "key": "ssl.key.location"}
KEY_PASSWORD = "ssl.key.password"  # noqa: S105 - the name of a setting


@dataclass(slots=True)
class ErrorListener:
    """Receives errors from the client's error callback.

    `refusal` is the last refused login or certificate, `last` the last error of any kind.
    """

    refusal: KafkaError | None = None
    last: KafkaError | None = None
    are_all_down: bool = False

    def __call__(self, error: KafkaError) -> None:
        """Record an error of the client."""
        if error.name() == "_ALL_BROKERS_DOWN":
            self.are_all_down = True
            return
        self.last = error
        if is_of_login(error) or is_of_tls(error):
            self.refusal = error

    def raise_if_refused(self) -> None:
        """Raise the recorded refusal if all brokers are down or refuse the client, as waiting would not help."""
        from confluent_kafka import KafkaException

        if self.refusal is not None and self.are_all_down:
            raise KafkaException(self.refusal)

    def choose_error(self, error: KafkaException) -> KafkaException:
        """Return the recorded error if the given one only reports a timeout; else the given one."""
        from confluent_kafka import KafkaException

        known = self.refusal or self.last
        return error if known is None or error.args[0].name() not in _TIMEOUTS else KafkaException(known)


def is_of_login(error: KafkaError) -> bool:
    """Return whether an error is the refusal of a user, password, token or mechanism."""
    return error.name() in {"_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM"}


def is_of_tls(error: KafkaError) -> bool:
    """Return whether an error is about a certificate of a broker or of the client.

    A handshake that was cut off does not count, as the broker may be shutting down.
    """
    message = error.str()
    is_of_files = error.name() in {"_INVALID_ARG", "_SSL"} and any(
        f"{name} failed" in message for name in _FILES.values()
    )
    is_of_peers = error.name() in {"_SSL", "_TRANSPORT"} and (_ALERT in message or _UNVERIFIED in message)
    return is_of_files or is_of_peers


def refused_login_error(error: KafkaError, settings: Mapping[str, str], where: str) -> WaterclockError:
    """Build the error for a refused login. It is transient, because a retry reads a changed password."""
    at, message = _split_error_text(error.str())
    mechanism = settings.get("sasl.mechanism", "")
    if "handshake failed" in message or error.name() == "UNSUPPORTED_SASL_MECHANISM":
        offered = message.rpartition("supported mechanisms:")[2].strip()
        return WaterclockError(
            "E855",
            f"Kafka does not support the mechanism {mechanism}",
            where=where,
            why=f"{at}: it supports {offered or 'no login at this address'}",
            fix=f"set mechanism to one of {offered}" if offered else "use an address that requires a login",
        )
    kind = "token_file" if mechanism == "OAUTHBEARER" else "password"
    return WaterclockError(
        "E855",
        "Kafka refuses the login",
        where=where,
        why=f"{at}: {message}",
        fix="check that token_file has a token of this cluster"
        if kind == "token_file"
        else f"check username and password, and that the user exists for {mechanism}; a changed secret is read "
        "again at the next try",
        transient=True,
    )


def missing_token_error(why: str, where: str) -> WaterclockError:
    """Build the error for a missing token."""
    return WaterclockError(
        "E855",
        "there is no token for Kafka",
        where=where,
        why=why,
        fix="write a token there, or correct token_file of the connection",
        transient=True,
    )


def refused_tls_error(error: KafkaError, settings: Mapping[str, str], where: str) -> WaterclockError:
    """Build the error that names the certificate or key that is wrong.

    Cost: a handshake with the broker, and one within this process.
    """
    at, message = _split_error_text(error.str())
    for option, name in _FILES.items():
        if f"{name} failed" in message:
            return _certificate_file_error(option, message, settings, where)
    what, why, fix = (
        _explain_broker_certificate(at, settings) if _UNVERIFIED in message else _explain_client_certificate(settings)
    )
    return WaterclockError("E864", what, where=where, why=f"{at}: {why or message}", fix=fix)


def speaks_tls(server: str) -> bool:
    """Return whether a server responds with TLS, whatever its certificate. Cost: a handshake."""
    anyone = ssl.create_default_context()
    anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
    try:
        _shake_hands(server, anyone)
    except (OSError, ValueError):
        return False
    return True


def client_context(ca: str | None) -> ssl.SSLContext:
    """Return a TLS context that verifies a broker's certificate by the same rules as Kafka's client."""
    context = ssl.create_default_context(cafile=ca)
    # Python 3.13 sets both by default; Kafka's client sets neither
    context.verify_flags &= ~(ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN)
    return context


def _explain_broker_certificate(at: str, settings: Mapping[str, str]) -> tuple[str, str, str]:
    ca = settings.get(_FILES["ca"])
    try:
        _shake_hands(at, client_context(ca))
    except ssl.SSLCertVerificationError as error:
        code, why = error.verify_code, error.verify_message
    except (OSError, ValueError):
        code, why = 0, ""
    else:
        code, why = 0, ""
    if code == _EXPIRED:
        return "the certificate of a broker has expired", why, "renew it on the broker; nothing needs to be fixed here"
    if code in {_OTHER_NAME, _OTHER_ADDRESS}:
        fix = "use the host names of the certificates, in servers and in the brokers' advertised.listeners"
        return "the certificate of a broker belongs to another host", why, fix
    fix = (
        f"set ca to a file with the certificate of the authority that signed it; {ca} is from another one"
        if ca
        else "set ca to a file with the certificate of the authority that signed it"
    )
    return "the certificate of a broker is not trusted", why, fix


def _explain_client_certificate(settings: Mapping[str, str]) -> tuple[str, str, str]:
    certificate = settings.get(_FILES["certificate"])
    if certificate is None:
        return (
            "Kafka requires a client certificate",
            "the connection has none",
            "set certificate and key of the connection, and key_password as a secret if the key is encrypted",
        )
    if why := _client_certificate_problem(settings):
        return "the client certificate is not valid", f"{certificate}: {why}", "renew it; the file is read each time"
    fix = "check that an authority signed it that the brokers trust (ssl.truststore there)"
    return "Kafka refuses the client certificate", f"{certificate} is not accepted", fix


def _client_certificate_problem(settings: Mapping[str, str]) -> str:
    """Return the problem of the client's certificate, such as its expiry; empty if none is found.

    It is checked in a TLS handshake within this process, whose other end trusts only this certificate.
    """
    certificate, key = settings[_FILES["certificate"]], settings.get(_FILES["key"])
    presenter = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        presenter.load_cert_chain(certificate, key, lambda: settings.get(KEY_PASSWORD, ""))
        check_handshake(presenter, certificate)
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except (OSError, ValueError):
        return ""
    return ""


def _certificate_file_error(option: str, message: str, settings: Mapping[str, str], where: str) -> WaterclockError:
    path = settings[_FILES[option]]
    if not Path(path).is_file():
        what, why, fix = f"there is no file for {option}", path, f"create it, or correct {option} of the connection"
    elif "mismatch" in message:
        what, why = "key does not belong to certificate", f"{path} belongs to another certificate"
        fix = "set key to the key that the certificate was created with"
    elif option == "key" and "PEM" in message:
        has_password = KEY_PASSWORD in settings
        what = "the key cannot be opened"
        why = f"{path}: {'key_password does not decrypt it' if has_password else 'it is encrypted, or not PEM'}"
        fix = "correct the secret of key_password" if has_password else "set key_password, as a secret"
    else:
        what, why, fix = (
            f"{option} cannot be read",
            f"{path} is not PEM",
            "convert it to PEM: -----BEGIN CERTIFICATE-----",
        )
    return WaterclockError("E864", what, where=where, why=why, fix=fix)


def _shake_hands(server: str, context: ssl.SSLContext) -> None:
    host, _, port = server.rpartition(":")
    host = host.strip("[]")
    with (
        socket.create_connection((host, int(port)), _HANDSHAKE_SECONDS) as connection,
        context.wrap_socket(connection, server_hostname=host),
    ):
        pass


def _split_error_text(message: str) -> tuple[str, str]:
    """Split an error text into the broker and its message, without the prefix and the times that the client adds."""
    found = _ERROR_TEXT.match(message)
    return (found["at"], found["message"]) if found else ("the client", message)
