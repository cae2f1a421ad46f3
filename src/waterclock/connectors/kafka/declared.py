"""Defines the options of a connection, a collect and a publish, and finds contradictory ones. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from waterclock.flow.capabilities import Option, Wrong

BY_TOKEN = "OAUTHBEARER"  # noqa: S105 - the name of a mechanism
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", BY_TOKEN)
OF_CONNECTION: Mapping[str, Option] = {
    "servers": Option(is_required=True, help="some of its brokers, as host:port,host:port"),
    "security": Option(choices=("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"), help="plaintext"),
    "mechanism": Option(choices=_MECHANISMS, help="how we show who we are, with security sasl_plaintext or sasl_ssl"),
    "username": Option(help="its user"),
    "password": Option(is_secret=True, help="the user's password, as a secret"),
    "token_file": Option(help="a file with the token of OAUTHBEARER, read again before it ends"),
    "ca": Option(help="a file of certificates that brokers are trusted by; the machine's"),
    "certificate": Option(help="a file with this client's certificate"),
    "key": Option(help="a file with the certificate's key"),
    "key_password": Option(is_secret=True, help="what opens the key, as a secret"),
    "registry": Option(help="the address of a schema registry, for Avro"),
    "registry_user": Option(help="its user"),
    "registry_password": Option(is_secret=True, help="the user's password, as a secret"),
    "registry_ca": Option(help="a file of certificates that the registry is trusted by; the machine's"),
    "timeout": Option("number", help="seconds to wait for an answer; 30"),
}
OF_COLLECT: Mapping[str, Option] = {
    "format": Option(choices=("json", "avro", "text", "raw"), help="what values are; json"),
    "from": Option(choices=("earliest", "start", "latest"), help="where the first label begins; earliest"),
    "metadata": Option("flag", help="whether kafka_key, kafka_offset and the like come beside a value; false"),
    "schema": Option(help="a file with the schema of Avro values; the registry's newest"),
    "without": Option(help="what is gone and is to be done without, as the error names it"),
}
OF_PUBLISH: Mapping[str, Option] = {
    "format": Option(choices=("json", "text", "raw"), help="what values are; json"),
    "key": Option(help="the columns that make a record's key; those of KEY"),
    "headers": Option(help="the columns that are sent as headers"),
    "keep": Option(choices=("all",), help="with format raw: partition, order and time are kept as well"),
    "in_flight": Option("number", help="how many requests may be under way at once; 5"),
    "ends": Option("flag", help="whether each partition is told where a label ends; false"),
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


def wrong_options(what: str, options: Mapping[str, Any], path: str) -> Iterator[Wrong]:
    """Yield contradictory options of a connection, a collect or a publish."""
    del path
    if what == "connection":
        yield from _wrong_login(options)
        yield from _wrong_registry(options)
        timeout = options.get("timeout")
        if isinstance(timeout, int | float) and timeout <= 0:
            yield Wrong("E324", "timeout", f"timeout is {timeout}", "", "say how many seconds, more than 0")
    elif what == "publish":
        yield from _wrong_sending(options)
    elif options.get("schema") is not None and options.get("format") != "avro":
        yield Wrong("E323", "schema", "schema is said without format 'avro'", "", "say format 'avro' too")
    elif options.get("metadata") and options.get("format") == "raw":
        yield Wrong("E323", "metadata", "metadata is said with format 'raw'", "raw has them all", "leave it out")


def _wrong_login(options: Mapping[str, Any]) -> Iterator[Wrong]:
    security = str(options.get("security", "plaintext"))
    for name, other in _PAIRS.items():
        if name in options and other not in options:
            yield Wrong("E322", name, f"{name} is said without {other}", "", f"say {other} too")
    for names, needed, both in ((_OF_USERS, "sasl", "sasl_ssl"), (_OF_TLS, "ssl", "ssl")):
        for name in names:
            if name in options and needed not in security:
                why = f"security is {security}, which asks for no {'user' if names is _OF_USERS else 'certificate'}"
                yield Wrong(
                    "E322", name, f"{name} is said, and not used", why, f"say security '{both}', or leave it out"
                )
                break
    if "sasl" in security:
        yield from _wrong_user(options)


def _wrong_user(options: Mapping[str, Any]) -> Iterator[Wrong]:
    mechanism = options.get("mechanism")
    if mechanism is None:
        why = f"it is one of {', '.join(_MECHANISMS)}"
        yield Wrong("E322", "", "a user is shown without a mechanism", why, "say mechanism 'SCRAM-SHA-512'")
        return
    wanted, others = (
        (("token_file",), ("username", "password"))
        if mechanism == BY_TOKEN
        else (("username", "password"), ("token_file",))
    )
    for name in wanted:
        if name not in options:
            yield Wrong("E322", "mechanism", f"{mechanism} is said without {name}", "", f"say {name} too")
    for name in others:
        if name in options:
            yield Wrong("E322", name, f"{name} is no part of {mechanism}", "", f"leave {name} out")


def _wrong_registry(options: Mapping[str, Any]) -> Iterator[Wrong]:
    address = options.get("registry")
    if not isinstance(address, str):
        return
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        yield Wrong("E324", "registry", "registry is no address of the web", "", "as in https://registry:8081")
    elif parts.username or parts.password:
        yield Wrong(
            "E322",
            "registry",
            "the registry's address holds a user or a password",
            "it would stand in plans and logs",
            "say registry_user, and registry_password as a secret",
        )


def _wrong_sending(options: Mapping[str, Any]) -> Iterator[Wrong]:
    most = options.get("in_flight")
    if isinstance(most, int | float) and not (most >= 1 and most == int(most) and most <= 5):
        why = "a producer of transactions has at most 5 under way"
        yield Wrong("E324", "in_flight", f"in_flight is {most}", why, "say 1 to 5")
    if options.get("keep") == "all":
        if options.get("format") != "raw":
            why = "keep 'all' sends records as they were collected"
            yield Wrong("E323", "keep", "keep 'all' is said without format 'raw'", why, "say format 'raw' too")
        for name in ("key", "headers", "ends"):
            if options.get(name):
                why = "keep 'all' sends records as they were collected, and nothing beside them"
                yield Wrong("E323", name, f"{name} is said with keep 'all'", why, "leave one of them out")
    elif options.get("format") == "raw":
        for name in ("key", "headers"):
            if name in options:
                why = f"format 'raw' takes the column{'s' if name == 'headers' else ''} {name}"
                yield Wrong("E323", name, f"{name} is said with format 'raw'", why, "leave it out")
