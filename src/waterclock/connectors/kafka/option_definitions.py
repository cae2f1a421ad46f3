"""Defines the options of Kafka connections, collects and publishes, and finds contradictory ones. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from waterclock.flow.capabilities import InvalidOption, Option

BY_TOKEN = "OAUTHBEARER"  # noqa: S105 - the name of a mechanism
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", BY_TOKEN)
OF_CONNECTION: Mapping[str, Option] = {
    "servers": Option(is_required=True, help="one or more of its brokers, as host:port,host:port"),
    "security": Option(
        choices=("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"), help="the protocol; default plaintext"
    ),
    "mechanism": Option(choices=_MECHANISMS, help="the kind of login, with security sasl_plaintext or sasl_ssl"),
    "username": Option(help="the user of the login"),
    "password": Option(is_secret=True, help="the user's password, as a secret"),
    "token_file": Option(help="a file with the token for OAUTHBEARER, read again before the token expires"),
    "ca": Option(help="a file with CA certificates to trust for brokers; default those of the machine"),
    "certificate": Option(help="a file with this client's certificate"),
    "key": Option(help="a file with the key of the client's certificate"),
    "key_password": Option(is_secret=True, help="the password of the key, as a secret"),
    "registry": Option(help="the address of a schema registry, for Avro"),
    "registry_user": Option(help="the user of the registry"),
    "registry_password": Option(is_secret=True, help="the password of that user, as a secret"),
    "registry_ca": Option(help="a file with CA certificates to trust for the registry; default those of the machine"),
    "timeout": Option("number", help="seconds to wait for a response; default 30"),
}
OF_COLLECT: Mapping[str, Option] = {
    "format": Option(choices=("json", "avro", "text", "raw"), help="the format of values; default json"),
    "from": Option(choices=("earliest", "start", "latest"), help="where the first label begins; default earliest"),
    "metadata": Option("flag", help="whether to add columns such as kafka_key and kafka_offset; default false"),
    "schema": Option(help="a file with the schema of Avro values; default the newest of the registry"),
    "without": Option(help="lost offsets or a deleted topic to continue without, as the error writes them"),
}
OF_PUBLISH: Mapping[str, Option] = {
    "format": Option(choices=("json", "text", "raw"), help="the format of values; default json"),
    "key": Option(help="the columns of a record's key; default those of KEY"),
    "headers": Option(help="the columns that are sent as headers"),
    "keep": Option(choices=("all",), help="with format raw: also keep partition, order and time"),
    "in_flight": Option("number", help="the most requests in flight at once; default 5"),
    "ends": Option("flag", help="whether to send a message to each partition when a label ends; default false"),
}
_OF_USERS = ("mechanism", "username", "password", "token_file")
_OF_TLS = ("ca", "certificate", "key", "key_password")
_PAIRS = {
    "certificate": "key",
    "key": "certificate",
    "key_password": "key",
    "registry_user": "registry_password",
    "registry_password": "registry_user",
    "registry_ca": "registry",
}


def wrong_options(what: str, options: Mapping[str, Any], path: str) -> Iterator[InvalidOption]:
    """Yield errors for contradictory options of a connection, a collect or a publish."""
    del path
    if what == "connection":
        yield from _wrong_login(options)
        yield from _wrong_registry(options)
        timeout = options.get("timeout")
        if isinstance(timeout, int | float) and timeout <= 0:
            yield InvalidOption(
                "E324",
                "timeout",
                f"timeout must be greater than 0, not {timeout}",
                "",
                "set a number of seconds greater than 0",
            )
    elif what == "publish":
        yield from _wrong_sending(options)
    elif options.get("schema") is not None and options.get("format") != "avro":
        yield InvalidOption("E323", "schema", "schema is set without format 'avro'", "", "add format 'avro'")
    elif options.get("metadata") and options.get("format") == "raw":
        yield InvalidOption(
            "E323",
            "metadata",
            "metadata is set with format 'raw'",
            "format 'raw' always has these columns",
            "leave it out",
        )


def _wrong_login(options: Mapping[str, Any]) -> Iterator[InvalidOption]:
    security = str(options.get("security", "plaintext"))
    for name, other in _PAIRS.items():
        if name in options and other not in options:
            yield InvalidOption("E322", name, f"{name} is set without {other}", "", f"add {other}")
    for names, needed, both in ((_OF_USERS, "sasl", "sasl_ssl"), (_OF_TLS, "ssl", "ssl")):
        for name in names:
            if name in options and needed not in security:
                why = f"security is {security}, which uses no {'user' if names is _OF_USERS else 'certificate'}"
                yield InvalidOption(
                    "E322", name, f"{name} is set, and not used", why, f"set security '{both}', or leave it out"
                )
                break
    if "sasl" in security:
        yield from _wrong_user(options)


def _wrong_user(options: Mapping[str, Any]) -> Iterator[InvalidOption]:
    mechanism = options.get("mechanism")
    if mechanism is None:
        why = f"it is one of {', '.join(_MECHANISMS)}"
        yield InvalidOption(
            "E322", "", "the login has no mechanism", why, "set mechanism, as in mechanism 'SCRAM-SHA-512'"
        )
        return
    wanted, others = (
        (("token_file",), ("username", "password"))
        if mechanism == BY_TOKEN
        else (("username", "password"), ("token_file",))
    )
    for name in wanted:
        if name not in options:
            yield InvalidOption("E322", "mechanism", f"{mechanism} is set without {name}", "", f"add {name}")
    for name in others:
        if name in options:
            yield InvalidOption("E322", name, f"{name} is not used by {mechanism}", "", f"leave {name} out")


def _wrong_registry(options: Mapping[str, Any]) -> Iterator[InvalidOption]:
    address = options.get("registry")
    if not isinstance(address, str):
        return
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        yield InvalidOption(
            "E324", "registry", "registry is not a web address", "", "write it like https://registry:8081"
        )
    elif parts.username or parts.password:
        yield InvalidOption(
            "E333",
            "registry",
            "the registry's address contains a user or a password",
            "it would be shown in plans and logs",
            "set registry_user, and registry_password as a secret",
        )


def _wrong_sending(options: Mapping[str, Any]) -> Iterator[InvalidOption]:
    most = options.get("in_flight")
    if isinstance(most, int | float) and not (most >= 1 and most == int(most) and most <= 5):
        why = "a transactional producer has at most 5 requests in flight"
        yield InvalidOption("E324", "in_flight", f"in_flight must be 1 to 5, not {most}", why, "set 1 to 5")
    if options.get("keep") == "all":
        if options.get("format") != "raw":
            why = "keep 'all' sends records as they were collected"
            yield InvalidOption("E323", "keep", "keep 'all' is set without format 'raw'", why, "add format 'raw'")
        for name in ("key", "headers", "ends"):
            if options.get(name):
                why = "keep 'all' sends records as they were collected, and nothing else"
                yield InvalidOption("E323", name, f"{name} is set with keep 'all'", why, "leave one of them out")
    elif options.get("format") == "raw":
        for name in ("key", "headers"):
            if name in options:
                why = f"format 'raw' uses the column{'s' if name == 'headers' else ''} {name}"
                yield InvalidOption("E323", name, f"{name} is set with format 'raw'", why, "leave it out")
