"""Addresses of metastores are parsed."""

from __future__ import annotations

import pytest

from waterclock.flow.metastore import Metastore, parse_metastore


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("thrift://hive", Metastore("hive", 9083)),
        ("thrift://hive.example:19083/", Metastore("hive.example", 19083)),
        ("thrift://[::1]:9083", Metastore("::1", 9083)),
        ("http://hive:9083", None),
        ("thrift://hive:0", None),
        ("thrift://hive:65536", None),
        ("thrift://ann:word@hive:9083", None),
        ("thrift://a:1,thrift://b:1", None),
        ("thrift://hive:9083\n", None),
        ("", None),
    ],
)
def test_an_address_has_a_host_and_a_port(address: str, found: Metastore | None) -> None:
    assert parse_metastore(address) == found
