"""Opens PyMySQL connections that send no password to servers that are not verified, and that never wait without end.

PyMySQL itself would send the password to any server that requests it: over TLS in plain text, to an unverified server,
or encrypted with a key that the same server sends.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from waterclock.database_clients.time_limits import limit_connection_time

if TYPE_CHECKING:
    from pymysql.connections import Connection

_CONNECT_SECONDS = 10
_LOGIN_SECONDS = 30
_SILENT_SECONDS = 6 * 3600  # a server sends nothing while it sorts
_MOST_BYTES = 256 << 20  # of a result that is not read row by row
# detects a lost server within a minute; an operating system may not have all of these options
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 60_000}
LACKS_PACKAGE = "package is required"
"""A part of PyMySQL's error message for a login method that needs another package."""
_UNREACHABLE = 2003
_CONNECTION_LOST = 2013
_PASSWORD_REFUSED = 2059
_WANTS_PASSWORD = b"\x01\x04"  # caching_sha2_password: the server does not have the password's hash in its cache


@cache
def _client_type() -> Any:
    """Return the class of the connections. It is defined here because PyMySQL may not be installed."""
    from pymysql.connections import Connection

    class Client(Connection):  # type: ignore[misc, unused-ignore]
        """A connection that raises InternalError for answers that cannot be parsed."""

        is_trusted = False
        _received = 0
        _is_by_row = False

        def query(self, sql: str | bytes, unbuffered: bool = False) -> int:  # noqa: FBT001, FBT002 - PyMySQL's own
            """Execute a statement. The size of its answer is limited, unless rows are read one by one."""
            self._received, self._is_by_row = 0, unbuffered
            with wrap_parser_errors():
                return int(super().query(sql, unbuffered))

        def _read_bytes(self, num_bytes: int) -> bytes:
            from pymysql import OperationalError

            self._received += num_bytes
            if self._received > _MOST_BYTES and not self._is_by_row:
                self._force_close()
                raise OperationalError(_CONNECTION_LOST, f"it gave an answer of more than {_MOST_BYTES >> 20} MiB")
            return bytes(super()._read_bytes(num_bytes))

        def _request_authentication(self) -> None:
            if self._auth_plugin_name == "sha256_password" and self.password and not self.is_trusted:
                _refuse_password()  # with TLS the first message would contain the password
            super()._request_authentication()

    return Client


def connect(address: Mapping[str, Any], *, is_trusted: bool, **settings: Any) -> Connection:
    """Connect to a server. The caller closes the connection.

    Unless the server `is_trusted`, the password is sent only as a hash with a random value of the server. This is
    sufficient for mysql_native_password, ed25519, and caching_sha2_password once the server has cached the login.

    Raises OperationalError for a server that requests more, InternalError for answers that cannot be parsed.
    """
    from pymysql import OperationalError

    more = {} if is_trusted else {"auth_plugin_map": _UNTRUSTED}
    client: Any = _client_type()(**address, **settings, **more, read_timeout=_LOGIN_SECONDS, defer_connect=True)
    client.is_trusted = is_trusted
    opened = _open_socket(address)
    client._secure = "unix_socket" in address  # noqa: SLF001 - PyMySQL sets it for sockets that it opens itself
    try:
        with wrap_parser_errors(), limit_connection_time(_LOGIN_SECONDS, opened.fileno()):
            client.connect(opened)
    except TimeoutError as error:
        client._force_close()  # noqa: SLF001 - without COM_QUIT
        raise OperationalError(
            _CONNECTION_LOST, f"the login was not complete after {_LOGIN_SECONDS:g} seconds"
        ) from error
    client._read_timeout = _SILENT_SECONDS  # noqa: SLF001 - PyMySQL has one limit for logins and statements
    connection: Connection = client
    return connection


@contextmanager
def wrap_parser_errors() -> Iterator[None]:
    """Convert Python errors that PyMySQL raises while it parses an answer to InternalError."""
    from pymysql import Error, InternalError

    try:
        yield
    except (Error, OSError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, RuntimeError) and LACKS_PACKAGE in str(error):
            raise
        raise InternalError(f"the answer of the server cannot be read ({type(error).__name__}: {error})") from error


def _open_socket(address: Mapping[str, Any]) -> socket.socket:
    from pymysql import OperationalError

    path, host = address.get("unix_socket"), address["host"]
    try:
        if path is not None:
            return _open_unix_socket(path)
        opened = socket.create_connection((host, address["port"]), _CONNECT_SECONDS)
    except OSError as error:
        raise OperationalError(_UNREACHABLE, f"Can't connect to MySQL server on {path or host!r} ({error})") from error
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return opened


def _open_unix_socket(path: str) -> socket.socket:
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        opened.settimeout(_CONNECT_SECONDS)
        opened.connect(path)
    except BaseException:
        opened.close()
        raise
    return opened


class _RevealingLogin:
    """Refuses a login method that sends the password itself, or a hash that is easily reversed."""

    def __init__(self, _connection: Connection) -> None:
        """Take the argument that PyMySQL passes."""

    def authenticate(self, _packet: Any) -> NoReturn:
        """Raise OperationalError and send nothing."""
        _refuse_password()


class _CachedLogin:
    """The login method caching_sha2_password without its second step, which would send the password itself."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def authenticate(self, packet: Any) -> Any:
        """Send the scrambled password; raise OperationalError if the server requests more."""
        from pymysql import _auth

        connection: Any = self._connection
        if packet.is_auth_switch_request():
            connection.salt = packet.read_all().removesuffix(b"\0")
            connection.write_packet(_auth.scramble_caching_sha2(connection.password, connection.salt))
            packet = connection._read_packet()  # noqa: SLF001 - as PyMySQL's own methods do
        if packet.get_all_data()[:2] == _WANTS_PASSWORD and connection.password:
            _refuse_password()
        return _auth.caching_sha2_password_auth(connection, packet) if packet.is_extra_auth_data() else packet


_UNTRUSTED: dict[str, Callable[[Any], Any]] = {
    "mysql_clear_password": _RevealingLogin,
    "dialog": _RevealingLogin,
    "sha256_password": _RevealingLogin,
    "mysql_old_password": _RevealingLogin,
    "caching_sha2_password": _CachedLogin,
}


def _refuse_password() -> NoReturn:
    from pymysql import OperationalError

    raise OperationalError(
        _PASSWORD_REFUSED,
        "it asks for the password itself, and nothing shows that it is the right server; the password was not sent: "
        "set ca, connect by a unix_socket in a folder that not every user can write to, or set trust_server = true if "
        "no other server can answer at this address",
    )
