"""Reads secrets from the system's keyring (library keyring), or from Vault and compatible servers (library hvac)."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waterclock.database_clients.time_limits import call_in_time
from waterclock.errors import WaterclockError
from waterclock.extras import extra_install_command

if TYPE_CHECKING:
    import hvac

    from waterclock.secrets.reader import VaultPlace

_TIMEOUT = 10.0  # seconds
_SECONDS_KEPT = 5.0
_MOST_SECONDS, _MOST_BYTES = 30.0, 1 << 20  # for the login and the response together, and for each response
# Vault's values with the monotonic time of their reading; only in this process, and never for missing secrets
_cache: dict[tuple[VaultPlace, str], tuple[float, str]] = {}
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


def read_from_keyring(service: str, name: str) -> str | None:
    """Return the value in this user's keyring for a service and a name, or None.

    Raises E920 if the keyring cannot be read, and E921 if the library is not installed.
    """
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError as error:
        raise _missing_library_error("keyring", error) from error
    try:
        return keyring.get_password(service, name)
    except KeyringError as error:
        raise WaterclockError(
            "E920",
            "the keyring cannot be read",
            where=name,
            why=f"{keyring.get_keyring().name}: {' '.join(str(error).split()) or type(error).__name__}",
            fix="unlock it, or choose another backend: python -m keyring --list-backends",
        ) from error


def read_from_vault(place: VaultPlace, name: str, read_local: Callable[[str], str]) -> str | None:
    """Return the value that Vault has for a name, or None.

    `read_local` returns the value of a secret by its name, for the login to Vault. Cost: one login and one request at
    most every five seconds. So a check of a thousand tables of a connection makes one request.

    Raises E225 as `read_local` does, E920 if Vault does not answer, refuses, or the configuration is incomplete, and
    E921 if hvac is not installed.
    """
    at, known = _cache.get((place, name), (0.0, ""))
    if time.monotonic() < at + _SECONDS_KEPT and known:
        return known
    try:
        import hvac
        import requests
    except ImportError as error:
        raise _missing_library_error("vault", error) from error
    path, _, key = _full_path(place, name).rpartition("/")
    if not path:
        raise _refusal(
            place,
            name,
            "a name without a slash has no path",
            f'write vault = {{ path = "…" }}, or name it <path>/{name}',
        )
    try:
        # requests limits each read, and so a response whose headers arrive byte by byte would have no limit
        kept = call_in_time(_MOST_SECONDS, lambda: _read(_client(place, name, read_local), place, path))
    except hvac.exceptions.InvalidPath:
        return None
    except (
        hvac.exceptions.VaultDown,
        hvac.exceptions.BadGateway,
        hvac.exceptions.RateLimitExceeded,
        hvac.exceptions.InternalServerError,
    ) as error:
        raise _unavailable_vault_error(place, name, error) from error
    except requests.exceptions.SSLError as error:
        why = "its certificate is not trusted, or it refuses the client certificate"
        raise _refusal(place, name, why, "set ca = '…' to the certificate of the authority that signed it") from error
    except (requests.exceptions.RequestException, OSError) as error:
        raise _unavailable_vault_error(place, name, error) from error
    except hvac.exceptions.VaultError as error:
        fix = "check the login, its policy and the path"
        raise _refusal(place, name, _format_error(error), fix) from error
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        why = f"its answer cannot be read ({type(error).__name__})"
        raise _refusal(place, name, why, "check that the url is that of a Vault server") from error
    value = kept.get(key)
    if value is None:
        return None
    _cache[place, name] = time.monotonic(), str(value)
    return str(value)


def describe_vault_entry(place: VaultPlace, name: str) -> str:
    """Describe where a secret is looked up in Vault: `password of secret/shop/ops in Vault at https://…`."""
    path, _, key = _full_path(place, name).rpartition("/")
    return f"{key} of {place.mount}/{path} in Vault at {place.url}"


def _full_path(place: VaultPlace, name: str) -> str:
    return "/".join(part for part in (place.path.strip("/"), name.strip("/")) if part)


def _client(place: VaultPlace, name: str, read_local: Callable[[str], str]) -> hvac.Client:
    import hvac

    client = hvac.Client(
        url=place.url,
        # otherwise hvac uses the token of the logged-in user, even with another auth method
        token="" if place.auth != "token" or place.token else None,
        verify=str(place.ca) if place.ca else True,
        cert=(str(place.certificate), str(place.key)) if place.certificate else None,
        timeout=_TIMEOUT,
        namespace=place.namespace,
    )
    for scheme in ("https://", "http://"):
        client.session.mount(scheme, _adapter_type()())
    if place.auth == "approle":
        role = _require_setting(place, name, "role")
        secret_id = read_local(place.secret_id) if place.secret_id else None
        client.auth.approle.login(role, secret_id, mount_point=place.auth_mount or "approle")
    elif place.auth == "kubernetes":
        role, account = _require_setting(place, name, "role"), _SERVICE_ACCOUNT.read_text(encoding="utf-8")
        client.auth.kubernetes.login(role, account, mount_point=place.auth_mount or "kubernetes")
    elif place.auth == "certificate":
        _require_setting(place, name, "certificate")
        certificate, key = str(place.certificate), str(place.key)
        client.auth.cert.login(
            place.role or "", cert_pem=certificate, key_pem=key, mount_point=place.auth_mount or "cert"
        )
    elif place.token:
        client.token = read_local(place.token)
    elif not client.token:
        why = "no token is set, and neither VAULT_TOKEN nor ~/.vault-token exists"
        raise _refusal(place, name, why, 'log in, or write vault = { token = "name" }')
    return client


@cache
def _adapter_type() -> Any:
    """Return the class that sends requests. The library may not be installed, so it is imported where it is used."""
    from requests.adapters import HTTPAdapter
    from requests.exceptions import ConnectionError as NoResponse

    class Adapter(HTTPAdapter):
        """Reads responses within limits; requests itself limits only the time for each piece."""

        def send(self, *sent: Any, **settings: Any) -> Any:
            """Send a request."""
            response = super().send(*sent, **{**settings, "stream": True})
            content, end = bytearray(), time.monotonic() + _MOST_SECONDS
            for byte in response.iter_content(1):  # more would be waited for
                content += byte
                if len(content) > _MOST_BYTES or time.monotonic() > end:
                    response.close()
                    raise NoResponse("the response is too long, or not complete in time")
            response._content = bytes(content)  # noqa: SLF001 - where requests itself keeps it
            return response

    return Adapter


def _require_setting(place: VaultPlace, name: str, key: str) -> str:
    value = getattr(place, key)
    if value is None:
        raise _refusal(place, name, f"auth {place.auth} needs a {key}", f"add {key} = '…' next to auth")
    return str(value)


def _read(client: hvac.Client, place: VaultPlace, path: str) -> dict[str, Any]:
    if place.version == 1:
        return dict(client.secrets.kv.v1.read_secret(path, mount_point=place.mount)["data"])
    answer = client.secrets.kv.v2.read_secret_version(path, mount_point=place.mount, raise_on_deleted_version=True)
    return dict(answer["data"]["data"])


def _format_error(error: Exception) -> str:
    """Return a server's message in one line. hvac's text contains the request, but no value."""
    errors = getattr(error, "errors", None)
    return "; ".join(map(str, errors)) if errors else " ".join(str(error).split()) or type(error).__name__


def _unavailable_vault_error(place: VaultPlace, name: str, error: Exception) -> WaterclockError:
    return WaterclockError(
        "E920",
        "Vault does not answer",
        where=name,
        why=f"{place.url}: {type(error).__name__}",
        fix="it is tried again; check that it runs, is unsealed, and can be reached from here",
        transient=True,
    )


def _refusal(place: VaultPlace, name: str, why: str, fix: str) -> WaterclockError:
    return WaterclockError("E920", "Vault does not return the secret", where=name, why=f"{place.url}: {why}", fix=fix)


def _missing_library_error(extra: str, error: ImportError) -> WaterclockError:
    return WaterclockError(
        "E921",
        f"secrets of {'the keyring' if extra == 'keyring' else 'Vault'} need a library that is not installed",
        why=str(error),
        fix=extra_install_command(extra),
    )
