"""Conflicting options for Kafka are found before a connection is opened."""

from __future__ import annotations

from typing import Any

import pytest

from waterclock.connectors.kafka.option_definitions import wrong_options
from waterclock.flow.declarations import Secret

WORD = Secret("word")
USER = {"security": "sasl_ssl", "mechanism": "SCRAM-SHA-512", "username": "ann", "password": WORD}


def wrong(what: str, **options: Any) -> list[tuple[str, str]]:
    return [(found.code, found.option) for found in wrong_options(what, options, "orders")]


@pytest.mark.parametrize(
    "options",
    [
        {},
        USER,
        {**USER, "ca": "ca.pem", "certificate": "c.pem", "key": "k.pem", "key_password": WORD},
        {"security": "sasl_ssl", "mechanism": "OAUTHBEARER", "token_file": "/run/token"},
        {"security": "ssl", "ca": "ca.pem"},
        {"registry": "https://r:8081", "registry_user": "ann", "registry_password": WORD, "registry_ca": "ca.pem"},
    ],
)
def test_compatible_connection_options_are_accepted(options: dict[str, Any]) -> None:
    assert wrong("connection", **options) == []


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({**USER, "security": "ssl"}, [("E322", "mechanism")]),
        ({"security": "sasl_plaintext", "username": "a", "password": WORD}, [("E322", "")]),
        ({**USER, "mechanism": "OAUTHBEARER"}, [("E322", "mechanism"), ("E322", "username"), ("E322", "password")]),
        ({**USER, "token_file": "t"}, [("E322", "token_file")]),
        ({"security": "ssl", "certificate": "c.pem"}, [("E322", "certificate")]),
        ({"ca": "ca.pem"}, [("E322", "ca")]),
        ({"security": "ssl", "key_password": WORD}, [("E322", "key_password")]),
        ({"registry": "r:8081"}, [("E324", "registry")]),
        ({"registry": "https://ann:word@r"}, [("E333", "registry")]),
        ({"registry": "https://r", "registry_user": "ann"}, [("E322", "registry_user")]),
        ({"timeout": 0}, [("E324", "timeout")]),
    ],
)
def test_contradictory_connection_options_are_reported(options: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert wrong("connection", **options) == found


@pytest.mark.parametrize(
    ("what", "options", "found"),
    [
        ("collect", {"schema": "a.avsc"}, [("E323", "schema")]),
        ("collect", {"format": "raw", "metadata": True}, [("E323", "metadata")]),
        ("publish", {"keep": "all"}, [("E323", "keep")]),
        ("publish", {"keep": "all", "format": "raw", "ends": True}, [("E323", "ends")]),
        ("publish", {"format": "raw", "key": "id"}, [("E323", "key")]),
        ("publish", {"in_flight": 0}, [("E324", "in_flight")]),
        ("publish", {"in_flight": 9}, [("E324", "in_flight")]),
        ("publish", {"in_flight": 1, "ends": True, "key": "id"}, []),
    ],
)
def test_contradictory_topic_options_are_reported(
    what: str, options: dict[str, Any], found: list[tuple[str, str]]
) -> None:
    assert wrong(what, **options) == found
